"""The emulated phone of `make host-test`: a device tree, cpufreq-dt, a kernel that lets sugov's kthreads be moved.

QEMU's ``virt`` machine has a device tree, but no clocks of CPUs and no operating points.  Both are added: each kind of
CPU has a clock as X-Gene's CPUs have it, a divider whose register is memory that the kernel leaves alone.  cpufreq-dt
switches slowly and from any CPU, so that schedutil has kthreads, and from v6.14 on the kernel does not bind them.
"""

from __future__ import annotations

from pathlib import Path

import arm64_guest
from guests import Files, Guest, install, kernel_since, run

GUEST = Guest("phone", "phone.sh", 4, "kills=10", architecture="arm64")
KERNEL = (6, 14)
PACKAGES = {"dtc": "device-tree-compiler"}
MODULES = ["virtio_blk", "cpufreq_userspace", "cpufreq-dt"]

# Of each CPU: its kind. Of each kind: the clock at the divider's 8/8 in MHz, DMIPS/MHz, uW/MHz/V^2, mV at 1/8 and 8/8.
CPUS = ["little", "big", "big", "little"]
KINDS = {"little": (1600, 485, 100, 600, 900), "big": (2400, 1024, 450, 600, 1000)}
# What the divider gives, in eighths.
EIGHTHS = (2, 3, 4, 5, 6, 7, 8)
# A slow switch, of which schedutil makes its rate limit.
LATENCY_NS = 500_000
REGISTERS, REGISTERS_BYTES = 0x5000_0000, 0x1_0000


def nodes() -> str:
    """Give what is added to QEMU's device tree, as source."""
    lines = [
        "/ {",
        "  reserved-memory { #address-cells = <2>; #size-cells = <2>; ranges;",
        f"    registers@{REGISTERS:x} {{ reg = <0 0x{REGISTERS:x} 0 0x{REGISTERS_BYTES:x}>; no-map; }};",
        "  };",
    ]
    for number, (kind, (mhz, _, _, low_mv, high_mv)) in enumerate(KINDS.items()):
        address = REGISTERS + 0x1000 * number
        lines += [
            f'  {kind}_pll: {kind}-pll {{ compatible = "fixed-clock"; #clock-cells = <0>;',
            f'    clock-output-names = "{kind}-pll"; clock-frequency = <{mhz * 1_000_000}>; }};',
            f'  {kind}_clock: {kind}-clock@{address:x} {{ compatible = "apm,xgene-pmd-clock"; #clock-cells = <0>;',
            f'    reg = <0 0x{address:x} 0 4>; clocks = <&{kind}_pll>; clock-output-names = "{kind}-clock"; }};',
            f'  {kind}_opps: {kind}-opps {{ compatible = "operating-points-v2"; opp-shared;',
        ]
        for eighths in EIGHTHS:
            uv = 1000 * (low_mv + (high_mv - low_mv) * (eighths - 1) // 7)
            hz = mhz * 1_000_000 * eighths // 8
            lines.append(f"    opp-{hz} {{ opp-hz = /bits/ 64 <{hz}>; opp-microvolt = <{uv}>;")
            lines.append(f"      clock-latency-ns = <{LATENCY_NS}>; }};")
        lines.append("  };")
    lines.append("};")
    for cpu, kind in enumerate(CPUS):
        _, dmips, coefficient, _, _ = KINDS[kind]
        lines += [
            f"&{{/cpus/cpu@{cpu}}} {{ clocks = <&{kind}_clock>; operating-points-v2 = <&{kind}_opps>;",
            f"  capacity-dmips-mhz = <{dmips}>; dynamic-power-coefficient = <{coefficient}>; }};",
        ]
    return "\n".join(lines) + "\n"


def machine(work: Path, guest: Guest, _image: Path) -> tuple[list[str], bytes]:
    """QEMU's words; the device tree is QEMU's own with our nodes."""
    qemu = ["qemu-system-aarch64", "-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"]
    virt = "virt,gic-version=3"
    hardware = ["-cpu", "cortex-a72", "-smp", str(guest.cpus), "-m", "1024"]
    run(*qemu[:1], "-M", f"{virt},dumpdtb={work / 'virt.dtb'}", *hardware, "-nodefaults", "-nographic")
    source = run("dtc", "-q", "-I", "dtb", "-O", "dts", str(work / "virt.dtb")).stdout
    (work / "phone.dts").write_text(source + nodes())
    run("dtc", "-q", "-I", "dts", "-O", "dtb", "-o", str(work / "phone.dtb"), str(work / "phone.dts"))
    qemu += ["-M", virt, *hardware, "-dtb", str(work / "phone.dtb")]
    return [*qemu, "-append", f"console=ttyAMA0 {guest.append}"], b""


def files(work: Path) -> Files:
    """What the phone is made of.

    Raises
    ------
    Skip
        If something of it is not to be had here, such as a kernel that is new enough.
    """
    common = arm64_guest.common(work)
    install(PACKAGES)
    root = kernel_since(work, "arm64", KERNEL)
    return Files(root, common.agent, common.programs, MODULES, machine)

"""The emulated x86 machines of `make host-test`: tables of the firmware that make acpi-cpufreq or amd-pstate bind."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from guests import ALL, ANY, KNOWS_ALL, Apt, Files, Guest, cpc, install, kernel, psd, register, run, ssdt

PACKAGES = {
    "qemu-system-x86_64": "qemu-system-x86",
    "iasl": "acpica-tools",
    "busybox": "busybox-static",
    "rt-app": "rt-app",
    "dpkg-deb": "dpkg",
}
MODULES = [
    "virtio", "virtio_ring", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk",
    "acpi-cpufreq", "cpufreq_ondemand", "cpufreq_conservative", "cpufreq_powersave", "cpufreq_userspace", "msr",
]  # fmt: skip

# Where the registers of CPPC are, and the one that holds the preference: amd-pstate has the latter only where the CPU
# itself keeps it.  What bank 1 of the machine checks found (IA32_MC1_ADDR) is kept as it was written.
REGISTERS, REGISTERS_BYTES, PREFERENCE = 0x3000_0000, 0x1_0000, 0x406
# Highest, nominal, lowest without loss of efficiency, lowest performance; the second and last in MHz.
PERFORMANCE, PERFORMANCE_MHZ = (170, 110, 60, 20), (2250, 400)
# To memory.  A CPU that is offline waits by MWAIT if it can, which QEMU makes a busy loop of: those guests have none.
SLEEPS = "mem_sleep_default=deep reboot=t"
EPP = Guest("epp", "epp.sh", 2, f"amd_pstate=active memmap={REGISTERS_BYTES}$0x{REGISTERS:x} kills=10")
GUESTS = [
    Guest("fast", "x86.sh", 2, "kills=50", coordination=ANY, domain=1),
    Guest("slow", "x86.sh", 2, "kills=10", coordination=ALL, domain=2),
    Guest("eight", "observe.sh", 8, "", coordination=ANY, domain=1),
    EPP,
    Guest("faults", "faults.sh", 2, SLEEPS, coordination=ANY, domain=1, features=",-monitor"),
]
# For `--soak`: it takes as long as it is asked to.
SOAK = Guest("soak", "soak.sh", 2, SLEEPS, coordination=ANY, domain=1, features=",-monitor")


def libraries(program: Path) -> list[Path]:
    """Give the shared libraries of a program, with the loader."""
    out = run("ldd", str(program)).stdout
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", out)]


def programs() -> dict[str, Path]:
    """Give a guest's programs, by their places in it, with their libraries."""
    rt_app = Path(shutil.which("rt-app") or "")
    # libgcc_s is loaded by threads that are cancelled.
    extra = [path for path in [Path("/lib/x86_64-linux-gnu/libgcc_s.so.1")] if path.exists()]
    found = {"bin/busybox": Path(shutil.which("busybox") or ""), "usr/bin/rt-app": rt_app}
    return found | {str(library).lstrip("/"): library for library in [*libraries(rt_app), *extra]}


def files(work: Path, agent: Path) -> Files:
    """What an x86 guest is made of: this machine's own programs.

    Raises
    ------
    Skip
        If something of it is not to be had here.
    """
    install(PACKAGES)
    return Files(kernel(work / "kernel", Apt(), "amd64"), agent, programs(), MODULES, machine)


def pstates(folder: Path, guest: Guest, freqs_mhz: list[int], first_port: int) -> Path:
    """Compile a table that gives each of QEMU's processor objects P-states, a control port and a domain."""
    states = ", ".join(
        f"Package () {{ {mhz}, {int(20000 * (mhz / freqs_mhz[0]) ** 2.4)}, 10, 10, {index}, {index} }}"
        for index, mhz in enumerate(freqs_mhz)
    )
    cpus = []
    for cpu in range(guest.cpus):
        domain = cpu // guest.domain
        register = f"ResourceTemplate () {{ Register (SystemIO, 8, 0, 0x{first_port + domain:X}, ) }}"
        objects = [
            f"Name (_PCT, Package () {{ {register}, {register} }})",
            f"Name (_PSS, Package () {{ {states} }})",
            "Method (_PPC, 0) { Return (0) }",
            psd(domain, guest.coordination, min(guest.domain, guest.cpus - domain * guest.domain)),
        ]
        cpus.append((f"\\_SB.CPUS.C{cpu:03X}", "ProcessorObj", objects))
    return ssdt(folder, "pstates", cpus)


def cppc(folder: Path, guest: Guest) -> Path:
    """Compile a table that gives each processor object registers of CPPC, one domain a CPU."""
    highest, nominal, lowest_nonlinear, lowest = PERFORMANCE
    nominal_mhz, lowest_mhz = PERFORMANCE_MHZ
    cpus = []
    for cpu in range(guest.cpus):
        names = ("desired", "minimum", "maximum", "enable", "autonomous")
        entries: dict[str, int | str] = {
            name: register(32, REGISTERS + 256 * cpu + 8 * place, 3) for place, name in enumerate(names)
        }
        entries |= {"highest": highest, "nominal": nominal, "lowest_nonlinear": lowest_nonlinear, "lowest": lowest}
        entries |= {"reference": nominal, "lowest_mhz": lowest_mhz, "nominal_mhz": nominal_mhz}
        entries["preference"] = register(8, PREFERENCE, 4, "FFixedHW")
        cpus.append((f"\\_SB.CPUS.C{cpu:03X}", "ProcessorObj", [cpc(entries), psd(cpu, ANY, 1)]))
    return ssdt(folder, "cppc", cpus, [KNOWS_ALL])


def machine(work: Path, guest: Guest, image: Path) -> tuple[list[str], bytes]:
    """QEMU's words for an x86 guest, and what goes before its initramfs: nothing."""
    if guest.name == EPP.name:
        table, model = cppc(work, guest), "vendor=AuthenticAMD,family=23,model=113,stepping=0"
    else:
        table = pstates(work, guest, [2250, 2000, 1500], 0x560)
        model = "vendor=GenuineIntel,family=6,model=85,stepping=7"
    words = ["qemu-system-x86_64", "-accel", "tcg,thread=single", "-M", "q35", "-smp", str(guest.cpus), "-m", "1024"]
    if "-6.1." not in image.name:
        # Time follows executed instructions, not the load of this machine; v6.1 does not boot like that.
        words += ["-icount", "shift=0,sleep=off"]
    words += ["-cpu", f"max,{model},-cx16{guest.features}", "-acpitable", f"file={table}"]
    for domain in range(guest.cpus):
        # The control ports, so that writes go somewhere.
        words += ["-chardev", f"file,id=p{domain},path={work / f'pstate_writes_{domain}.bin'}"]
        words += ["-device", f"isa-debugcon,iobase=0x{0x560 + domain:x},chardev=p{domain}"]
    words += ["-append", f"console=ttyS0 mitigations=off {guest.append}"]
    return words, b""

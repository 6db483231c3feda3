"""The emulated arm64 machine of `make host-test`: two kinds of CPUs, CPPC, an artificial energy model.

QEMU's ``virt`` machine has neither.  A table with ``_CPC`` objects makes ``cppc_cpufreq`` bind (its registers are plain
memory, an NVDIMM's), and the efficiency classes of CPUs are written into QEMU's own table of interrupt controllers,
which a first boot hands over; both replace the firmware's at boot.  The agent is built with the standard library of a
rustup target or of Debian's packages, which are downloaded and unpacked, not installed.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from guests import ANY, KNOWS_ALL, Apt, Files, Guest, Skip, cpc, cpio, install, kernel, psd, register, run, say, ssdt

GUEST = Guest("arm64", "arm64.sh", 4, "kills=10", architecture="arm64")
TARGET = "aarch64-unknown-linux-gnu"
FIRMWARE = "/usr/share/qemu-efi-aarch64/QEMU_EFI.fd"
PACKAGES = {
    "qemu-system-aarch64": "qemu-system-arm",
    FIRMWARE: "qemu-efi-aarch64",
    "iasl": "acpica-tools",
    "dpkg-deb": "dpkg",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
    "/usr/aarch64-linux-gnu/lib/libc.a": "libc6-dev-arm64-cross",
}
USERLAND = ["busybox-static", "rt-app", "libjson-c5", "libnuma1", "libc6", "libgcc-s1"]
# The frequency scale comes from what is requested: the registers' counters stand still.
MODULES = [
    "virtio_blk", "cppc_cpufreq fie_disabled=1",
    "cpufreq_ondemand", "cpufreq_conservative", "cpufreq_powersave", "cpufreq_userspace",
]  # fmt: skip

# Of each CPU: its kind. Of each kind: highest and lowest performance, the same in MHz, its efficiency class; as Juno's.
CPUS = ["little", "big", "big", "little"]
KINDS = {"little": (383, 181, 950, 450, 0), "big": (1024, 512, 1200, 600, 1)}
# Where an NVDIMM of 128 MiB begins with 1.5 GiB of memory: after the gigabyte that is begun.
REGISTERS = 0xC000_0000


def cppc(folder: Path) -> Path:
    """Compile a table that gives each CPU a ``_CPC`` package, and one domain a kind of CPU."""
    kinds = list(KINDS)
    cpus = []
    for cpu, kind in enumerate(CPUS):
        highest, lowest, highest_mhz, lowest_mhz, _ = KINDS[kind]
        # One register of the wish a domain, counters a CPU.
        entries: dict[str, int | str] = {
            "highest": highest,
            "nominal": highest,
            "lowest_nonlinear": lowest,
            "lowest": lowest,
            "desired": register(32, REGISTERS + 64 * CPUS.index(kind), 3),
            "reference_counter": register(64, REGISTERS + 64 * cpu + 16, 4),
            "delivered_counter": register(64, REGISTERS + 64 * cpu + 8, 4),
            "reference": highest,
            "lowest_mhz": lowest_mhz,
            "nominal_mhz": highest_mhz,
        }
        objects = [cpc(entries), psd(kinds.index(kind), ANY, CPUS.count(kind))]
        cpus.append((f"\\_SB.C{cpu:03X}", "DeviceObj", objects))
    return ssdt(folder, "cppc", cpus, [KNOWS_ALL])


def with_classes(madt: bytes, classes: list[int]) -> bytes:
    """QEMU's table of interrupt controllers with the efficiency classes of the CPUs, as a newer revision of it."""
    table = bytearray(madt)
    # ACPI 6.5, 5.2.12: entries begin at 44; type 11 is a CPU's interface, its byte 76 the class.
    at, left = 44, list(classes)
    while at + 2 <= len(table):
        kind, length = table[at], table[at + 1]
        if length == 0:
            break
        if kind == 11 and left:
            table[at + 76] = left.pop(0)
        at += length
    if left:
        raise Skip("QEMU's table of interrupt controllers has fewer CPUs than the guest")
    # The kernel takes a table only if its revision (byte 24) is newer; byte 9 makes the sum 0.
    table[24:28] = (int.from_bytes(table[24:28], "little") + 1).to_bytes(4, "little")
    table[9] = 0
    table[9] = -sum(table) & 255
    return bytes(table)


def machine(madt: bytes | None) -> Callable[[Path, Guest, Path], tuple[list[str], bytes]]:
    """Give the function that makes QEMU's words; without a table of interrupt controllers all tables stay."""

    def words(work: Path, guest: Guest, _image: Path) -> tuple[list[str], bytes]:
        early = b""
        if madt is not None:
            folder = "kernel/firmware/acpi"
            tables = {
                f"{folder}/cppc.aml": (0o100644, cppc(work).read_bytes()),
                f"{folder}/madt.aml": (0o100644, with_classes(madt, [KINDS[kind][4] for kind in CPUS])),
            }
            early = cpio(tables)
        qemu = ["qemu-system-aarch64", "-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"]
        qemu += ["-M", "virt,gic-version=3,nvdimm=on", "-cpu", "cortex-a72", "-smp", str(guest.cpus)]
        qemu += ["-m", "1536,maxmem=3G,slots=2", "-object", "memory-backend-ram,id=registers,size=128M"]
        qemu += ["-device", "nvdimm,memdev=registers", "-bios", FIRMWARE]
        return [*qemu, "-append", f"console=ttyAMA0 acpi=force {guest.append}"], early

    return words


def agent(work: Path, apt: Apt) -> Path:
    """Build the static agent for arm64, with rustup's target if it is installed, else with Debian's compiler."""
    root = Path(__file__).resolve().parent.parent
    environment = dict(os.environ)
    there = run("rustc", "--print", "target-libdir", "--target", TARGET, check=False).stdout.strip()
    if not (there and Path(there).is_dir()):
        compiler, library = debian_rust(work / "rust", apt, root)
        environment |= {"RUSTC": str(compiler), "LD_LIBRARY_PATH": str(library)}
    linker = "aarch64-linux-gnu-gcc"
    name = TARGET.replace("-", "_")
    environment |= {
        f"CARGO_TARGET_{name.upper()}_LINKER": linker,
        f"CC_{name}": linker,
        "RUSTFLAGS": "-C target-feature=+crt-static",
        # A build for one test: quick rather than small.
        "CARGO_PROFILE_AGENT_LTO": "off",
        "CARGO_PROFILE_AGENT_CODEGEN_UNITS": "8",
    }
    words = [
        "cargo",
        "build",
        "--profile",
        "agent",
        "--locked",
        "--quiet",
        "-p",
        "opplab-host",
        "--bin",
        "opplab-agent",
    ]
    words += ["--target", TARGET, "--target-dir", str(root / "target/agent-arm64")]
    say("building opplab-agent for arm64")
    done = subprocess.run(words, check=False, cwd=root, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise Skip(f"the agent for arm64 cannot be built:\n{done.stderr[-2000:]}")
    return root / "target/agent-arm64" / TARGET / "agent/opplab-agent"


def debian_rust(folder: Path, apt: Apt, root: Path) -> tuple[Path, Path]:
    """Download Debian's newest Rust with the library for arm64; its compiler and the folder of its libraries."""
    compiler, library = folder / "usr/bin/rustc", folder / "usr/lib/x86_64-linux-gnu"
    compiler, library = compiler.absolute(), library.absolute()
    if (folder / f"usr/lib/rustlib/{TARGET}").is_dir():
        return compiler, library
    wanted = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]

    def version(text: str) -> list[int]:
        return [int(number) for number in re.findall(r"\d+", text)[:2]]

    found = {}
    for name in ("rustc", "rustc-web"):
        line = re.search(r"^Version: (\S+)", apt.cache("show", "--no-all-versions", f"{name}:amd64"), re.MULTILINE)
        if line:
            found[name] = line[1]
    name = max(found, key=lambda name: version(found[name]), default="")
    if not name or version(found[name]) < version(wanted):
        offered = ", ".join(f"{name} {text}" for name, text in found.items()) or "none"
        raise Skip(f"no Rust {wanted} for {TARGET}: rustup has no such target installed, apt offers {offered}")
    # The compiler's own libraries, wherever they are in the chain of dependencies.
    names, new = [f"{name}:amd64"], [f"{name}:amd64"]
    while new:
        depends = re.findall(
            r"Depends: ((?:libstd-rust|libllvm)[\w.-]+)", "".join(apt.cache("depends", one) for one in new)
        )
        new = [f"{one}:amd64" for one in dict.fromkeys(depends) if f"{one}:amd64" not in names]
        names += new
    names += [one.replace(":amd64", ":arm64") for one in names if re.match(r"libstd-rust(-web)?-dev:", one)]
    apt.unpack(names, folder)
    return compiler, library


def userland(folder: Path, apt: Apt) -> dict[str, Path]:
    """Download the guest's programs and their libraries; place in the guest -> file."""
    if not folder.is_dir():
        apt.unpack([f"{name}:arm64" for name in USERLAND], folder)
    programs = {"bin/busybox": folder / "bin/busybox", "usr/bin/rt-app": folder / "usr/bin/rt-app"}
    programs["lib/ld-linux-aarch64.so.1"] = folder / "lib/ld-linux-aarch64.so.1"
    for libraries in (folder / "lib/aarch64-linux-gnu", folder / "usr/lib/aarch64-linux-gnu"):
        for path in libraries.glob("lib*.so.*"):
            programs[f"lib/aarch64-linux-gnu/{path.name}"] = path
    return programs


@functools.cache
def common(work: Path) -> Files:
    """What guests of arm64 have in common: programs, and the kernel and firmware of this one.

    Raises
    ------
    Skip
        If something of it is not to be had here.
    """
    if os.uname().machine != "x86_64" or shutil.which("apt-get") is None:
        raise Skip("it is made with the packages of Debian on x86-64")
    install(PACKAGES)
    apt = Apt(work / "apt", "arm64")
    root = kernel(work / "kernel", apt, "arm64")
    return Files(root, agent(work, apt), userland(work / "arm64", apt), MODULES, machine(None))


def files(work: Path, boot: Callable[[Files, Path, Guest, float], tuple[str, int]]) -> Files:
    """What the arm64 guest is made of.

    Raises
    ------
    Skip
        If something of it is not to be had here.
    """
    made = common(work)
    out = work / "out" / "arm64-tables"
    text, status = boot(replace(made, agent=None), out, replace(GUEST, name="tables", script="tables.sh"), 180)
    if status != 0 or not (out / "APIC").is_file():
        raise Skip(f"a first boot gave no firmware tables; its console is in {out}: {text.strip()}")
    return replace(made, machine=machine((out / "APIC").read_bytes()))

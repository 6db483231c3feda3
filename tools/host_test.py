"""Run opplab-agent as root in emulated machines with stock Debian kernels, and check what it did.

``python tools/host_test.py AGENT`` (or ``make host-test``) installs QEMU and a kernel package if it may, boots guests
whose firmware has P-states, so that ``acpi-cpufreq`` binds, runs a script of ``tests/host`` in each, and prints the
steps.  Exit code 1 if a step failed; 0 with a line ``skipped: ...`` where the machine cannot emulate.
"""

from __future__ import annotations

import argparse
import lzma
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent / "tests" / "host"
PACKAGES = {
    "qemu-system-x86_64": "qemu-system-x86",
    "iasl": "acpica-tools",
    "busybox": "busybox-static",
    "rt-app": "rt-app",
    "dpkg-deb": "dpkg",
}
AGENT_BYTES_MAX = 5_000_000
MODULES = [
    "virtio", "virtio_ring", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk",
    "acpi-cpufreq", "cpufreq_ondemand", "cpufreq_conservative", "cpufreq_powersave", "cpufreq_userspace", "msr",
]  # fmt: skip


@dataclass(frozen=True)
class Guest:
    """An emulated machine: what runs in it, its CPUs, ACPI's coordination of P-states, and CPUs of a domain.

    Coordination 0xfd: any CPU may switch, so acpi-cpufreq switches fast; 0xfc: all must, so ``sugov`` kthreads do it.
    """

    name: str
    script: str
    cpus: int
    coordination: int
    domain: int
    append: str


GUESTS = [
    Guest("fast", "x86.sh", 2, 0xFD, 1, "kills=50"),
    Guest("slow", "x86.sh", 2, 0xFC, 2, "kills=6"),
    Guest("eight", "observe.sh", 8, 0xFD, 1, ""),
]


class Skip(Exception):
    """Why the machine at hand cannot run the test."""


def say(words: str) -> None:
    """Print at once, also into a pipe."""
    print(words, flush=True)


def run(*words: str, check: bool = True, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program and give its output."""
    return subprocess.run(words, check=check, cwd=cwd, capture_output=True, text=True)


def install() -> None:
    """Install the programs that are missing."""
    missing = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise Skip(f"no apt-get to install {', '.join(missing)}")
    if os.geteuid() != 0:
        raise Skip(f"not root, so {', '.join(missing)} cannot be installed")
    say(f"installing {' '.join(missing)}")
    run("apt-get", "update", "-qq", check=False)
    done = run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing, check=False)
    if done.returncode != 0:
        raise Skip(f"{' '.join(missing)} cannot be installed: {done.stderr.strip().splitlines()[-1:]}")


def kernel(folder: Path) -> Path:
    """Download and unpack (not install) a stock kernel: 6.12 if the release offers it, else the release's own."""
    ready = sorted(folder.glob("*/boot/vmlinuz-*"))
    if ready:
        return ready[-1].parent.parent
    folder.mkdir(parents=True, exist_ok=True)
    names = run("apt-cache", "pkgnames", "linux-image-6.12", check=False).stdout.split()
    stock = [name for name in names if re.fullmatch(r"linux-image-6\.12\.\d+[^-]*-amd64", name)]
    stock.sort(key=lambda name: [int(number) for number in re.findall(r"\d+", name)])
    if not stock:
        depends = run("apt-cache", "depends", "--important", "linux-image-amd64", check=False).stdout
        stock = re.findall(r"(linux-image-\S+-amd64)", depends)[-1:]
    if not stock:
        raise Skip("apt knows no package linux-image-*-amd64")
    name = stock[-1]
    say(f"downloading {name}")
    # As the user _apt cannot write here, apt warns and downloads as root.
    if run("apt-get", "download", name, check=False, cwd=folder).returncode != 0:
        raise Skip(f"{name} cannot be downloaded")
    package = next(folder.glob("linux-image-*.deb"))
    run("dpkg-deb", "-x", str(package), str(folder / name))
    package.unlink()
    return folder / name


def cpio(files: dict[str, tuple[int, bytes]]) -> bytes:
    """Write an archive of the form that the kernel unpacks (newc); folders are made as needed."""
    folders = {str(parent) for name in files for parent in Path(name).parents if str(parent) != "."}
    entries = [(name, 0o040755, b"") for name in sorted(folders)]
    entries += [(name, mode, data) for name, (mode, data) in sorted(files.items())]
    entries.append(("TRAILER!!!", 0, b""))
    out = bytearray()
    for number, (name, mode, data) in enumerate(entries, 1):
        fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        out += b"070701" + "".join(f"{field:08x}" for field in fields).encode() + name.encode() + b"\0"
        out += bytes(-len(out) % 4) + data
        out += bytes(-len(out) % 4)
    return bytes(out)


def libraries(program: Path) -> list[Path]:
    """Give the shared libraries of a program, with the loader."""
    out = run("ldd", str(program)).stdout
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", out)]


def initramfs(root: Path, agent: Path, script: str) -> bytes:
    """Make the guest's files: busybox, rt-app, the agent, modules, the test."""
    files: dict[str, tuple[int, bytes]] = {}

    def add(name: str, data: bytes, mode: int = 0o100644) -> None:
        files[name] = (mode, data)

    def program(path: Path, name: str) -> None:
        add(name, path.read_bytes(), 0o100755)

    program(Path(shutil.which("busybox") or ""), "bin/busybox")
    program(agent, "bin/opplab-agent")
    rt_app = Path(shutil.which("rt-app") or "")
    program(rt_app, "usr/bin/rt-app")
    # Dynamically, for threads that are cancelled.
    extra = [path for path in [Path("/lib/x86_64-linux-gnu/libgcc_s.so.1")] if path.exists()]
    for library in [*libraries(rt_app), *extra]:
        program(library, str(library).lstrip("/"))
    order = []
    for module in MODULES:
        for path in root.glob(f"lib/modules/*/kernel/**/{module}.ko*"):
            data = path.read_bytes()
            add(f"modules/{module}.ko", lzma.decompress(data) if path.suffix == ".xz" else data)
            order.append(f"{module}.ko")
    add("modules/order", "\n".join(order).encode())
    add("init", (HERE / "init").read_bytes(), 0o100755)
    add("test/run.sh", (HERE / script).read_bytes())
    for name in ("load.json", "probes.events"):
        add(f"test/{name}", (HERE / name).read_bytes())
    return cpio(files)


def ssdt(folder: Path, guest: Guest, freqs_mhz: list[int], first_port: int) -> Path:
    """Compile a table that gives each of QEMU's processor objects P-states, a control port and a domain."""
    cpus, domain = guest.cpus, guest.domain
    lines = ['DefinitionBlock ("", "SSDT", 2, "OPPLAB", "PSTATES", 1) {']
    lines += [f"  External (\\_SB.CPUS.C{cpu:03X}, ProcessorObj)" for cpu in range(cpus)]
    for cpu in range(cpus):
        port = first_port + cpu // domain
        register = f"ResourceTemplate () {{ Register (SystemIO, 8, 0, 0x{port:X}, ) }}"
        states = ", ".join(
            f"Package () {{ {mhz}, {int(20000 * (mhz / freqs_mhz[0]) ** 2.4)}, 10, 10, {index}, {index} }}"
            for index, mhz in enumerate(freqs_mhz)
        )
        number = min(domain, cpus - cpu // domain * domain)
        dependency = f"5, 0, {cpu // domain}, 0x{guest.coordination:X}, {number}"
        lines += [
            f"  Scope (\\_SB.CPUS.C{cpu:03X}) {{",
            f"    Name (_PCT, Package () {{ {register}, {register} }})",
            f"    Name (_PSS, Package () {{ {states} }})",
            "    Method (_PPC, 0) { Return (0) }",
            f"    Name (_PSD, Package () {{ Package () {{ {dependency} }} }})",
            "  }",
        ]
    lines.append("}")
    source = folder / "pstates.asl"
    source.write_text("\n".join(lines) + "\n")
    run("iasl", "-p", str(folder / "pstates"), str(source))
    return folder / "pstates.aml"


def boot(root: Path, agent: Path, out: Path, guest: Guest, timeout_s: float) -> tuple[str, int]:
    """Boot the guest; give what its script printed and its status. The files of its /out come to ``out``."""
    cpus = guest.cpus
    work = Path(tempfile.mkdtemp(prefix="opplab-guest-"))
    try:
        (work / "initrd").write_bytes(initramfs(root, agent, guest.script))
        table = ssdt(work, guest, [2250, 2000, 1500], 0x560)
        disk = work / "disk"
        disk.write_bytes(b"")
        os.truncate(disk, 256 << 20)
        image = next(iter(sorted(root.glob("boot/vmlinuz-*"))))
        words = ["qemu-system-x86_64", "-accel", "tcg,thread=single", "-M", "q35", "-smp", str(cpus), "-m", "1024"]
        if "-6.1." not in image.name:
            # Time follows executed instructions, not the load of this machine; v6.1 does not boot like that.
            words += ["-icount", "shift=0,sleep=off"]
        words += ["-cpu", "max,vendor=GenuineIntel,family=6,model=85,stepping=7,-cx16", "-seed", "1"]
        words += ["-nographic", "-no-reboot", "-nodefaults", "-serial", f"file:{work / 'console'}"]
        words += ["-kernel", str(image), "-initrd", str(work / "initrd"), "-acpitable", f"file={table}"]
        words += ["-drive", f"file={disk},format=raw,if=virtio"]
        for domain in range(cpus):
            # The control ports, so that writes go somewhere.
            words += ["-chardev", f"file,id=p{domain},path={work / f'port{domain}'}"]
            words += ["-device", f"isa-debugcon,iobase=0x{0x560 + domain:x},chardev=p{domain}"]
        words += [
            "-append",
            f"console=ttyS0 quiet panic=-1 oops=panic mitigations=off nokaslr noautogroup {guest.append}",
        ]
        try:
            done = subprocess.run(
                words, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s
            )
        except subprocess.TimeoutExpired:
            done = None
        console = (work / "console").read_bytes().decode(errors="replace").replace("\r", "")
        out.mkdir(parents=True, exist_ok=True)
        (out / "console.txt").write_text(console)
        for domain in range(cpus):
            shutil.copy(work / f"port{domain}", out / f"pstate_writes_{domain}.bin")
        found = re.search(r"@@BEGIN\n(.*)@@END (\d+)", console, re.DOTALL)
        if found is None:
            why = "it took too long" if done is None else done.stderr[-500:]
            begun = console.partition("@@BEGIN\n")[2]
            return f"{begun}\nnot ok: the guest did not come to an end ({why}); console in {out}\n", 1
        try:
            with tarfile.open(disk) as archive:
                archive.extractall(out, filter="data")
        except tarfile.TarError as error:
            return f"{found[1]}\nnot ok: no files came out of the guest: {error}\n", 1
        return found[1], int(found[2])
    finally:
        shutil.rmtree(work)


def is_static(agent: Path) -> bool:
    """Whether a program needs no loader."""
    return b"/ld-linux" not in agent.read_bytes()


def verify_recording(folder: Path) -> bool:
    """Open the guest's recording as users do, and recompute what its kernel decided; true if nothing is wrong."""
    archive = folder / "recording.tar.zst"
    if not archive.exists():
        return True
    opplab = [sys.executable, "-m", "opplab"]
    if run(*opplab, "--version", check=False).returncode != 0:
        say("skipped: the recording was not verified, as opplab is not built (make dev)")
        return True
    for words in (["trace", "info"], ["verify", "traces"], ["replay"]):
        done = run(*opplab, *words, str(archive), check=False)
        say(done.stdout.rstrip())
        say(f"{'ok' if done.returncode == 0 else 'not ok'} opplab {' '.join(words)} {done.stderr.strip()}")
        if done.returncode != 0:
            return False
    return True


def main() -> int:
    """Run all guests."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("agent", type=Path, help="the static opplab-agent")
    parser.add_argument("--work", type=Path, default=Path("target/host-test"), help="folder for the kernel and output")
    parser.add_argument("--only", choices=[guest.name for guest in GUESTS], help="run one guest")
    parser.add_argument("--append", default="", help="words for the guest's kernel command line, such as kills=10")
    parser.add_argument("--timeout", type=float, default=840, metavar="S", help="longest time for all guests")
    options = parser.parse_args()
    start = time.monotonic()
    try:
        install()
        root = kernel(options.work / "kernel")
    except Skip as why:
        say(f"skipped: {why}")
        return 0
    agent: Path = options.agent
    size = agent.stat().st_size
    is_program = is_static(agent) and bool(agent.stat().st_mode & stat.S_IXUSR)
    results = [(f"agent is static and executable ({size} bytes)", is_program)]
    results.append(("agent is under 5 MB", size < AGENT_BYTES_MAX))
    for what, good in results:
        say(f"{'ok' if good else 'not ok'} {what}")
    passed = all(good for _, good in results)
    shutil.rmtree(options.work / "out", ignore_errors=True)
    for guest in GUESTS:
        if options.only not in (None, guest.name):
            continue
        begin = time.monotonic()
        out = options.work / "out" / guest.name
        chosen = replace(guest, append=f"{guest.append} {options.append}".strip())
        text, status = boot(root, agent, out, chosen, options.timeout - (begin - start))
        say(text.rstrip())
        good = status == 0 and "not ok" not in text and verify_recording(out)
        say(f"guest {guest.name} {'passed' if good else 'FAILED'} in {time.monotonic() - begin:.0f} s; output in {out}")
        passed &= good
    say(f"{'passed' if passed else 'FAILED'} in {time.monotonic() - start:.0f} s")
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())

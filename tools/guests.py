"""What the emulated machines of `make host-test` have in common: programs, packages, archives for the kernel."""

from __future__ import annotations

import lzma
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent / "tests" / "host"
# ACPI's coordination of P-states. 0xfd: any CPU may switch, so acpi-cpufreq switches fast; 0xfc: all must, so `sugov`
# kthreads do it.
ANY, ALL = 0xFD, 0xFC


@dataclass(frozen=True)
class Guest:
    """An emulated machine: the script that runs in it, its CPUs, words for its kernel.

    On x86 also ACPI's coordination of P-states, the number of CPUs of a domain and features of the CPU.
    """

    name: str
    script: str
    cpus: int
    append: str
    architecture: str = "amd64"
    coordination: int = 0
    domain: int = 1
    features: str = ""


@dataclass(frozen=True)
class Files:
    """What guests of an architecture are made of.

    ``root``: an unpacked kernel package; ``programs``: place in the guest -> file; ``modules``: names, each with its
    options; ``machine``: from a folder for tables, the guest and the kernel to QEMU's words (the kernel's command line
    last) and to what goes before the initramfs.
    """

    root: Path
    agent: Path | None
    programs: Mapping[str, Path]
    modules: Sequence[str]
    machine: Callable[[Path, Guest, Path], tuple[list[str], bytes]]


# Who signs Debian's lists, and where kernels are that are newer than its releases'.
SIGNED = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
NEWER_KERNELS = "trixie-backports"


class Skip(Exception):
    """Why the machine at hand cannot run a guest."""


def say(words: str) -> None:
    """Print at once, also into a pipe."""
    print(words, flush=True)


def run(
    *words: str, check: bool = True, cwd: Path | None = None, timeout_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program without input and give its output."""
    return subprocess.run(
        words, check=check, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s
    )


def install(packages: Mapping[str, str]) -> None:
    """Install the packages (values) whose programs or files (keys) are missing."""
    there = {name: Path(name).exists() if name.startswith("/") else shutil.which(name) for name in packages}
    missing = [package for name, package in packages.items() if not there[name]]
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


class Apt:
    """apt's lists, the system's own or, with a folder, private ones that have a foreign architecture, too.

    With a suite they are Debian's lists of that suite instead of those of the system.
    """

    def __init__(self, folder: Path | None = None, foreign: str = "", suite: str = "") -> None:
        self.options: list[str] = []
        if folder is None:
            return
        folder = folder.absolute()
        for part in ("lists/partial", "cache/archives/partial"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        native = run("dpkg", "--print-architecture").stdout.strip()
        pairs = {
            "APT::Architectures::": [native, foreign],
            "Dir::State": [str(folder)],
            "Dir::State::status": ["/var/lib/dpkg/status"],
            "Dir::Cache": [str(folder / "cache")],
            # The user _apt may not write here.
            "APT::Sandbox::User": ["root"],
        }
        if suite:
            (folder / "sources.list").write_text(f"deb {SIGNED} {debian()} {suite} main\n")
            pairs |= {"Dir::Etc::sourcelist": [str(folder / "sources.list")], "Dir::Etc::sourceparts": ["/dev/null"]}
        self.options = [word for key, values in pairs.items() for value in values for word in ("-o", f"{key}={value}")]
        done = run("apt-get", *self.options, "update", "-qq", check=False)
        if done.returncode != 0:
            raise Skip(f"apt has no lists of {suite} {foreign}: {done.stderr.strip().splitlines()[-1:]}")

    def cache(self, *words: str) -> str:
        """What ``apt-cache`` prints."""
        return run("apt-cache", *self.options, *words, check=False).stdout

    def unpack(self, names: Sequence[str], folder: Path) -> None:
        """Download and unpack (not install) packages into a folder."""
        packed = folder / "packages"
        packed.mkdir(parents=True, exist_ok=True)
        say(f"downloading {' '.join(names)}")
        done = run("apt-get", *self.options, "download", *names, check=False, cwd=packed)
        if done.returncode != 0:
            raise Skip(f"{' '.join(names)} cannot be downloaded: {done.stderr.strip().splitlines()[-1:]}")
        for package in packed.glob("*.deb"):
            run("dpkg-deb", "-x", str(package), str(folder))
        shutil.rmtree(packed)


def kernel(folder: Path, apt: Apt, architecture: str, version: str = "6.12") -> Path:
    """Download and unpack a stock kernel: of this version if the release offers it, else the release's own."""
    ready = sorted(folder.glob(f"*-{architecture}/boot/vmlinuz-*"))
    if ready:
        return ready[-1].parent.parent
    names = apt.cache("pkgnames", f"linux-image-{version}").split()
    one = rf"linux-image-{re.escape(version)}\.\d+[^-]*(-\d+)?-{architecture}"
    stock = [name for name in names if re.fullmatch(one, name)]
    stock.sort(key=lambda name: [int(number) for number in re.findall(r"\d+", name)])
    if not stock:
        depends = apt.cache("depends", "--important", f"linux-image-{architecture}:{architecture}")
        stock = re.findall(rf"(linux-image-\S+-{architecture})", depends)[-1:]
    if not stock:
        raise Skip(f"apt knows no package linux-image-*-{architecture}")
    apt.unpack([f"{stock[-1]}:{architecture}"], folder / stock[-1])
    return folder / stock[-1]


def debian() -> str:
    """Give the place of Debian's packages that the system uses."""
    places = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(ORIGIN) $(LABEL)", check=False).stdout
    found = re.search(r"^(\S+) Debian Debian$", places, re.MULTILINE)
    if found is None:
        raise Skip("apt has no packages of Debian")
    return found[1]


def kernel_since(work: Path, architecture: str, version: tuple[int, int]) -> Path:
    """Download and unpack the first stock kernel of Debian's backports that is of this version or a later one."""
    folder = work / "newer-kernel"
    ready = sorted(folder.glob(f"*-{architecture}/boot/vmlinuz-*"))
    if ready:
        return ready[-1].parent.parent
    apt = Apt(work / "newer-apt", architecture, NEWER_KERNELS)
    names = apt.cache("pkgnames", "linux-image-").split()
    numbers = {name: [int(number) for number in re.findall(r"\d+", name)] for name in names}
    stock = [name for name in names if re.fullmatch(rf"linux-image-\d+\.\d+\.\d+[^-]*-{architecture}", name)]
    new = sorted((name for name in stock if (*numbers[name][:2],) >= version), key=lambda name: numbers[name])
    if not new:
        raise Skip(f"{NEWER_KERNELS} has no kernel {version[0]}.{version[1]} or newer for {architecture}")
    apt.unpack([f"{new[0]}:{architecture}"], folder / new[0])
    return folder / new[0]


def ssdt(folder: Path, name: str, cpus: Sequence[tuple[str, str, Sequence[str]]], more: Sequence[str] = ()) -> Path:
    """Compile a table that gives each CPU (its path, its ACPI type) what is written into its scope."""
    lines = [f'DefinitionBlock ("", "SSDT", 2, "OPPLAB", "{name.upper()}", 1) {{']
    lines += [f"  External ({path}, {kind})" for path, kind, _ in cpus]
    lines += [f"  {line}" for line in more]
    for path, _, objects in cpus:
        lines += [f"  Scope ({path}) {{", *(f"    {line}" for line in objects), "  }"]
    source = folder / f"{name}.asl"
    source.write_text("\n".join([*lines, "}"]) + "\n")
    run("iasl", "-p", str(folder / name), str(source))
    return folder / f"{name}.aml"


def psd(domain: int, coordination: int, cpus: int) -> str:
    """Give the object that states which CPUs switch together: the domain, how it is coordinated, how many are in it."""
    return f"Name (_PSD, Package () {{ Package () {{ 5, 0, {domain}, 0x{coordination:X}, {cpus} }} }})"


# The entries of a _CPC package behind their number and the revision (ACPI 6.5, 8.4.6.1).
CPC = (
    "highest", "nominal", "lowest_nonlinear", "lowest", "guaranteed", "desired", "minimum", "maximum", "tolerance",
    "window", "wraparound", "reference_counter", "delivered_counter", "limited", "enable", "autonomous", "activity",
    "preference", "reference", "lowest_mhz", "nominal_mhz",
)  # fmt: skip
# The kernel asks whether the platform knows CPPC; it knows all that is asked for.
KNOWS_ALL = "Scope (\\_SB) { Method (_OSC, 4) { Return (Arg3) } }"
NO_REGISTER = "ResourceTemplate () { Register (SystemMemory, 0, 0, 0, ) }"


def register(bits: int, address: int, access: int, space: str = "SystemMemory") -> str:
    """Give a register of so many bits that is accessed as 2 to the power of `access` - 1 bytes."""
    return f"ResourceTemplate () {{ Register ({space}, {bits}, 0, 0x{address:X}, {access}) }}"


def cpc(entries: Mapping[str, int | str]) -> str:
    """Give the object of a CPU's CPPC registers and numbers; what is not given is not there."""
    values = [23, 3, *(entries.get(name, NO_REGISTER) for name in CPC)]
    return f"Name (_CPC, Package () {{ {', '.join(map(str, values))} }})"


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


def initramfs(files: Files, script: str) -> bytes:
    """Make the guest's files: programs, the agent, modules, the test."""
    content = {name: (0o100755, path.read_bytes()) for name, path in files.programs.items()}
    if files.agent:
        content["bin/opplab-agent"] = (0o100755, files.agent.read_bytes())
    order: list[str] = []
    options = {module: words for module, _, words in (line.partition(" ") for line in files.modules)}

    def add(module: str) -> None:
        """Add a module behind those that it needs."""
        name = re.sub("[-_]", "[-_]", module)
        # Newer packages have their files below usr.
        for top in ("", "usr/"):
            for path in files.root.glob(f"{top}lib/modules/*/kernel/**/{name}.ko*"):
                data = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
                file = path.name.partition(".")[0] + ".ko"
                if f"modules/{file}" in content:
                    continue
                content[f"modules/{file}"] = (0o100644, data)
                needs = re.search(rb"\0depends=([^\0]*)\0", data)
                for needed in (needs[1].decode() if needs else "").split(","):
                    if needed:
                        add(needed)
                order.append(f"{file} {options.get(module, '')}\n")

    for module in options:
        add(module)
    content["modules/order"] = (0o100644, "".join(order).encode())
    content["init"] = (0o100755, (HERE / "init").read_bytes())
    content["test/run.sh"] = (0o100644, (HERE / script).read_bytes())
    for name in ("steps.sh", "load.json", "periodic.json", "bursts.sh", "probes.events"):
        content[f"test/{name}"] = (0o100644, (HERE / name).read_bytes())
    return cpio(content)


def empty_disk(work: Path) -> Path:
    """Make the disk to which a guest writes its /out."""
    disk = work / "out"
    disk.write_bytes(b"")
    os.truncate(disk, 256 << 20)
    return disk


def handed_over(consoles: Sequence[Path], disk: Path, out: Path, why: str) -> tuple[str, int]:
    """Give what a guest's script printed and its status; the files of its /out come to ``out``.

    ``why`` is the reason if the script did not come to its end.
    """
    text = b"".join(console.read_bytes() for console in consoles if console.exists())
    console = text.decode(errors="replace").replace("\r", "")
    (out / "console.txt").write_text(console)
    found = re.search(r"@@BEGIN\n(.*)@@END (\d+)", console, re.DOTALL)
    if found is None:
        begun = console.partition("@@BEGIN\n")[2]
        return f"{begun}\nnot ok: the guest did not come to an end ({why}); console in {out}\n", 1
    try:
        with tarfile.open(disk) as archive:
            archive.extractall(out, filter="data")
    except tarfile.TarError as error:
        return f"{found[1]}\nnot ok: no files came out of the guest: {error}\n", 1
    return found[1], int(found[2])

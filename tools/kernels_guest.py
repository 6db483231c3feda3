"""The guest of `make host-test` that restarts into one of two kernels, by GRUB on a disk that outlives the starts.

Its clock matters: a module (``tests/host/made_clock.c``), built with Debian's headers, takes the CPU away from what
runs, in proportion to the clock that a governor asks for, and counts energy.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import x86_guest
from guests import HERE, Apt, Files, Guest, Skip, empty_disk, handed_over, initramfs, install, kernel, run

LOAD = "periodic.json"
GUEST = Guest("kernels", "kernels.sh", 1, "")
PACKAGES = {
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "rt-app": "rt-app",
    "mke2fs": "e2fsprogs",
}
# Where they are unpacked (the first one is that of the other guests), and their versions; the first is the guest's own.
KERNELS = [("kernel", "6.12"), ("older-kernel", "6.1")]
MODULES = ["virtio_pci", "virtio_blk", "crc32c_generic", "ext4", "made_clock"]
# GRUB's modules: the disk, its environment, a kernel.
GRUB = ["biosdisk", "part_msdos", "ext2", "normal", "linux", "loadenv", "configfile", "test", "echo"]
# As Debian's update-grub writes it: a one-shot entry is forgotten before its kernel starts.
HEAD = """\
load_env
if [ "${next_entry}" ] ; then
  set default="${next_entry}"
  set next_entry=
  save_env next_entry
else
  set default="${saved_entry}"
fi
menuentry_id_option="--id"
set timeout=0
"""
SECTOR, PART_BYTES, PART_START = 512, 256 << 20, 1 << 20


def built(folder: Path, apt: Apt, release: str) -> Path:
    """Unpack a kernel and its headers, and build the module into its tree."""
    root = kernel(folder, apt, "amd64", release)
    name = next(root.glob("boot/vmlinuz-*")).name.removeprefix("vmlinuz-")
    headers = root / "usr/src" / f"linux-headers-{name}"
    common = headers.with_name(headers.name.replace("-amd64", "-common"))
    if not headers.exists():
        depends = apt.cache("depends", "--important", headers.name).split()
        kbuild = [word for word in depends if word.startswith("linux-kbuild-")]
        apt.unpack([headers.name, common.name, *kbuild], root)
    (headers / "Makefile").write_text(f"include {common.absolute()}/Makefile\n")
    # It is built again if it is older than its source.
    module = root / f"lib/modules/{name}/kernel/made/made_clock.ko"
    source = HERE / "made_clock.c"
    if not module.exists() or module.stat().st_mtime < source.stat().st_mtime:
        place = module.parent
        place.mkdir(exist_ok=True)
        shutil.copy(source, place)
        (place / "Kbuild").write_text("obj-m := made_clock.o\n")
        words = ["make", "-C", str(headers), f"M={place.absolute()}", "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"]
        done = run(*words, check=False)
        if done.returncode != 0:
            raise Skip(f"the module is not built: {done.stderr.strip().splitlines()[-1:]}")
    return root


def files(work: Path, agent: Path) -> list[Files]:
    """What the guest is made of, a kernel each; its own one first.

    Raises
    ------
    Skip
        If something of it is not to be had here.
    """
    install(PACKAGES)
    apt = Apt()
    programs = x86_guest.programs()
    roots = [built(work / folder, apt, release) for folder, release in KERNELS]
    if roots[0].name == roots[1].name:
        raise Skip(f"apt has one kernel only, {roots[0].name}")
    return [Files(root, agent, programs, MODULES, x86_guest.machine) for root in roots]


def grub(work: Path) -> bytes:
    """GRUB's sectors in front of the first partition."""
    root = work / "grub"
    if not (root / "usr/bin/grub-mkimage").exists():
        Apt().unpack(["grub-pc-bin", "grub-common"], root)
    folder = root / "usr/lib/grub/i386-pc"
    core = work / "core.img"
    words = [str(root / "usr/bin/grub-mkimage"), "-O", "i386-pc", "-d", str(folder), "-p", "(,msdos1)/boot/grub"]
    run(*words, "-o", str(core), *GRUB)
    return (folder / "boot.img").read_bytes() + core.read_bytes()


def disk(place: Path, code: bytes, kernels: list[Files]) -> None:
    """Write a disk from which GRUB (its sectors) starts one of the kernels, the first one by itself."""
    tree = place.with_suffix(".tree")
    entries, names = HEAD, []
    for boot in ("boot/grub", "etc/systemd/system"):
        (tree / boot).mkdir(parents=True)
    for one in kernels:
        image = next(iter(sorted(one.root.glob("boot/vmlinuz-*"))))
        name = image.name.removeprefix("vmlinuz-")
        shutil.copy(image, tree / "boot")
        (tree / f"boot/initrd-{name}").write_bytes(initramfs(one, GUEST.script))
        words = "console=ttyS0 mitigations=off quiet panic=-1 oops=panic nokaslr noautogroup"
        entries += f"menuentry '{name}' $menuentry_id_option 'gnulinux-{name}' {{\n"
        entries += f"\tlinux /boot/vmlinuz-{name} {words}\n\tinitrd /boot/initrd-{name}\n}}\n"
        names.append(name)
    (tree / "boot/grub/grub.cfg").write_text(entries)
    block = f"# GRUB Environment Block\nsaved_entry=gnulinux-{names[0]}\n"
    (tree / "boot/grub/grubenv").write_text(f"{block:#<1024}")
    (tree / "kernels").write_text(",".join(names))
    part = place.with_suffix(".part")
    # What GRUB's reader of the file system knows.
    form = "^metadata_csum_seed,^orphan_file,^metadata_csum,^64bit"
    run("mke2fs", "-q", "-t", "ext4", "-O", form, "-d", str(tree), str(part), f"{PART_BYTES >> 10}k")
    head = bytearray(PART_START)
    head[: len(code)] = code
    entry = bytes([0x80, 0, 0, 0, 0x83, 0, 0, 0])
    entry += (PART_START // SECTOR).to_bytes(4, "little") + (PART_BYTES // SECTOR).to_bytes(4, "little")
    # Where the table is, GRUB's image has code for floppy disks.
    head[446:512] = entry + bytes(48) + b"\x55\xaa"
    with place.open("wb") as whole:
        whole.write(head)
        with part.open("rb") as content:
            shutil.copyfileobj(content, whole)
    part.unlink()
    shutil.rmtree(tree)


def boot(packages: Path, kernels: list[Files], out: Path, losses: int, timeout_s: float) -> tuple[str, int]:
    """Start the guest, and go on where its power went, so many times at random moments, until its script ends."""
    code = grub(packages)
    work = Path(tempfile.mkdtemp(prefix="opplab-guest-"))
    out.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + timeout_s
    draw = random.Random(losses)
    try:
        place, handed = work / "disk", empty_disk(work)
        disk(place, code, kernels)
        consoles = [work / f"console{number}" for number in range(losses + 1)]
        for console in consoles:
            # Moments of our time: from before GRUB to after some restarts.
            left_s = until - time.monotonic() if console == consoles[-1] else draw.uniform(1, 60)
            try:
                done = run(*words(place, handed, console), check=False, timeout_s=max(left_s, 1))
            except subprocess.TimeoutExpired:
                continue
            return handed_over(consoles, handed, out, done.stderr[-500:])
        return handed_over(consoles, handed, out, "it took too long")
    finally:
        shutil.rmtree(work)


def words(place: Path, handed: Path, console: Path) -> list[str]:
    """QEMU's words: v6.1 starts no second CPU where time follows instructions, so there is one."""
    found = [
        "qemu-system-x86_64",
        "-accel",
        "tcg,thread=single",
        "-icount",
        "shift=2,sleep=off",
        "-M",
        "q35",
        "-m",
        "1024",
    ]
    found += ["-cpu", "max,vendor=GenuineIntel,family=6,model=85,stepping=7,-cx16", "-rtc", "clock=vm"]
    found += ["-nographic", "-nodefaults", "-serial", f"file:{console}"]
    found += ["-drive", f"file={handed},format=raw,if=none,id=out", "-device", "virtio-blk-pci,drive=out"]
    found += ["-drive", f"file={place},format=raw,if=none,id=disk", "-device", "virtio-blk-pci,drive=disk,bootindex=0"]
    return found


def commands(out: Path) -> list[list[str]]:
    """Give opplab's commands on what the guest wrote: the machine that it measured predicts what it measured then."""
    measured, machine, experiment = out / "measured", out / "machine.toml", out / "experiment.toml"
    with (measured / "runs.jsonl").open() as lines:
        names = json.loads(next(lines))["variants"]
    text = f'format = 1\nname = "kernels"\nmachine = "{machine.name}"\nbaseline = "{names[0]}"\nseed = 1\n'
    text += f'iterations = 3\nduration = "2s"\n[[workload]]\nlabel = "sh"\nrtapp = "{(HERE / LOAD).resolve()}"\n'
    # Debian's releases have another number than the sources that they are of.
    starts = (out / "starts.txt").read_text()
    kernels = dict(re.findall(r"^Linux version (\S+) .* Debian (\d+\.\d+\.\d+)", starts, re.MULTILINE))
    for name in names:
        release, governor = name.split()
        kernel = kernels[release]
        text += f'[[policy]]\nlabel = "{name}"\nkernel = "{kernel}"\ngovernor = "{governor}"\n'
    for folder in (out, measured):
        (folder / experiment.name).write_text(text)
    calibrated = out / "calibrated"
    sealed = str(out / "sealed.json")
    return [
        ["machine", "import", str(calibrated / "sysfs.txt"), "--calibration", str(calibrated / "calibration.json"),
         "-o", str(machine), "--force"],
        ["predict", str(experiment), "-o", sealed, "--metric", "work_done", "--metric", "energy",
         "--results", str(out / "predicted")],
        ["score", sealed, str(measured), "--all"],
        ["compare", str(measured)],
    ]  # fmt: skip

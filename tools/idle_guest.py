"""Record what an idle Debian does, and make the background of it that `opplab run --background` runs.

``python tools/idle_guest.py`` makes a Debian with its usual daemons (debootstrap), boots it in QEMU with Debian's
kernel, leaves it alone, records ``sched_switch`` and ``sched_waking``, and learns a model as ``opplab learn`` does.
Time follows executed instructions there, one a ns, so that a run's length is the number of its instructions.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from guests import HERE, Apt, Files, cpio, initramfs, install, kernel, run, say

PACKAGES = {
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "mke2fs": "e2fsprogs",
    "debootstrap": "debootstrap",
}
SUITE = "bookworm"
DAEMONS = ["dbus", "libpam-systemd", "openssh-server", "cron", "rsyslog", "polkitd"]
MODULES = ["virtio_pci", "virtio_blk", "crc32c_generic", "ext4"]
CPUS = 4
# Work is that of a clock at which an instruction takes a cycle: a floor, as caches are cold after idling.
CLOCK_KHZ = 1_000_000
# What the recording itself adds.
OWN = ("idle.sh", "sleep", "cat", "sh")
# Stoppers, above all classes, which the watchdog wakes: the engine has its timers.
STOPPERS = "migration/"
INIT = """\
#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /root
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
while read -r module options; do insmod "/modules/$module" $options; done </modules/order
mount -t ext4 /dev/vda /root
exec switch_root /root /sbin/init
"""
SERVICE = """\
[Unit]
After=multi-user.target
[Service]
Environment=SETTLE_S={settle} RECORD_S={seconds}
ExecStart=/usr/local/bin/idle.sh
[Install]
WantedBy=multi-user.target
"""


def system(work: Path, settle_s: int, seconds: int) -> Path:
    """Make the guest's disk: Debian with its daemons and the service that records."""
    root = work / "root"
    if not (root / "debootstrap.done").exists():
        shutil.rmtree(root, ignore_errors=True)
        say(f"installing {SUITE} with {' '.join(DAEMONS)}")
        run("debootstrap", f"--include={','.join(DAEMONS)}", SUITE, str(root))
        (root / "debootstrap.done").touch()
    (root / "etc/fstab").write_text("/dev/vda / ext4 defaults 0 1\n")
    # Without a network it would ask for the time in vain, again and again.
    mask = root / "etc/systemd/system/systemd-timesyncd.service"
    mask.unlink(missing_ok=True)
    mask.symlink_to("/dev/null")
    script = root / "usr/local/bin/idle.sh"
    shutil.copy(HERE / "idle.sh", script)
    script.chmod(0o755)
    units = root / "etc/systemd/system"
    (units / "idle.service").write_text(SERVICE.format(settle=settle_s, seconds=seconds))
    wanted = units / "multi-user.target.wants/idle.service"
    wanted.unlink(missing_ok=True)
    wanted.symlink_to("/etc/systemd/system/idle.service")
    disk = work / "disk"
    disk.unlink(missing_ok=True)
    run("mke2fs", "-q", "-t", "ext4", "-d", str(root), str(disk), "2G")
    return disk


def record(work: Path, settle_s: int, seconds: int, timeout_s: float) -> Path:
    """Boot the guest and give its recording, as text of ftrace."""
    image_root = kernel(work / "kernel", Apt(), "amd64")
    image = next(iter(sorted(image_root.glob("boot/vmlinuz-*"))))
    programs = {"bin/busybox": Path(shutil.which("busybox") or "")}
    files = Files(image_root, None, programs, MODULES, lambda *_: ([], b""))
    # What comes later replaces what was there.
    (work / "initrd").write_bytes(initramfs(files, "idle.sh") + cpio({"init": (0o100755, INIT.encode())}))
    out = work / "recording"
    out.write_bytes(b"")
    os.truncate(out, 256 << 20)
    words = ["qemu-system-x86_64", "-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-M", "q35"]
    words += ["-smp", str(CPUS), "-m", "1024", "-nographic", "-nodefaults", "-no-reboot", "-rtc", "clock=vm"]
    words += ["-cpu", "max,vendor=GenuineIntel,family=6,model=85,stepping=7,-cx16", "-seed", "1"]
    words += ["-kernel", str(image), "-initrd", str(work / "initrd"), "-serial", f"file:{work / 'console'}"]
    words += ["-drive", f"file={system(work, settle_s, seconds)},format=raw,if=virtio"]
    words += ["-drive", f"file={out},format=raw,if=virtio"]
    words += ["-append", "console=ttyS0 mitigations=off quiet panic=-1"]
    say(f"recording {seconds} s after {settle_s} s")
    run(*words, timeout_s=timeout_s)
    text = out.read_bytes().rstrip(b"\0")
    trace = work / f"idle-{image.name.removeprefix('vmlinuz-')}.txt"
    trace.write_bytes(text)
    return trace


def made(trace: Path, image: str) -> str:
    """Give the file of the background that was recorded."""
    from opplab.trace.learn import learn, system_name, to_toml
    from opplab.trace.recording import Trace

    model = learn(Trace(trace), named=system_name)
    model.clock_khz = CLOCK_KHZ
    model.groups = [one for one in model.groups if one.name not in OWN and not one.name.startswith(STOPPERS)]
    for one in model.groups:
        cpu = one.name.rpartition("/")[2]
        one.cpu = int(cpu) if cpu.isdecimal() else None
    return (
        f"# What an idle Debian does: {SUITE} with {', '.join(DAEMONS)}, kernel {image},\n"
        f"# {CPUS} CPUs in QEMU without a network, nobody at work. An instruction took 1 ns there, so that run_us are\n"
        "# thousands of instructions and, with clock_khz, as many cycles: a floor, as caches are cold after idling.\n"
        "# What slept less than 32 times is left out, and so are the stoppers (migration/N).\n"
        "# Made again by `python tools/idle_guest.py -o FILE`.\n" + to_toml(model)
    )


def main() -> int:
    """Record, learn, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--work", type=Path, default=Path("target/idle-guest"), help="folder for packages and output")
    parser.add_argument("--settle", type=int, default=120, metavar="S", help="time left to the start (120)")
    parser.add_argument("--seconds", type=int, default=3600, metavar="S", help="length of the recording (3600)")
    parser.add_argument("--timeout", type=float, default=3600, metavar="S", help="longest time of ours")
    parser.add_argument("--recording", type=Path, metavar="FILE", help="take this one instead of making it")
    parser.add_argument("-o", "--output", type=Path, help="file of the background (default: print it)")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    install(PACKAGES)
    trace = options.recording or record(options.work, options.settle, options.seconds, options.timeout)
    text = made(trace, trace.stem.removeprefix("idle-"))
    if options.output:
        options.output.write_text(text)
    else:
        say(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

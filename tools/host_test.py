"""Run opplab-agent as root in emulated machines with stock Debian kernels, and check what it did.

``python tools/host_test.py AGENT`` (or ``make host-test``) installs QEMU and kernel packages if it may, boots guests
that a driver of frequencies binds to (``x86_guest.py``, ``arm64_guest.py``, ``phone_guest.py``), runs a script of
``tests/host`` in each, and prints the steps.  Exit code 1 if a step failed; 0 with a line ``skipped: ...`` for what the
machine cannot emulate.  ``--soak 60`` runs another guest instead: `govern` and `observe` for an hour of its time (which
passes faster than ours where it has nothing to do), while CPUs go and come, others change settings, and it sleeps.
"""

from __future__ import annotations

import argparse
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import arm64_guest
import kernels_guest
import phone_guest
import x86_guest
from guests import Files, Guest, Skip, empty_disk, handed_over, initramfs, run, say

AGENT_BYTES_MAX = 5_000_000
GUESTS = [*x86_guest.GUESTS, arm64_guest.GUEST, phone_guest.GUEST, kernels_guest.GUEST]


def files_of(guest: Guest, work: Path, agent: Path) -> list[Files]:
    """What a guest is made of, a kernel each; unpacked packages and programs that were built are taken again."""
    if guest == arm64_guest.GUEST:
        return [arm64_guest.files(work, boot)]
    if guest == phone_guest.GUEST:
        return [phone_guest.files(work)]
    if guest == kernels_guest.GUEST:
        return kernels_guest.files(work, agent)
    return [x86_guest.files(work, agent)]


def boot(files: Files, out: Path, guest: Guest, timeout_s: float) -> tuple[str, int]:
    """Boot the guest; give what its script printed and its status. The files of its /out come to ``out``."""
    work = Path(tempfile.mkdtemp(prefix="opplab-guest-"))
    out.mkdir(parents=True, exist_ok=True)
    try:
        image = next(iter(sorted(files.root.glob("boot/vmlinuz-*"))))
        words, early = files.machine(work, guest, image)
        (work / "initrd").write_bytes(early + initramfs(files, guest.script))
        disk = empty_disk(work)
        words[-1] += " quiet panic=-1 oops=panic nokaslr noautogroup"
        words += ["-seed", "1", "-nographic", "-no-reboot", "-nodefaults", "-serial", f"file:{work / 'console'}"]
        words += ["-kernel", str(image), "-initrd", str(work / "initrd")]
        words += ["-drive", f"file={disk},format=raw,if=virtio"]
        try:
            done = run(*words, check=False, timeout_s=timeout_s)
        except subprocess.TimeoutExpired:
            done = None
        for writes in work.glob("pstate_writes_*"):
            shutil.copy(writes, out / writes.name)
        why = "it took too long" if done is None else done.stderr[-500:]
        return handed_over([work / "console"], disk, out, why)
    finally:
        shutil.rmtree(work)


def is_static(agent: Path) -> bool:
    """Whether a program needs no loader."""
    return b"/ld-linux" not in agent.read_bytes()


def check_results(folder: Path) -> bool:
    """Open what the guest recorded and measured as users do; true if nothing is wrong."""
    opplab = [sys.executable, "-m", "opplab"]
    commands: list[list[str]] = []
    if (archive := folder / "recording.tar.zst").exists():
        # What its kernel decided is computed anew.
        commands += [[*words, str(archive)] for words in (["trace", "info"], ["verify", "traces"], ["replay"])]
    if (folder / "measured").exists():
        commands += kernels_guest.commands(folder)
    if commands and run(*opplab, "--version", check=False).returncode != 0:
        say("skipped: what the guest wrote was not verified, as opplab is not built (make dev)")
        return True
    for words in commands:
        done = run(*opplab, *words, check=False)
        say(done.stdout.rstrip())
        say(f"{'ok' if done.returncode == 0 else 'not ok'} opplab {' '.join(words)} {done.stderr.strip()}")
        if done.returncode != 0:
            return False
    return True


def check_agent(agent: Path) -> bool:
    """Whether an agent is what is promised: static, small."""
    size = agent.stat().st_size
    is_program = is_static(agent) and bool(agent.stat().st_mode & stat.S_IXUSR)
    results = [(f"agent is static and executable ({size} bytes)", is_program)]
    results.append(("agent is under 5 MB", size < AGENT_BYTES_MAX))
    for what, good in results:
        say(f"{'ok' if good else 'not ok'} {what}")
    return all(good for _, good in results)


def main() -> int:
    """Run all guests."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("agent", type=Path, help="the static opplab-agent")
    parser.add_argument("--work", type=Path, default=Path("target/host-test"), help="folder for kernels and output")
    parser.add_argument("--only", choices=[guest.name for guest in GUESTS], help="run one guest")
    parser.add_argument("--append", default="", help="words for the guest's kernel command line, such as kills=10")
    parser.add_argument(
        "--losses", type=int, default=3, metavar="N", help="power losses of the guest of two kernels (3)"
    )
    parser.add_argument("--timeout", type=float, default=1200, metavar="S", help="longest time for all guests")
    parser.add_argument("--soak", type=float, metavar="MIN", help="run the guest that is under fire so long")
    options = parser.parse_args()
    guests = GUESTS
    if options.soak:
        guests = [replace(x86_guest.SOAK, append=f"{x86_guest.SOAK.append} soak={60 * options.soak:.0f}")]
        options.timeout = max(options.timeout, 240 * options.soak)
    start = time.monotonic()
    passed = True
    checked: set[Path] = set()
    shutil.rmtree(options.work / "out", ignore_errors=True)
    for guest in guests:
        if options.only not in (None, guest.name):
            continue
        begin = time.monotonic()
        out = options.work / "out" / guest.name
        try:
            files = files_of(guest, options.work, options.agent)
            agent = files[0].agent or options.agent
            if agent not in checked:
                checked.add(agent)
                passed &= check_agent(agent)
        except Skip as why:
            say(f"skipped: guest {guest.name}: {why}")
            continue
        chosen = replace(guest, append=f"{guest.append} {options.append}".strip())
        # Preparing (downloads, building) is not the guests' time.
        start += time.monotonic() - begin
        begin = time.monotonic()
        left_s = options.timeout - (begin - start)
        if guest == kernels_guest.GUEST:
            text, status = kernels_guest.boot(options.work, files, out, options.losses, left_s + 60 * options.losses)
        else:
            text, status = boot(files[0], out, chosen, left_s)
        say(text.rstrip())
        good = status == 0 and "not ok" not in text and check_results(out)
        say(f"guest {guest.name} {'passed' if good else 'FAILED'} in {time.monotonic() - begin:.0f} s; output in {out}")
        passed &= good
    say(f"{'passed' if passed else 'FAILED'} in {time.monotonic() - start:.0f} s")
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())

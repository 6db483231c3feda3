"""What may be odd around a call of the fuzzer: little room and memory, odd streams, another user, another clock."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["KINDS", "enter"]


def _few_descriptors(draw: random.Random, _folder: Path) -> None:
    # The lowest free number comes next: what this process has open already stays open.
    taken = len(list(Path("/proc/self/fd").iterdir()))
    limit = taken + draw.choice([0, 1, 3, 8, 15, 16, 17, 20, 30])
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def _little_memory(draw: random.Random, _folder: Path) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    limit = used + (draw.choice([1, 16, 150, 1100, 1300, 2000]) << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _no_room(draw: random.Random, _folder: Path) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limit = draw.choice([0, 1, 100, 4096, 65536])
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def _pipe(draw: random.Random, _folder: Path) -> None:
    """Let standard output be a pipe that does not block, and whose reader takes its time."""
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    if os.fork() == 0:
        os.close(writes)
        time.sleep(draw.choice([0.0, 0.05, 0.3]))
        with contextlib.suppress(OSError):
            while part := os.read(reads, 1 << 16):
                os.write(1, part)
        os._exit(0)
    os.close(reads)
    os.dup2(writes, 1)
    os.close(writes)


def _nobody_reads(_draw: random.Random, _folder: Path) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    os.dup2(writes, 1)
    os.close(writes)


def _closed_streams(draw: random.Random, _folder: Path) -> None:
    for number in draw.choice([(0,), (1,), (2,), (0, 1), (0, 1, 2)]):
        os.close(number)


def _no_home(_draw: random.Random, _folder: Path) -> None:
    for name in ("HOME", "USER", "LOGNAME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TERM", "PATH"):
        os.environ.pop(name, None)


def _locale(draw: random.Random, _folder: Path) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding=draw.choice(["ascii", "latin-1", "cp1252"]))  # type: ignore[union-attr]
    os.environ["LC_ALL"] = "C"


def _user(draw: random.Random, folder: Path) -> None:
    """Be nobody, in a folder of its own or of root."""
    if os.geteuid():
        return
    os.environ["TMPDIR"] = str(folder)
    if draw.random() < 0.5:
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, 65534, 65534, follow_symlinks=False)
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def _clock(draw: random.Random, _folder: Path) -> None:
    """Let the time of day jump at each look."""
    real = time.time
    jumps = [-86_400.0, 86_400.0, -1e9, 3e9, 0.0]
    time.time = lambda: real() + draw.choice(jumps)


KINDS: dict[str, Callable[[random.Random, Path], None]] = {
    "few descriptors": _few_descriptors,
    "little memory": _little_memory,
    "no room": _no_room,
    "pipe": _pipe,
    "nobody reads": _nobody_reads,
    "closed streams": _closed_streams,
    "no home": _no_home,
    "locale": _locale,
    "user": _user,
    "clock": _clock,
}


def enter(kind: str, draw: random.Random, folder: Path) -> None:
    """Make it so for the rest of this process."""
    KINDS[kind](draw, folder)

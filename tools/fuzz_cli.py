"""Fuzz the command line: every command, with files and words that somebody has changed at random.

``python tools/fuzz_cli.py --calls 20000 --minutes 60`` makes calls until either is reached.  A call fails if it ends
with exit code 70 or by a signal, shows a traceback or a panic, lets a control character through to the terminal, takes
more than 90 s or more than 1 GB, writes a file outside its folder, or answers from a file that ends early without a
word.  What failed is kept under ``-o``, one folder a kind of failure, with the files, the words and where it happened.

Call N of seed S is the same in one version: ``--seed S --call N`` makes it again; ``--again FOLDER`` makes all those
again that are kept, in any version.  Calls are forks of one process that has everything imported, so that thousands fit
into minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Before numpy: a process with threads must not fork.
os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", POLARS_MAX_THREADS="2", NO_COLOR="1")

sys.path.insert(0, str(Path(__file__).parent))
import fuzz_corpus as corpus
import fuzz_surroundings as surroundings
import fuzz_words as words

SECONDS_MAX = 90
"""The longest calls here, like `calibrate hackbench` with one round, compute for half a minute on a slow machine."""
BYTES_MAX = 1 << 30
ADDRESSES_MAX = 8 << 30
"""Of the address space: an allocator reserves more than it uses; what is used is asked of the kernel afterwards."""


@dataclass
class Done:
    """How a call ended; its time is without what it waited for a CPU."""

    code: int
    """Exit code; a signal's number is negative."""
    wall_s: float
    cpu_s: float
    bytes_max: int
    out: bytes
    err: bytes

    @property
    def problem(self) -> str:
        """What is wrong with it; empty if nothing is."""
        if self.wall_s >= SECONDS_MAX:
            return "hang"
        if self.code < 0:
            return f"signal {-self.code}"
        said = self.out + self.err
        for word in (b"Traceback (most recent call last)", b"panicked at", b"PanicException"):
            if word in said:
                return "traceback"
        if self.code == 70:
            return "exit 70"
        if self.code not in (0, 1, 2, 3, 130, 141):
            return f"exit {self.code}"
        if self.bytes_max > BYTES_MAX:
            return "memory"
        if found := re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", said):
            return f"control character {found[0]!r}"
        return ""


def feed(file: Path) -> int:
    """Give a pipe with what is in a file, or nothing to read if there is none."""
    if not file.is_file():
        return os.open(os.devnull, os.O_RDONLY)
    reads, writes = os.pipe()
    if os.fork() == 0:
        with contextlib.suppress(OSError), file.open("rb") as source:
            while part := source.read(1 << 16):
                os.write(writes, part)
        os._exit(0)
    os.close(writes)
    return reads


def child(made: words.Call, folder: Path, debug: bool) -> None:
    """Be the call; does not return."""
    argv = made.words
    code = 99
    try:
        os.setsid()
        os.chdir(folder)
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(folder.parent / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        os.dup2(feed(folder / words.PIPED), 0)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES_MAX, ADDRESSES_MAX))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        faulthandler.enable(2)
        if debug:
            os.environ["OPPLAB_DEBUG"] = "1"
        os.environ["OPPLAB_REPORTS"] = str(folder.parent)
        if made.surroundings:
            surroundings.enter(made.surroundings, random.Random(repr(argv)), folder)
        sys.argv = ["opplab", *argv]
        from opplab.__main__ import main

        main()
        code = 0
    except SystemExit as error:
        if isinstance(error.code, int) or error.code is None:
            code = error.code or 0
        else:
            print(error.code, file=sys.stderr)
            code = 1
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code & 0xFF)


TICKS_S = os.sysconf("SC_CLK_TCK")


def session_of(leader: int) -> tuple[float, bool]:
    """Give the CPU time of all processes of a session, and whether a thread of them runs or waits for a CPU."""
    cpu_s, wants = 0.0, False
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            # Behind the name, which may have blanks: state, parent, group, session, ...
            fields = file.read_text().rpartition(")")[2].split()
            if int(fields[3]) != leader:
                continue
            cpu_s += sum(map(int, fields[11:15])) / TICKS_S
            for thread in (file.parent / "task").iterdir():
                wants |= (thread / "stat").read_text().rpartition(")")[2].split()[0] == "R"
    return cpu_s, wants


def call(made: words.Call, folder: Path, debug: bool = False) -> Done:
    """Make a call in `folder`; its output goes beside it."""
    sys.stdout.flush()
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        child(made, folder, debug)
    took, before_s, before_cpu_s = 0.0, began, 0.0
    # Not by its signal: a thread of a library that does not block it would take that away.
    done = os.pidfd_open(pid)
    while not select.select([done], [], [], 1)[0]:
        # On a busy machine a call may wait for a CPU, which is not its fault: while something of it wants to run,
        # what it ran counts, else what passed.
        now_s, (cpu_s, wants) = time.monotonic(), session_of(pid)
        took += min(cpu_s - before_cpu_s, now_s - before_s) if wants else now_s - before_s
        before_s, before_cpu_s = now_s, cpu_s
        if took >= SECONDS_MAX:
            # The first makes it report where it is.
            stop = signal.SIGABRT if took < SECONDS_MAX + 5 else signal.SIGKILL
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, stop)
    os.close(done)
    _, status, used = os.wait4(pid, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(status)
    out, err = ((folder.parent / name).read_bytes()[: 1 << 20] for name in ("stdout", "stderr"))
    # The last second or less counts whole.
    return Done(code, took + time.monotonic() - before_s, used.ru_utime + used.ru_stime, used.ru_maxrss << 10, out, err)


def signature(done: Done, argv: list[str]) -> str:
    """Describe what kind of failure it is, so that one mistake is kept once."""
    lines = [line for line in done.err.decode(errors="replace").splitlines() if line.strip()]
    places = re.findall(r'File ".*?([^/"]+)", line (\d+)', "\n".join(lines))
    panics = re.findall(r"crates/[\w/.-]+:\d+", "\n".join(lines))
    last = lines[-1] if lines else ""
    where = panics[-1] if panics else ":".join(places[-1]) if places else re.sub(r"\d+|'.*?'|`.*?`", "_", last)[:80]
    command = " ".join(word for word in argv[:2] if word.isalpha())
    return f"{done.problem} | {where}" if panics or places else f"{done.problem} | {command} | {where}"


class Fuzzer:
    """One series of calls."""

    def __init__(self, seed: int, output: Path, scratch: Path) -> None:
        self.seed = seed
        self.output = output
        self.scratch = scratch
        self.corpus = corpus.build(scratch / "corpus")
        self.leaves = words.leaves()
        self.kinds: Counter[str] = Counter()
        self.commands: Counter[str] = Counter()
        self.surroundings: Counter[str] = Counter()
        self.codes: Counter[int] = Counter()
        self.slowest = (0.0, 0)
        self.largest = (0, 0)

    def place(self, number: int) -> tuple[words.Call, Path]:
        """Give the words of a call, and its folder with the files that they name."""
        draw = random.Random(f"{self.seed}:{number}")
        nest = self.scratch / "nest"
        shutil.rmtree(nest, ignore_errors=True)
        folder = nest / "work"
        folder.mkdir(parents=True)
        return words.sentence(draw, self.leaves, self.corpus, folder), folder

    def one(self, number: int) -> Done:
        """Make a call and keep it if it failed."""
        made, folder = self.place(number)
        argv = made.words
        done = call(made, folder)
        self.surroundings[made.surroundings or "none"] += 1
        name = " ".join(argv[: 2 if len(argv) > 1 and argv[1].isalpha() else 1])
        self.commands[name] += 1
        self.codes[done.code] += 1
        self.slowest = max(self.slowest, (done.wall_s, number))
        self.largest = max(self.largest, (done.bytes_max, number))
        problem = done.problem
        is_abort = problem in ("signal 6", "traceback") or b"Fatal Python error: Aborted" in done.err
        if made.surroundings == "little memory" and is_abort:
            # An allocation that fails ends polars, numpy and Rust's library in their own words. Threads that end so at
            # a time write over each other what `faulthandler` shows, which leaves NULs; users have no such handler.
            problem = ""
        if not problem and made.is_cut and done.code == 0 and not done.err.strip():
            problem = "silent"
        strange = {file.name for file in folder.parent.iterdir()} - {"work", "stdout", "stderr"}
        strange = {name for name in strange if not name.startswith("opplab-internal-error")}
        if not problem and strange:
            problem = f"wrote outside: {', '.join(sorted(strange))}"
        if problem:
            self.keep(number, made, done, problem)
        return done

    def keep(self, number: int, made: words.Call, done: Done, problem: str) -> None:
        """Keep what failed, the first three of a kind."""
        told, argv = done, made.words
        if done.code == 70:
            again, place = self.place(number)
            told = call(again, place, debug=True)
            told.code, told.wall_s = done.code, done.wall_s
        kind = f"{problem} | {' '.join(argv[:2])}" if problem == "silent" else signature(told, argv)
        self.kinds[kind] += 1
        if self.kinds[kind] > 3:
            return
        kept = self.output / f"{re.sub(r'[^A-Za-z0-9.]+', '-', kind)[:80]}" / str(number)
        shutil.rmtree(kept, ignore_errors=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        _, folder = self.place(number)
        shutil.copytree(folder, kept, symlinks=True, ignore=_special)
        about = {"seed": self.seed, "call": number, "argv": argv, "problem": problem, "code": done.code}
        about["surroundings"] = made.surroundings
        about |= {"wall_s": done.wall_s, "cpu_s": done.cpu_s, "bytes_max": done.bytes_max}
        (kept / "CALL.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8", errors="surrogateescape")
        (kept / "STDERR").write_bytes(told.err[-100_000:])
        print(f"call {number}: {problem}: {argv} {made.surroundings}\n  {kind}", flush=True)

    def summary(self, calls: int, seconds: float) -> dict[str, object]:
        """Give the figures of the series."""
        return {
            "seed": self.seed,
            "calls": calls,
            "seconds": round(seconds, 1),
            "failures": sum(self.kinds.values()),
            "kinds": dict(self.kinds.most_common()),
            "exit codes": {str(code): n for code, n in sorted(self.codes.items())},
            "slowest call": {"seconds": round(self.slowest[0], 2), "call": self.slowest[1]},
            "largest call": {"MB": self.largest[0] >> 20, "call": self.largest[1]},
            "surroundings": dict(sorted(self.surroundings.items())),
            "commands": dict(sorted(self.commands.items())),
        }


def busy_threads() -> list[str]:
    """Name the threads of this process, but for those of allocator and polars that only wait and hold no locks."""
    names = [(task / "comm").read_text().strip() for task in sorted(Path("/proc/self/task").iterdir())[1:]]
    return [name for name in names if not name.startswith(("jemalloc_bg", "polars-ooc"))]


def _special(folder: str, names: list[str]) -> list[str]:
    """Name what is no file or folder or is huge, which is not worth a copy."""
    paths = [Path(folder) / name for name in names]
    return [
        path.name
        for path in paths
        if not path.is_symlink() and not path.is_dir() and (not path.is_file() or path.stat().st_size > 64 << 20)
    ]


def again(kept: Path, scratch: Path) -> Iterator[tuple[list[str], Done]]:
    """Make every call again that is kept below a folder, with the files that were kept of it."""
    for file in sorted(kept.rglob("CALL.json")):
        about = json.loads(file.read_text(encoding="utf-8", errors="surrogateescape"))
        made = words.Call(about["argv"], about.get("surroundings", ""))
        folder = scratch / "nest" / "work"
        shutil.rmtree(folder.parent, ignore_errors=True)
        shutil.copytree(file.parent, folder, symlinks=True)
        yield made.words, call(made, folder)


def main() -> None:
    """Make the calls and report what came of them; exit code 1 if any failed."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--calls", type=int, default=2000, help="at most so many")
    parser.add_argument("--from", type=int, default=0, dest="first", help="number of the first call")
    parser.add_argument("--minutes", type=float, default=60.0, help="at most so long")
    parser.add_argument("--call", type=int, help="only this call, with its output")
    parser.add_argument("--again", type=Path, metavar="FOLDER", help="the calls again that are kept there")
    parser.add_argument("-o", "--output", type=Path, default=Path("out/fuzz-cli"))
    options = parser.parse_args()
    words.import_all()
    until = time.monotonic() + 10
    while (busy := busy_threads()) and time.monotonic() < until:
        # A thread has its name, or its end, a moment after its start.
        time.sleep(0.1)
    if busy:
        sys.exit(f"fuzz_cli: threads before the first fork, which may hang of it: {', '.join(busy)}")
    with tempfile.TemporaryDirectory(prefix="opplab-fuzz-") as scratch:
        output = options.output.resolve()
        if options.call is not None:
            fuzzer = Fuzzer(options.seed, output, Path(scratch))
            made, folder = fuzzer.place(options.call)
            argv = made
            done = call(made, folder)
            if done.code == 70:
                done = call(made, folder, debug=True)
            sys.stdout.write(
                f"{argv}\n{done.out.decode(errors='replace')[:4000]}\n{done.err.decode(errors='replace')}\n"
            )
            sys.stdout.write(
                f"exit {done.code}, {done.wall_s:.2f} s, {done.bytes_max >> 20} MB; {done.problem or 'fine'}\n"
            )
            sys.exit(bool(done.problem))
        began = time.monotonic()
        if options.again is not None:
            failed = 0
            for words_given, done in again(options.again, Path(scratch)):
                failed += bool(done.problem)
                print(f"{words_given}: exit {done.code}, {done.wall_s:.1f} s, {done.problem or 'fine'}", flush=True)
            sys.exit(bool(failed))
        fuzzer = Fuzzer(options.seed, output, Path(scratch))
        calls = 0
        while calls < options.calls and time.monotonic() - began < 60 * options.minutes:
            fuzzer.one(options.first + calls)
            calls += 1
            if calls % 1000 == 0:
                rate = calls / (time.monotonic() - began)
                print(f"{calls} calls, {rate:.1f} a second, {sum(fuzzer.kinds.values())} failed", flush=True)
        told = fuzzer.summary(calls, time.monotonic() - began)
        output.mkdir(parents=True, exist_ok=True)
        (output / "summary.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        print(json.dumps(told, indent=1))
        sys.exit(bool(fuzzer.kinds))


if __name__ == "__main__":
    main()

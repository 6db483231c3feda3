"""Kill sweeps, and take the power away, at every kind of moment; what is resumed must be the undisturbed folder.

``python tools/kill_test.py`` makes six series and prints how many kills each had:

- *writes*: the process is killed in the middle of its Nth creation, write, fsync, rename or removal, with half of the
  bytes written (``tools/crash_shim.c``, loaded with LD_PRELOAD, counts them);
- *runner*: the process is killed from outside at a random moment;
- *workers*: a process of a pool, or of a Dask cluster, is killed while it works;
- *settings*: the same for the file in which `host govern` remembers what it changes;
- *power*: all that the process asked of the disk is noted; a moment is drawn, and of what was not on the disk by an
  fsync some is kept and some is not: data of files (none, a part, zeros, all), names in folders (the first ones).

After each the same sweep runs again, and every file of its folder is compared, byte for byte.  No file may be found
damaged on the way: what has its name is whole.  The draw is seeded; ``--seed`` changes it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", POLARS_MAX_THREADS="2", NO_COLOR="1")

sys.path.insert(0, str(Path(__file__).parent))
import fuzz_corpus

WORKLOAD = '{"tasks": {"t": {"instance": 3, "run": 800, "timer": {"ref": "unique", "period": 16000}}}}'
EXPERIMENT = """format = 1
name = "killed"
about = "a small sweep"
machine = "juno-r2"
baseline = "a"
iterations = 4
duration = "40ms"

[[policy]]
label = "a"

[[policy]]
label = "b/c"
governor = "ondemand"

[[workload]]
label = "w"
rtapp = "w.json"

[[workload]]
label = "p"
benchmark = "periodic"
tasks = [2]
duty = 50
period_us = 16000
"""


class Sweeps:
    """A sweep that is run again and again, and what its folder is when nobody disturbs it."""

    def __init__(self, scratch: Path, shim: ctypes.CDLL) -> None:
        self.scratch = scratch
        self.shim = shim
        self.experiment = scratch / "e.toml"
        self.experiment.write_text(EXPERIMENT, encoding="utf-8")
        (scratch / "w.json").write_text(WORKLOAD, encoding="utf-8")
        log = scratch / "log"
        code = self.wait(self.start(scratch / "whole", log=log))
        if code:
            sys.exit(f"kill_test: the undisturbed sweep ended with {code}")
        self.whole = contents(scratch / "whole")
        self.operations = len(list(records(log)))
        self.log = log

    def start(self, folder: Path, *, log: Path | None = None, at: int = 0, pool: bool = False) -> int:
        """Start the sweep in a fork of this process; gives its number."""
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            return pid
        code = 99
        try:
            os.setsid()
            for number in (1, 2):
                os.dup2(os.open(self.scratch / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
            number = os.open(log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            self.shim.crash_begin(os.fsencode(folder), number, at)
            code = self._pool(folder) if pool else self._command(folder)
        finally:
            os._exit(code)

    def _command(self, folder: Path) -> int:
        from opplab.cli.main import main

        try:
            main(["run", str(self.experiment), "-o", str(folder), "-j", "2"])
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else 0
        return 0

    def _pool(self, folder: Path) -> int:
        from concurrent.futures import ProcessPoolExecutor
        from concurrent.futures.process import BrokenProcessPool
        from multiprocessing import get_context

        from opplab import Experiment

        with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
            try:
                Experiment.load(self.experiment).run(folder, executor=pool, jobs=2)
            except BrokenProcessPool:
                return 1
        return 0

    def wait(self, pid: int, seconds: float = 120) -> int:
        """Wait for the end of a sweep; gives its exit code."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.002)
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        sys.exit(f"kill_test: a sweep hangs: {(self.scratch / 'said').read_text(errors='replace')}")

    def resume(self, folder: Path, what: str) -> None:
        """Run the sweep to its end and compare its folder."""
        code = self.wait(self.start(folder))
        said = (self.scratch / "said").read_text(encoding="utf-8", errors="replace")
        if code:
            sys.exit(f"kill_test: {what}: resumed, the sweep ended with {code}: {said}")
        if "damaged" in said:
            sys.exit(f"kill_test: {what}: a file was not whole: {said}")
        found = contents(folder)
        if found != self.whole:
            wrong = [name for name in found.keys() | self.whole.keys() if found.get(name) != self.whole.get(name)]
            sys.exit(f"kill_test: {what}: these files differ: {', '.join(sorted(wrong))}")
        shutil.rmtree(folder)


def contents(folder: Path) -> dict[str, bytes]:
    """Give every file below a folder."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@dataclass
class Operation:
    """One thing that was asked of the disk."""

    kind: str
    path: str
    other: str
    data: bytes


def records(log: Path) -> Iterator[Operation]:
    """Read what the shim noted."""
    data = log.read_bytes()
    at = 0
    while at < len(data):
        end = data.index(b"\n", at)
        kind, *sizes = data[at:end].decode().split()
        parts = []
        at = end + 1
        for size in map(int, sizes):
            parts.append(data[at : at + size])
            at += size
        yield Operation(kind, os.fsdecode(parts[0]), os.fsdecode(parts[1]), parts[2])


@dataclass
class Inode:
    """A file's content: what was written, and what is on the disk."""

    now: bytes = b""
    safe: bytes = b""


@dataclass
class Disk:
    """What is written, and what of it is on the disk: a file's data by its fsync, names by that of their folder."""

    names: dict[str, Inode] = field(default_factory=dict)
    pending: dict[str, list[Callable[[dict[str, Inode]], None]]] = field(default_factory=dict)
    safe: dict[str, Inode] = field(default_factory=dict)

    def _name(self, path: str, change: Callable[[dict[str, Inode]], None]) -> None:
        change(self.names)
        self.pending.setdefault(os.path.dirname(path), []).append(change)  # noqa: PTH120

    def do(self, asked: Operation) -> None:
        """Follow one operation."""
        path, other = asked.path, asked.other
        match asked.kind:
            case "c":
                inode = Inode()
                self._name(path, lambda names: names.__setitem__(path, inode))
            case "t":
                self.names[path].now = b""
            case "w":
                # A file that was renamed or removed is not written to any more.
                self.names[path].now += asked.data
            case "r":
                moved = self.names[path]

                def rename(names: dict[str, Inode]) -> None:
                    names.pop(path, None)
                    names[other] = moved

                self._name(other, rename)
            case "u":
                self._name(path, lambda names: names.__delitem__(path) if path in names else None)
            case "s" if path in self.names:
                self.names[path].safe = self.names[path].now
            case "s":
                for change in self.pending.pop(path, []):
                    change(self.safe)

    def crash(self, draw: random.Random) -> dict[str, bytes]:
        """Give what is there after the power was away."""
        for changes in self.pending.values():
            # A journal keeps the order of names: those that came first are there.
            for change in changes[: draw.randrange(len(changes) + 1)]:
                change(self.safe)
        found = {}
        for path, inode in self.safe.items():
            data = inode.now
            if inode.safe != inode.now:
                cut = draw.randrange(len(data) + 1)
                data = draw.choice([inode.safe, data, data[:cut], data[:cut] + bytes(len(data) - cut), b""])
            found[path] = data
        return found


def series_writes(sweeps: Sweeps, kills: int, draw: random.Random) -> int:
    """Kill in the middle of what is asked of the disk, up to three times in one folder."""
    done = 0
    while done < kills:
        folder = sweeps.scratch / "writes"
        what = []
        for _ in range(draw.choice([1, 1, 2, 3])):
            at = draw.randrange(1, sweeps.operations + 1)
            code = sweeps.wait(sweeps.start(folder, at=at))
            what.append(f"operation {at}")
            # Resumed, it has less to do, and may have ended before.
            done += code == -signal.SIGKILL
        sweeps.resume(folder, ", ".join(what))
    return done


def series_runner(sweeps: Sweeps, kills: int, draw: random.Random) -> int:
    """Kill from outside."""
    done = 0
    began = time.monotonic()
    sweeps.resume(sweeps.scratch / "timed", "nothing")
    length = time.monotonic() - began
    while done < kills:
        folder = sweeps.scratch / "runner"
        for _ in range(draw.choice([1, 2, 3])):
            pid = sweeps.start(folder)
            time.sleep(draw.uniform(0, length))
            os.killpg(pid, signal.SIGKILL)
            done += sweeps.wait(pid) == -signal.SIGKILL
        sweeps.resume(folder, "killed from outside")
    return done


def children(pid: int) -> list[int]:
    """Give the children of a process."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, task.read_text().split())
        except OSError:
            continue
    return found


def series_workers(sweeps: Sweeps, kills: int, draw: random.Random) -> int:
    """Kill a process of a pool, as soon as it is there or later; the sweep ends with an error, and goes on."""
    done = 0
    while done < kills:
        folder = sweeps.scratch / "workers"
        pid = sweeps.start(folder, pool=True)
        until = time.monotonic() + 5
        while not (workers := children(pid)) and time.monotonic() < until:
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.2))
        if workers := children(pid):
            os.kill(draw.choice(workers), signal.SIGKILL)
            done += 1
        sweeps.wait(pid)
        sweeps.resume(folder, "a worker was killed")
    return done


def series_power(sweeps: Sweeps, losses: int, draw: random.Random) -> int:
    """Take the power away at a drawn moment of the noted operations, then go on."""
    asked = list(records(sweeps.log))
    whole = sweeps.scratch / "whole"
    for number in range(losses):
        disk = Disk()
        moment = draw.randrange(len(asked) + 1)
        for operation in asked[:moment]:
            disk.do(operation)
        folder = sweeps.scratch / "power"
        for path, data in disk.crash(draw).items():
            file = folder / Path(path).relative_to(whole)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        folder.mkdir(exist_ok=True)
        sweeps.resume(folder, f"power loss {number} after operation {moment}")
    return losses


def series_dask(sweeps: Sweeps, kills: int, draw: random.Random) -> int:
    """Kill workers of a Dask cluster; the sweep goes on by itself, as the cluster starts others."""
    script = (
        "import sys; from distributed import LocalCluster; from time import sleep\n"
        "if __name__ == '__main__':\n"
        "    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:\n"
        "        print(cluster.scheduler_address, flush=True); sys.stdin.read()\n"
    )
    file = sweeps.scratch / "cluster.py"
    file.write_text(script, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    environment |= {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "30", "PYTHONWARNINGS": "ignore"}
    cluster = subprocess.Popen(
        [sys.executable, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert cluster.stdout is not None
    address = cluster.stdout.readline().strip()
    done = 0
    try:
        while done < kills:
            folder = sweeps.scratch / "dask"
            command = [sys.executable, "-m", "opplab", "run", str(sweeps.experiment), "-o", str(folder)]
            runner = subprocess.Popen(
                [*command, "--dask", address], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
            )
            while runner.poll() is None and not (folder / "manifest.json").exists():
                time.sleep(0.005)
            while runner.poll() is None and done < kills:
                time.sleep(draw.uniform(0.05, 0.6))
                workers = [pid for pid in children(cluster.pid) if b"spawn_main" in cmdline(pid)]
                if workers and runner.poll() is None:
                    os.kill(draw.choice(workers), signal.SIGKILL)
                    done += 1
            runner.communicate()
            sweeps.resume(folder, "Dask workers were killed")
    finally:
        cluster.kill()
        for pid in children(cluster.pid):
            os.kill(pid, signal.SIGKILL)
        cluster.wait()
    return done


def cmdline(pid: int) -> bytes:
    """Give the words of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def series_settings(sweeps: Sweeps, losses: int, draw: random.Random) -> int:
    """Take the power away while `host govern` remembers a host's settings.

    The file is whole or not there, it is there before the first of them is changed, and `--restore` puts all back.
    """
    host = sweeps.scratch / "host"
    for path, text in fuzz_corpus.SYSFS.items():
        file = host / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n", encoding="utf-8")
    run, log = host / "run", sweeps.scratch / "settings-log"
    state = run / "opplab-govern.json"
    governors = sorted(host.glob("sys/devices/system/cpu/cpufreq/policy*/scaling_governor"))
    before = [file.read_text().strip() for file in governors]

    def govern(*words: str, log: Path | None = None) -> None:
        pid = os.fork()
        if pid == 0:
            code = 99
            try:
                for number in (1, 2):
                    os.dup2(os.open(sweeps.scratch / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
                number = os.open(log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                sweeps.shim.crash_begin(os.fsencode(run), number, 0)
                from opplab.cli.main import main

                main(["host", "govern", *words, "--root", str(host)])
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 0
            finally:
                os._exit(code)
        if code := sweeps.wait(pid):
            sys.exit(f"kill_test: govern {' '.join(words)} ended with {code}: {(sweeps.scratch / 'said').read_text()}")

    govern("--governor", "schedutil", "--util", "stat", "--for", "100ms", log=log)
    asked = list(records(log))
    # Named and its folder synced: from then on it may be needed, until it is removed at the end.
    named = next(at for at, one in enumerate(asked) if one.kind == "r" and one.other == str(state))
    safe = next(at for at, one in enumerate(asked) if at > named and one.kind == "s" and one.path == str(run)) + 1
    removed = next(at for at, one in enumerate(asked) if at >= safe and one.kind == "u" and one.path == str(state)) + 1
    whole = b"".join(one.data for one in asked[:named] if one.kind == "w" and one.path == asked[named].path)
    for number in range(losses):
        disk = Disk()
        moment = draw.randrange(len(asked) + 1) if number % 2 else draw.randrange(safe, removed)
        for operation in asked[:moment]:
            disk.do(operation)
        shutil.rmtree(run)
        run.mkdir()
        for path, data in disk.crash(draw).items():
            Path(path).write_bytes(data)
        for file in governors:
            file.write_text("userspace" if safe <= moment < removed else "schedutil")
        what = f"power loss {number} after operation {moment} of {len(asked)}"
        if state.exists() and state.read_bytes() != whole:
            sys.exit(f"kill_test: {what}: {state.name} is not whole")
        if safe <= moment < removed and not state.exists():
            sys.exit(f"kill_test: {what}: {state.name} is not there, and settings are changed")
        govern("--restore")
        if state.exists() or [file.read_text().strip() for file in governors] != before:
            sys.exit(f"kill_test: {what}: settings are not as before")
    return losses


SERIES: dict[str, tuple[Callable[[Sweeps, int, random.Random], int], int]] = {
    "writes": (series_writes, 100),
    "runner": (series_runner, 40),
    "workers": (series_workers, 40),
    "dask": (series_dask, 20),
    "power": (series_power, 50),
    "settings": (series_settings, 50),
}


def shim(folder: Path) -> Path:
    """Compile the shim."""
    library = folder / "crash_shim.so"
    source = Path(__file__).with_name("crash_shim.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return library


def import_all() -> None:
    """Import what a sweep imports, so that a fork of this process need not."""
    import concurrent.futures.process
    from importlib import import_module

    for name in ("cli.run", "sweep.runner", "sweep.store", "results", "summary.publish", "comparison.compare"):
        import_module(f"opplab.{name}")
    for name in ("summary.compared", "summary.page", "report.svg", "simulation.simulate", "sweep.confidence"):
        import_module(f"opplab.{name}")
    from opplab.sweep.store import build_id

    build_id()
    assert concurrent.futures.process


def main() -> None:
    """Make the series."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=SERIES, action="append", help="only this series; repeat for more")
    parser.add_argument("--share", type=float, default=1.0, help="of the number of kills")
    options = parser.parse_args()
    if "OPPLAB_SHIM" not in os.environ:
        with tempfile.TemporaryDirectory(prefix="opplab-kill-") as folder:
            library = str(shim(Path(folder)))
            environment = {**os.environ, "LD_PRELOAD": library, "OPPLAB_SHIM": library}
            sys.exit(subprocess.run([sys.executable, *sys.argv], check=False, env=environment).returncode)
    import_all()
    told: dict[str, Any] = {"seed": options.seed}
    kills: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="opplab-kill-") as scratch:
        sweeps = Sweeps(Path(scratch), ctypes.CDLL(os.environ["OPPLAB_SHIM"]))
        told["files"], told["operations"] = len(sweeps.whole), sweeps.operations
        for name, (series, number) in SERIES.items():
            if options.only and name not in options.only:
                continue
            if name == "dask":
                try:
                    import distributed

                    assert distributed
                except ImportError:
                    print("dask: skipped: the extra 'dask' is not installed", flush=True)
                    continue
            began = time.monotonic()
            kills[name] = series(sweeps, max(round(number * options.share), 1), random.Random(f"{options.seed}{name}"))
            end = "put back" if name == "settings" else "resumed byte for byte"
            print(f"{name}: {kills[name]}, all {end}, {time.monotonic() - began:.0f} s", flush=True)
    print(json.dumps({**told, **kills}))


if __name__ == "__main__":
    main()

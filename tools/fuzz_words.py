"""Sentences for the fuzzer of the command line: a command, options, and files that somebody has damaged.

Commands and options are asked of the command line itself, so that a new one is fuzzed without a word here, but for its
positional arguments in `PLACES`.
"""

from __future__ import annotations

import encodings
import os
import pkgutil
import random
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import click
from fuzz_surroundings import KINDS

__all__ = ["PIPED", "PLACES", "Call", "import_all", "leaves", "sentence"]

Corpus = dict[str, list[Path]]


@dataclass
class Call:
    """The words of a call, and what is known of it."""

    words: list[str]
    surroundings: str = ""
    """What is odd around it, one of `fuzz_surroundings.KINDS`; empty: nothing."""
    is_cut: bool = False
    """A file that it answers from ends early, in a form that shows it, and nothing else is odd: it has to report it."""


PIPED = "PIPED"
"""The file in a call's folder that reaches it by a pipe, as its standard input."""

RUNS = ["--root", "sysfs", "--governor", "=schedutil,userspace", "--blocks", "=2", "--same", "=0", "--warm-up", "=0"]
RUNS += ["--state", "=state"]
"""Of `host compare`: short, and below a tree of its own."""

PLACES: dict[str, list[list[str]]] = {
    "run": [["experiment"], ["workload", "--machine", "machine"], ["workload", "--machine", "machine"], ["results"]]
    + [["workload", "--machine", "machine", "--vs", vs] for vs in ("profile", "=vs")]
    + [["model", "--machine", "machine"]],
    "status": [["results"]],
    "list": [[], ["=kind"], ["=kind", "=name"]],
    "experiment show": [["experiment"]],
    "experiment new": [["=name", "--machine", "machine", "--workload", "workload"]],
    "workload show": [["workload"]],
    "workload from-cgroup": [["cgroup"], ["cgroup", "--machine", "machine"]],
    "workload from-pod": [["pod"], ["pod", "--machine", "machine"]],
    "workload new": [["=name"]],
    "machine show": [["machine"]],
    "machine import": [["dump"], ["sysfs"], ["machine"], ["dump", "--power", "power"]],
    "machine check": [["machine"], ["dump"], ["sysfs"]],
    "machine export": [["machine"]],
    "fmax": [["machine"], ["dump"], ["sysfs"]],
    "learn": [["recording"], ["trace"]],
    "choose": [
        ["workload", "--machine", "machine"],
        ["workload", "--machine", "machine", "--vs", "profile"],
        ["workload", "--machine", "machine", "--output", "results"],
        ["trace", "--machine", "machine"],
        ["recording"],
    ],
    "fit power": [["power"], ["machine", "power"], ["power", "--check", "power"]],
    "calibrate": [["--show"], ["=name", "=name"], ["=name", "=name", "--experiment", "experiment"]],
    "explain": [["case", "--cpu", "=0"], ["case"], ["results"], ["trace"], ["log"], ["recording"]],
    "fleet": [
        ["sysfs", "--workload", "workload", "--output", "=folder"],
        ["sysfs", "dump", "--workload", "=name", "--vs", "profile"],
        ["dump", "--workload", "workload", "--output", "results"],
    ],
    "predict": [
        ["experiment", "--output", "=sealed.json", "--results", "=out", "--uncertainty", "=20"],
        ["experiment", "--output", "=sealed.json", "--results", "results", "--uncertainty", "=20"],
        ["experiment", "--output", "=o.csv", "--results", "=out"],
        ["mail", "--machine", "machine", "--vs", "=vs", "--results", "=out"],
        ["mail", "--machine", "machine", "--vs", "profile", "--results", "=out"],
    ],
    "score": [["record"], ["seal", "table"], ["seal", "results"], ["seal", "table", "--record", "=out"]],
    "kernels diff": [
        ["=kernel", "=kernel"],
        ["=kernel", "=kernel", "--machine", "machine", "--workload", "workload", "--seconds", "=0.02", "--seeds", "=1"],
    ],
    "compare": [["table"], ["table", "table"], ["results"], ["mmtests"], ["benchlog"], ["benchlog", "benchlog"]],
    "meter": [["=meter", "experiment"], ["=meter", "--workload", "workload", "--machine", "machine"]],
    "trace info": [["trace"]],
    "trace events": [["trace"]],
    "trace export": [["trace", "--output", "=trace-out"]],
    "trace signals": [["trace"]],
    "trace energy": [["trace", "--machine", "machine"]],
    "trace idle": [["trace", "--machine", "machine"], ["trace", "--sysfs", "dump"]],
    "trace sql": [["trace", "=query"]],
    "trace to-rtapp": [["trace", "--machine", "machine"]],
    "trace view": [["trace", "--output", "=html"]],
    "replay": [["trace", "--machine", "machine"], ["recording"]],
    "verify vectors": [["vectors"], ["vectors", "vectors"]],
    "verify traces": [["recording"]],
    "verify published": [["=name", "--score-only", "--output", "results"]],
    "verify silicon": [["sysfs"], ["table"]],
    "host": [
        ["=show", "--root", "sysfs"],
        ["=show", "--format", "=json", "--root", "sysfs"],
        ["=show", "--root", "dump"],
        ["=affinity", "--root", "sysfs"],
        ["=affinity", "=set", "--cpus", "=cpus", "--root", "sysfs"],
        ["=affinity", "=restore", "--root", "sysfs"],
        ["=observe", "-n", "=2", "--interval", "=1ms", "--root", "sysfs"],
        ["=observe", "-n", "=2", "--interval", "=1ms", "--format", "=turbostat", "--root", "sysfs"],
        ["=govern", "--verify", "log"],
        ["=govern", "--explain", "log"],
        ["=govern", "--restore", "--root", "sysfs"],
        ["=govern", "--governor", "=governor", "--for", "=20ms", "--dry-run", "--root", "sysfs"],
        ["=compare", *RUNS, "--output", "=out", "--", "=true"],
        ["=compare", *RUNS, "--output", "results", "--", "=true"],
        ["=compare", "--report", "--output", "runs"],
        ["=compare", *RUNS, "--output", "runs", "--", "=true"],
        ["=calibrate", "--dry-run", "--root", "sysfs"],
        ["=experiment", "experiment", "--root", "sysfs", "--dry-run", "--", "=true"],
        ["=affinity", "=--evaluate", "--root", "sysfs", "--cpus", "=cpus", "--seconds", "=0.02"],
    ],
}
"""Positional arguments of each command, by kind of file; ``=`` stands before words that are no files.

The first of each has an answer from whole files.
"""

FIXED: dict[str, list[str]] = {
    "run": ["--seconds", "0.02", "-j", "1"],
    "meter": ["--seconds", "0.02", "--every", "0.005"],
    "fleet": ["--seconds", "0.02", "--iterations", "1", "--uncertainty", "0", "-j", "1"],
    "choose": ["--seconds", "0.02", "--iterations", "1", "--uncertainty", "0", "-j", "1"],
    "predict": ["-j", "1"],
    "calibrate": ["--rounds", "1", "--steps", "1", "--seeds", "1", "-j", "1"],
}
"""What keeps a call short."""

NEVER = {
    "seconds",
    "every",
    "iterations",
    "jobs",
    "rounds",
    "steps",
    "seeds",
    "dask",
    "docs",
    "help",
    "version",
    "until_ci",
}
"""Options that the fuzzer leaves alone: they make calls long, or write into the repository."""

NUMBERS = ["0", "1", "-1", "2", "255", "65536", "2147483647", "2147483648", "4294967295", "9223372036854775807"]
NUMBERS += ["9223372036854775808", "18446744073709551615", "18446744073709551616", "1e308", "1e400", "nan", "inf"]
NUMBERS += ["-0.0", "0.1", "99999999999999999999999999", "1e-300", "0x10", "", "00", "3.5", "100000"]

STRINGS = [
    "",
    "\0",
    "\x1b[31m",
    "../../x",
    "/tmp/x/abs",
    "a[/b]c",
    "a[bold]c",
    "a" * 300,
    "%s%n",
    "{}",
    '"',
    "'",
    "\r\n",
]
STRINGS += ["é", "\u202e", "\ud800", "[" * 500, "(" * 500, "a/b", ".", "-", "--", "nan", "null", "true", "\ufeff", "𝄞"]

WORDS = {
    "=kind": ["machines", "experiments", "governors", "kernels", "policy-keys", "tunables", "gates", "metrics", "x"],
    "=name": ["juno-eas", "juno-r2", "tbench", "hackbench", "schedutil", "w", "a/b", "../x", "."],
    "=meter": ["rails", "rapl", "turbostat", "battery"],
    "=trace-out": ["o.dat", "o.txt", "o.parquet", "o.pftrace", "o.csv", "o.json", "folder", "o"],
    "=html": ["o.html"],
    "=query": [
        "select count(*) as n from sched_switch",
        "select * from waits limit 3",
        "select",
        "drop table events",
        "\0",
    ],
    "=kernel": ["6.1", "6.12", "6.12.117", "5.10", "4.14", "6.1.0-56-amd64", "99.1", "6.6.88", "x"],
    "=vs": ["governor=ondemand", "hz=1000 kernel=6.1", "power-profiles-daemon", "hz=" + "9" * 5000, "x=y", "hz=nan"],
    "=cpus": ["5-3", "\u00b2", "0", "0-1", "0x3", "9", "-", "4294967295", "0-4294967295"],
    "=governor": ["schedutil", "ondemand", "conservative", "performance", "powersave", "x"],
}

HINTS: dict[str, list[str]] = {
    "at": ["0.01s", "1.002s", "5ms", "0s", "1e9s"],
    "task": ["t", "w", "rt", "t-0", "7"],
    "from_time": ["1.001", "+0.001", "2ms", "-1", "1e99"],
    "to_time": ["1.004", "+0.01", "1", "0"],
    "names": ["sched_switch", "cpu_frequency", "x"],
    "benchmarks": ["tbench", "tbench:tput", "x:y:z"],
    "baseline": ["a", "b", "x"],
    "runs": ["a,b", "b", "x,,"],
    "rules": ["tbench < -2% significant", "x", "tbench <", "energy > 1e999%"],
    "points": ["low,mid,high", "all", "600000", "low", ","],
    "soc": ["chip", "x"],
    "keys": ["hz=1000", "hz=0", "capacity=x", "hz", "uclamp_max=99999999999", "warmup=1s"],
    "tunables": ["rate_limit_us=0", "up_threshold=200", "x=y", "rate_limit_us=99999999999999999999"],
    "gates": ["delay_dequeue=true", "x=y", "delay_dequeue=7"],
    "driver": ["scmi", "cppc_cpufreq", "intel_pstate", "acpi-cpufreq", "x"],
    "freq_max": ["max_P", "mid", "max_boost", "x"],
    "metric": ["energy", "tput", "x"],
    "layout": ["blocks", "slides", "boxes", "overview", "x"],
    "param": ["tasks=2", "x"],
    "policy": ["a", "b/c", "x"],
}


def import_all() -> None:
    """Import everything that a command imports, so that calls need not."""
    import opplab

    for module in pkgutil.walk_packages(opplab.__path__, "opplab."):
        if not module.name.endswith("__main__") and "distributed" not in module.name:
            import_module(module.name)
    # A codec that is looked up first by a call as nobody is not found where the interpreter is root's alone.
    for module in pkgutil.iter_modules(encodings.__path__, "encodings."):
        if module.name not in ("encodings.mbcs", "encodings.oem"):
            import_module(module.name)
    for name in ("scipy.optimize", "scipy.stats", "scipy.interpolate", "rich.console", "jinja2", "tomllib", "sqlite3"):
        import_module(name)


def leaves() -> dict[str, click.Command]:
    """Give every command without commands of its own: words -> command."""
    from opplab.cli.main import opplab

    def walk(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
        if not isinstance(command, click.Group):
            yield " ".join(words), command
            return
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from walk(inner, (*words, name))

    return dict(walk(opplab, ()))


def sentence(draw: random.Random, commands: dict[str, click.Command], corpus: Corpus, folder: Path) -> Call:
    """Make up the words of a call, and write the files that they name to `folder`."""
    if draw.random() < 0.08:
        return _cut_only(draw, corpus, folder)
    surroundings = draw.choice(list(KINDS)) if draw.random() < 0.3 else ""
    name = draw.choice(sorted(commands))
    command = commands[name]
    places = PLACES.get(name, [["trace"]])
    words = name.split()
    for place in draw.choice(places):
        words.append(place if place.startswith("-") else _place(draw, place, corpus, folder))
    words += FIXED.get(name, [])
    options = [one for one in command.params if isinstance(one, click.Option) and one.name not in NEVER]
    given = set(words)
    for option in draw.sample(options, min(len(options), draw.choice([0, 0, 1, 1, 2, 3]))):
        if not given & set(option.opts):
            words += _option(draw, option, corpus, folder)
    if draw.random() < 0.02:
        words.insert(draw.randrange(1, len(words) + 1), draw.choice([w for w in STRINGS if "\0" not in w]))
    if name == "predict":
        # It has no --seconds: weeks that a file asks for are simulated, which is no hang.
        for file in folder.iterdir():
            if file.is_file() and file.stat().st_size < 1 << 20:
                file.write_bytes(re.sub(rb'(duration = ")[^"]{5,}', rb"\g<1>20ms", file.read_bytes()))
    return Call([word.replace("\0", "\\0") for word in words], surroundings)


CUT = [
    "trace info",
    "trace events",
    "trace signals",
    "trace energy",
    "trace idle",
    "replay",
    "explain",
    "learn",
    "compare",
]
CUT += ["trace sql", "trace export", "trace view", "trace to-rtapp"]
"""Commands that answer from files whose forms show that an end is missing."""


def _cut_only(draw: random.Random, corpus: Corpus, folder: Path) -> Call:
    """Make a call of a file that is whole but for its end."""
    name = draw.choice(CUT)
    kind = "table" if name == "compare" else "trace"
    endings = (".parquet",) if name == "compare" else (".dat", ".gz", ".xz", ".pftrace")
    sources = [path for path in corpus[kind] if path.name.endswith(endings)]
    if not sources:
        return Call(["trace", "info", "nothing"])
    source = draw.choice(sources)
    data = source.read_bytes()
    ends = list(_packet_ends(data)) if source.name.endswith(".pftrace") else []
    length = draw.randrange(len(data) // 4, len(data))
    while length in ends:
        length += 1
    (folder / source.name).write_bytes(data[:length])
    places = [place for place in PLACES[name] if kind in place] or [[kind]]
    words = name.split()
    for place in draw.choice(places):
        is_fixed = place.startswith("-") and place != kind
        words.append(source.name if place == kind else place if is_fixed else _place(draw, place, corpus, folder))
    return Call(words, is_cut=length < len(data))


def _packet_ends(data: bytes) -> Iterator[int]:
    """Give where packets of a Perfetto trace end: field 1, length, bytes."""
    at = 0
    while at < len(data):
        length, shift = 0, 0
        at += 1
        while at < len(data):
            length |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if not data[at - 1] & 0x80:
                break
        at += length
        yield at


def _place(draw: random.Random, place: str, corpus: Corpus, folder: Path) -> str:
    if place in WORDS:
        words = draw.choice(WORDS[place] if draw.random() < 0.9 else STRINGS)
        # A name of a result may be a path, but not of this machine.
        return words.replace("/tmp/", "tmp/") if "\0" not in words else "x"
    if place.startswith("="):
        return place[1:]
    if place == "machine" and draw.random() < 0.3:
        return draw.choice(["juno-r2", "pixel6", "epyc-7742-2s", "haswell-48x-numa", "auto", "x"])
    if draw.random() < 0.03:
        place = draw.choice(sorted(corpus))
    source = draw.choice(corpus[place])
    target = folder / f"{len(list(folder.iterdir()))}{source.name}"
    if source.is_dir():
        shutil.copytree(source, target)
        files = [path for path in sorted(target.rglob("*")) if path.is_file()]
        for path in draw.sample(files, min(len(files), draw.choice([1, 1, 2, 4]))):
            _damage(draw, path, corpus)
    else:
        shutil.copy(source, target)
        beside = source.parent / "periodic.json"
        if place == "experiment" and beside.exists():
            shutil.copy(beside, folder)
        _damage(draw, target, corpus)
        # A shell's pipe instead of a file; of traces more often, as they are unpacked on the way.
        if target.is_file() and not target.is_symlink() and target.stat().st_size < 64 << 20:
            piped = folder / PIPED
            if not piped.exists() and draw.random() < (0.1 if place == "trace" else 0.02):
                target.rename(piped)
                return "/dev/stdin"
    return target.name


def _option(draw: random.Random, option: click.Option, corpus: Corpus, folder: Path) -> list[str]:
    """Write an option with a value that is mostly fit."""
    flag = draw.choice([*option.opts, *option.secondary_opts])
    kind = option.type
    name = str(option.name)
    if option.is_flag:
        return [flag]
    if draw.random() < 0.05:
        return [flag, draw.choice([word for word in STRINGS if "\0" not in word and not word.startswith("/")])]
    if name in HINTS:
        return [flag, draw.choice(HINTS[name])]
    if isinstance(kind, click.Choice):
        return [flag, str(draw.choice(list(kind.choices)))]
    if isinstance(kind, click.Path):
        if name == "output" and draw.random() < 0.3:
            # A folder that is there already, of another call's results.
            return [flag, _place(draw, draw.choice(["results", "results", "mmtests", "recording"]), corpus, folder)]
        if name in ("output", "html", "junit", "perfetto"):
            return [flag, draw.choice(["o", "o.html", "o.toml", "o.json", "o.csv", "o.dat", "none/o", "."])]
        given = {
            "record": "record",
            "workload": "workload",
            "baseline": "table",
            "check": "power",
            "experiment": "experiment",
        }
        return [flag, _place(draw, given.get(name, "dump"), corpus, folder)]
    if name == "machine":
        return [flag, _place(draw, "machine", corpus, folder)]
    if hasattr(kind, "_names"):
        return [flag, draw.choice(kind._names())]
    if isinstance(kind, click.types.IntParamType | click.types.FloatParamType):
        return [flag, draw.choice([*NUMBERS[:9], "2", "3", "4", "0.9"])]
    return [flag, draw.choice(["a", "1M", "low", "generic", "2", "x"])]


def _damage(draw: random.Random, path: Path, corpus: Corpus) -> None:
    """Change a file in place, or let something else stand there."""
    how = draw.random()
    if how < 0.06:
        return
    if how < 0.09:
        _replace(draw, path, corpus)
        return
    data = path.read_bytes()
    is_text = b"\0" not in data[:4096] and (
        not data or sum(byte < 0x80 for byte in data[:4096]) > 0.9 * min(len(data), 4096)
    )
    for _ in range(draw.choice([1, 1, 1, 2, 3, 6, 20])):
        change = draw.choice(TEXT_CHANGES if is_text and draw.random() < 0.85 else BYTE_CHANGES)
        data = change(draw, data)[: 4 << 20]
    path.write_bytes(data)


def _replace(draw: random.Random, path: Path, corpus: Corpus) -> None:
    path.unlink()
    match draw.randrange(9):
        case 0:
            path.write_bytes(b"")
        case 1:
            path.mkdir()
        case 2:
            path.symlink_to("/dev/zero")
        case 3:
            path.symlink_to("nowhere")
        case 4:
            os.mkfifo(path)
        case 5:
            with path.open("wb") as stream:
                stream.truncate(10 << 30)
        case 6:
            path.symlink_to(path.name)
        case 7:
            path.write_bytes(draw.randbytes(draw.choice([1, 100, 10_000])))
        case _:
            other = draw.choice([path for paths in corpus.values() for path in paths if path.is_file()])
            path.write_bytes(other.read_bytes())


def _spot(draw: random.Random, data: bytes) -> int:
    # Heads have what is interesting.
    return draw.randrange(min(len(data), 256)) if draw.random() < 0.4 else draw.randrange(len(data))


def _flip(draw: random.Random, data: bytes) -> bytes:
    if not data:
        return b"\xff"
    at = _spot(draw, data)
    return data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :]


def _set(draw: random.Random, data: bytes) -> bytes:
    if not data:
        return b"\0"
    at = _spot(draw, data)
    length = draw.choice([1, 2, 4, 8])
    value = draw.choice([0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 31, (1 << 64) - 1, 1 << 63])
    return data[:at] + (value & ((1 << 8 * length) - 1)).to_bytes(length, "little") + data[at + length :]


def _cut(draw: random.Random, data: bytes) -> bytes:
    return data[: draw.randrange(len(data) + 1)]


def _drop(draw: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    at = _spot(draw, data)
    return data[:at] + data[at + draw.choice([1, 2, 8, 64, 1000]) :]


def _insert(draw: random.Random, data: bytes) -> bytes:
    at = _spot(draw, data) if data else 0
    return data[:at] + draw.randbytes(draw.choice([1, 2, 8, 64])) + data[at:]


def _double(draw: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    at = _spot(draw, data)
    part = data[at : at + draw.choice([1, 8, 64, 1000])]
    return data[:at] + part * draw.choice([2, 3, 50]) + data[at:]


def _number(draw: random.Random, data: bytes) -> bytes:
    found = list(re.finditer(rb"-?\d+(\.\d+)?", data[:200_000]))
    if not found:
        return _insert(draw, data)
    one = draw.choice(found)
    return data[: one.start()] + draw.choice(NUMBERS).encode() + data[one.end() :]


def _swap(draw: random.Random, data: bytes) -> bytes:
    """Give a number the value of another: each is valid, both together may contradict each other."""
    found = list(re.finditer(rb"\d+(\.\d+)?", data[:200_000]))
    if len(found) < 2:
        return _insert(draw, data)
    one, other = draw.choice(found), draw.choice(found)
    return data[: one.start()] + other[0] + data[one.end() :]


def _word(draw: random.Random, data: bytes) -> bytes:
    found = list(re.finditer(rb"[A-Za-z_]\w*", data[:200_000]))
    if not found:
        return _insert(draw, data)
    one, other = draw.choice(found), draw.choice(found)
    new = other[0] if draw.random() < 0.6 else draw.choice(STRINGS).encode("utf-8", "surrogatepass")
    return data[: one.start()] + new + data[one.end() :]


def _lines(draw: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    at, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    match draw.randrange(4):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[other])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case _:
            lines[at] = lines[at] * draw.choice([2, 100])
    return b"".join(lines)


def _mark(draw: random.Random, data: bytes) -> bytes:
    found = list(re.finditer(rb"[\[\]{}()<>\",:;=|#/.]", data[:200_000]))
    if not found:
        return _insert(draw, data)
    one = draw.choice(found)
    return (
        data[: one.start()]
        + draw.choice([b"", b"[", b"]", b"{", b"}", b'"', b",", b":", b"=", one[0] * 2])
        + data[one.end() :]
    )


Change = Callable[[random.Random, bytes], bytes]
BYTE_CHANGES: list[Change] = [_flip, _flip, _set, _set, _cut, _drop, _insert, _double]
TEXT_CHANGES: list[Change] = [_swap, _swap, _number, _number, _number, _word, _word, _lines, _mark, _cut, _flip]

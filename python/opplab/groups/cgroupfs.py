"""Control groups of a cgroup tree, v2 or v1: mounted, copied, in a tar archive or in a text snapshot."""

from __future__ import annotations

import fnmatch
import io
import re
import tarfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from opplab.errors import InputError
from opplab.files import TABLE_BYTES_MAX, check_size
from opplab.groups.settings import Found, Group, safe_part, unique
from opplab.report.numbers import some_of

FILE_BYTES_MAX = 1 << 20
"""The most that is read of a file: cgroup.threads of a group with 100 000 threads has some 700 kB."""
NR_GROUPS_MAX = 20_000
NR_MEMBERS_MAX = 2_000_000
WEIGHT_OF_IDLE = 0
"""What cpu.weight of an idle group shows (kernel/sched/core.c:`cpu_weight_read_u64()`, v6.12)."""
V2_FILES = ("cpu.weight", "cpu.max", "cpu.idle", "cpu.uclamp.min", "cpu.uclamp.max", "cpu.max.burst")
V1_FILES = ("cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us")
SNAPSHOT_BYTES_MAX = 1 << 28
SNAPSHOT_LINE = re.compile(
    r"(/.*?/(?:(?:cpu|cpuset|cgroup)\.[a-z][a-z._]*|tasks|release_agent)|/proc/[0-9]+/(?:task/[0-9]+/)?comm):(.*)"
)
SNAPSHOT_HEADING = re.compile(r"==+>?\s*(/.*?)\s*(?:<?==+)?\s*")
SNAPSHOT_THREAD = re.compile(r"([0-9]+) [0-9]+ (.{1,15}?):? [0-9]+:[^:]*:/")
"""A thread, its process, its name and its groups."""
SNAPSHOT_SIGNS = {*V2_FILES, *V1_FILES}
DECIMAL = re.compile(r"[0-9]{1,3}(\.[0-9]{1,2})?")


class _Tree(Protocol):
    """A tree of files: what a folder and an archive have in common."""

    def folders(self, at: str) -> list[str]: ...

    def text(self, path: str) -> str | None:
        """Give a file's text; None: there is no such file. OSError: it cannot be read."""
        ...

    def has(self, path: str) -> bool: ...


class _Folder:
    def __init__(self, root: Path) -> None:
        self.root = root

    def folders(self, at: str) -> list[str]:
        return sorted(one.name for one in (self.root / at).iterdir() if one.is_dir() and not one.is_symlink())

    def text(self, path: str) -> str | None:
        place = self.root / path
        if not place.exists():
            return None
        if not place.is_file():
            raise OSError("no plain file")
        with place.open("rb") as file:
            return _decoded(file.read(FILE_BYTES_MAX + 1))

    def has(self, path: str) -> bool:
        return (self.root / path).exists()


class _Held:
    """Files that are held: their contents by path, None for those that are too long."""

    def __init__(self) -> None:
        self.files: dict[str, bytes | None] = {}
        self.below: dict[str, set[str]] = {"": set()}

    def add_folders(self, parts: Sequence[str]) -> None:
        for depth, part in enumerate(parts):
            self.below.setdefault("/".join(parts[:depth]), set()).add(part)
            self.below.setdefault("/".join(parts[: depth + 1]), set())

    def folders(self, at: str) -> list[str]:
        return sorted(self.below.get(at, ()))

    def text(self, path: str) -> str | None:
        if path not in self.files:
            return None
        data = self.files[path]
        if data is None:
            raise OSError(f"more than {FILE_BYTES_MAX} bytes")
        return _decoded(data)

    def has(self, path: str) -> bool:
        return path in self.files or path in self.below


def _of_file(path: Path) -> _Held | None:
    """Read a tar archive or a snapshot, also out of a pipe; None: it is neither."""
    with check_size(path, "control groups").open("rb") as file:
        source = file if file.seekable() else io.BytesIO(file.read(SNAPSHOT_BYTES_MAX + 1))
        is_archive = tarfile.is_tarfile(source)
        source.seek(0)
        return _of_archive(source, path) if is_archive else _of_snapshot(source)


def _of_archive(source: IO[bytes], path: Path) -> _Held:
    held = _Held()
    unpacked = 0
    try:
        with tarfile.open(fileobj=source) as archive:
            for number, member in enumerate(archive):
                unpacked += member.size
                if number > NR_MEMBERS_MAX or unpacked > TABLE_BYTES_MAX:
                    raise InputError(f"{path}: more than {NR_MEMBERS_MAX} files or {TABLE_BYTES_MAX} bytes unpacked")
                parts = [part for part in PurePosixPath(member.name).parts if part not in ("/", ".")]
                if ".." in parts or not parts:
                    continue
                held.add_folders(parts if member.isdir() else parts[:-1])
                if member.isfile() and parts[-1].startswith(("cpu", "cgroup.", "tasks", "comm", "release_agent")):
                    file = archive.extractfile(member) if member.size <= FILE_BYTES_MAX else None
                    held.files["/".join(parts)] = None if file is None else file.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        raise InputError(f"{path}: not a whole tar archive ({error})") from error
    return held


def _of_snapshot(source: IO[bytes]) -> _Held | None:
    """Read a text with the contents of files, each after its path; None: it has none."""
    data = source.read(SNAPSHOT_BYTES_MAX + 1)
    if len(data) > SNAPSHOT_BYTES_MAX or b"\0" in data[:4096]:
        return None
    texts: dict[str, list[str]] = {}
    block: list[str] | None = None
    for line in data.decode("utf-8", "replace").splitlines():
        if heading := SNAPSHOT_HEADING.fullmatch(line):
            block = texts.setdefault(heading[1], [])
        elif block is not None:
            block.append(line)
        elif one := SNAPSHOT_LINE.fullmatch(line.strip()):
            # The file's lines, each in a line of its own (grep) or with `|` between them.
            texts.setdefault(one[1], []).extend(one[2].strip().strip("|").split("|"))
        elif thread := SNAPSHOT_THREAD.match(line):
            texts.setdefault(f"/proc/{thread[1]}/comm", [thread[2]])
    held = _Held()
    for name, lines in texts.items():
        parts = [part for part in PurePosixPath(name).parts if part not in ("/", ".")]
        if parts and ".." not in parts:
            held.add_folders(parts[:-1])
            held.files["/".join(parts)] = "\n".join(lines).encode()
    return held if any(parts.rpartition("/")[2] in SNAPSHOT_SIGNS for parts in held.files) else None


def _decoded(data: bytes) -> str:
    if len(data) > FILE_BYTES_MAX:
        raise OSError(f"more than {FILE_BYTES_MAX} bytes")
    return data.decode("utf-8", "replace")


def _join(*parts: str) -> str:
    return "/".join(part for part in parts if part)


class _Reader:
    def __init__(
        self, tree: _Tree, cpu: str, cpuset: str | None, proc: tuple[_Tree, str] | None, *, is_v1: bool
    ) -> None:
        self.tree, self.cpu, self.cpuset, self.proc, self.is_v1 = tree, cpu, cpuset, proc, is_v1
        self.found = Found()
        self.has_threads = False
        self.nr_files = {False: 0, True: 0}
        """Files with settings that were empty, and that were not."""
        self.partitions: list[str] = []

    def file(self, base: str, at: str, name: str) -> str | None:
        """Give the words of a file; what cannot be read is noted."""
        path = _join(base, at, name)
        try:
            text = self.tree.text(path)
        except OSError as error:
            self.note(at, name, f"unreadable ({error.strerror or error})")
            return None
        if text is None:
            return None
        text = " ".join(text.replace("\0", " ").split())
        if not name.startswith("cpuset."):
            self.nr_files[bool(text)] += 1
            if not text:
                self.note(at, name, "empty")
                return None
        return text

    def note(self, at: str, name: str, what: str) -> None:
        place = "/".join(safe_part(part) for part in _join(at, name).split("/"))
        self.found.notes.append(f"{place}: {what}; taken as not set")

    def odd(self, at: str, name: str, text: str) -> None:
        self.note(at, name, f"`{safe_part(text[:40])}` is no value of it")

    def number(self, at: str, name: str, least: int, most: int) -> int | None:
        text = self.file(self.cpu, at, name)
        if text is None:
            return None
        if not re.fullmatch(r"-?[0-9]{1,19}", text) or not least <= int(text) <= most:
            self.odd(at, name, text)
            return None
        return int(text)

    def group(self, at: str, name: str) -> Group:
        """Read the settings of a group; `why` has the arithmetic."""
        one = Group(name)
        of, why = one.settings, one.why
        idle = self.number(at, "cpu.idle", 0, 1)
        if idle:
            of["idle"] = True
            why.append("cpu.idle 1: SCHED_IDLE's weight, 3 of 1024")
        elif self.is_v1:
            shares = self.number(at, "cpu.shares", 2, 1 << 18)
            if shares not in (None, 1024):
                of["shares"] = shares
                why.append(f"cpu.shares {shares}: {shares / 1024:.4g} times the default of 1024")
        else:
            weight = self.number(at, "cpu.weight", WEIGHT_OF_IDLE if idle else 1, 10_000)
            nice = self.number(at, "cpu.weight.nice", -20, 19)
            if weight not in (None, 100):
                of["weight"] = weight
                why.append(f"cpu.weight {weight}: {weight / 100:.4g} times the default of 100")
            elif weight is None and nice:
                of["weight_nice"] = nice
                why.append(f"cpu.weight.nice {nice}, since cpu.weight is not known")
        self.quota(at, one)
        self.clamps(at, one)
        runtime_us = self.number(at, "cpu.rt_runtime_us", -1, 10**9) if self.is_v1 else None
        if runtime_us:
            self.found.notes.append(
                f"{name}: cpu.rt_runtime_us {runtime_us} is not simulated; each CPU has one queue of real-time tasks"
            )
        return one

    def quota(self, at: str, one: Group) -> None:
        if self.is_v1:
            us = self.number(at, "cpu.cfs_quota_us", -1, 1 << 40)
            period = self.number(at, "cpu.cfs_period_us", 1_000, 1_000_000)
            if us is None or us == -1:
                return
            words, period, file = [str(us)], period or 100_000, "cpu.cfs_quota_us / cpu.cfs_period_us"
            if us < 1_000:
                self.odd(at, "cpu.cfs_quota_us", str(us))
                return
            burst = self.number(at, "cpu.cfs_burst_us", 0, us)
        else:
            text = self.file(self.cpu, at, "cpu.max")
            if text is None:
                return
            words, file = text.split(), "cpu.max"
            good = len(words) in (1, 2) and all(re.fullmatch(r"[0-9]{1,13}", word) for word in words[1:])
            period = int(words[1]) if good and len(words) == 2 else 100_000
            limit = words[0] == "max" or (re.fullmatch(r"[0-9]{1,12}", words[0]) and int(words[0]) >= 1_000)
            if not (good and limit and 1_000 <= period <= 1_000_000):
                self.odd(at, "cpu.max", text)
                return
            if words[0] == "max":
                return
            burst = self.number(at, "cpu.max.burst", 0, int(words[0]))
        one.settings["max"] = f"{words[0]} {period}"
        one.why.append(f"{file}: {words[0]} us of {period} us: {int(words[0]) / period:.4g} CPUs")
        if burst:
            one.settings["burst_us"] = burst
            one.why.append(f"burst {burst} us: a period may have {int(words[0]) + burst} us after quiet ones")

    def clamps(self, at: str, one: Group) -> None:
        for bound, default in (("min", 0.0), ("max", 100.0)):
            name = f"cpu.uclamp.{bound}"
            text = self.file(self.cpu, at, name)
            if text is None or (text == "max" and bound == "max"):
                continue
            value = 100.0 if text == "max" else float(text) if DECIMAL.fullmatch(text) else 1e9
            if value > 100:
                self.odd(at, name, text)
            elif value != default:
                one.settings[f"uclamp_{bound}"] = text
                one.why.append(f"{name} {text} %: {int(value * 10.24 + 0.5)} of 1024")

    def isolates(self, at: str, name: str) -> bool:
        """Whether a group is a valid isolated partition below the root: others need domains that are not simulated."""
        isolated = self.cpuset is not None and self.file(self.cpuset, at, "cpuset.cpus.partition") == "isolated"
        return isolated and name.count("/") == 1

    def cpus(self, at: str, name: str) -> str | None:
        """Give the CPUs that a group has in effect; None: not known."""
        if self.cpuset is None:
            return None
        if self.is_v1 and self.file(self.cpuset, at, "cpuset.sched_load_balance") == "0":
            self.partitions.append(f"{name} (cpuset.sched_load_balance 0)")
        partition = self.file(self.cpuset, at, "cpuset.cpus.partition")
        if at and partition and not partition.startswith("member") and not self.isolates(at, name):
            self.partitions.append(f"{name} ({safe_part(partition)})")
        for file in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
            text = self.file(self.cpuset, at, file)
            if text:
                if re.fullmatch(r"[0-9]{1,6}(-[0-9]{1,6})?(,[0-9]{1,6}(-[0-9]{1,6})?)*", text):
                    return text
                self.odd(at, file, text)
        return None

    def threads(self, at: str) -> Counter[str] | None:
        """Count a group's threads by name; None: no file has them."""
        for file in ("tasks",) if self.is_v1 else ("cgroup.threads", "cgroup.procs"):
            try:
                text = self.tree.text(_join(self.cpu, at, file))
            except OSError:
                continue
            if text is not None:
                ids = text.split()
                if all(re.fullmatch("[0-9]+", one) for one in ids):
                    break
                self.odd(at, file, text)
        else:
            return None
        self.has_threads |= bool(ids)
        base = safe_part(PurePosixPath(at).stem if at else "task")
        return Counter(self.comm(one) or base for one in ids)

    def comm(self, tid: str) -> str | None:
        if self.proc is None:
            return None
        try:
            text = self.proc[0].text(_join(self.proc[1], tid, "comm"))
        except OSError:
            return None
        return safe_part(text.strip()) if text and text.strip() else None

    def walk(self) -> Iterator[tuple[str, int]]:
        """Give the folders below the root, a parent before its children, with their depths."""
        left, seen = [("", 0)], 0
        while left:
            at, depth = left.pop()
            yield at, depth
            try:
                below = self.tree.folders(_join(self.cpu, at))
            except OSError as error:
                self.found.notes.append(f"{safe_part(at or '/')}: gone or unreadable ({error.strerror or error})")
                continue
            seen += len(below)
            if seen > NR_GROUPS_MAX:
                raise InputError(f"more than {NR_GROUPS_MAX} folders; --depth or a subtree reads fewer")
            left += [(_join(at, name), depth + 1) for name in reversed(below)]


def _has(tree: _Tree, at: str, names: tuple[str, ...]) -> bool:
    return any(tree.has(_join(at, name)) for name in names)


def _v1_root(tree: _Tree, at: str) -> str | None:
    mounts = ("cpu,cpuacct", "cpuacct,cpu", "cpu", "")
    return next((_join(at, one) for one in mounts if _has(tree, _join(at, one), V1_FILES)), None)


def _top(tree: _Tree) -> tuple[str, tuple[_Tree, str] | None]:
    """Find the root of the groups, below folders that hold nothing else, and where processes are."""
    signs = ("cgroup.procs", "cgroup.controllers", "tasks", "cpu", "cpu,cpuacct", "cpuacct,cpu", *V1_FILES, *V2_FILES)
    at = ""
    while not _has(tree, at, signs):
        inside = _join(at, "sys/fs/cgroup")
        if tree.has(inside):
            proc = _join(at, "proc")
            return inside, (tree, proc) if tree.has(proc) else None
        below = tree.folders(at)
        if len(below) != 1 or at.count("/") > 8:
            return "", None
        at = _join(at, below[0])
    return at, None


def _reader(path: Path) -> tuple[_Reader, str]:
    """Find the tree, its version, CPU sets and processes; with the name of a root that is a group."""
    tree: _Tree | None = _Folder(path) if path.is_dir() else _of_file(path)
    if tree is None:
        raise InputError(
            f"{path}: no folder, no tar archive and no snapshot; a snapshot has a file a line, like "
            "`/sys/fs/cgroup/web/cpu.max: 20000 100000` (grep -r . /sys/fs/cgroup)"
        )
    at, proc = _top(tree)
    if path.is_dir() and str(path.resolve()).startswith("/sys/fs/cgroup"):
        proc = (_Folder(Path("/")), "proc")
    v1 = _v1_root(tree, at)
    if v1 is not None:
        beside = [_join(at, "cpuset")] if v1 != at else [at] if _has(tree, at, ("cpuset.cpus",)) else []
        cpuset = next((one for one in beside if tree.has(one)), None)
        is_root = v1 != at or _has(tree, v1, ("release_agent", "cgroup.sane_behavior"))
        reader = _Reader(tree, v1, cpuset, proc, is_v1=True)
    else:
        reader = _Reader(tree, at, at, proc, is_v1=False)
        is_root = not _has(tree, at, V2_FILES)
    own = PurePosixPath(at).name if at else path.resolve().name.removesuffix(".tar")
    return reader, "" if is_root else "/" + safe_part(own)


def read(path: Path, depth: int | None = None, only: str | None = None, *, keep_empty: bool = False) -> Found:
    """Read the groups of a cgroup tree.

    Parameters
    ----------
    path : Path
        ``/sys/fs/cgroup`` or a group in it, a copy of it, a copied root folder that has ``sys/fs/cgroup`` (and
        ``proc``), a tar archive of one of them, or a text with the contents of files, each after its path.
    depth : int, optional
        Levels below the root that have groups of their own; deeper ones count in those.
    only : str, optional
        Pattern of the groups that are wanted; groups above them are read as well.
    keep_empty : bool
        Keep groups without threads.
    """
    reader, root = _reader(path)
    found = reader.found
    # The group in which a folder's threads are scheduled, and the CPUs of the group.
    place: dict[str, Group | None] = {}
    cpus: dict[str, str | None] = {}
    names: dict[str, str] = {}
    taken: set[str] = set()
    any_cpu, folded, unseen = False, 0, 0
    files = V1_FILES if reader.is_v1 else V2_FILES
    for at, level in reader.walk():
        above = at.rpartition("/")[0]
        names[at] = root if not at else unique(f"{names[above]}/{safe_part(at.rpartition('/')[2])}", taken)
        if not at and not root:
            place[at], cpus[at] = None, reader.cpus(at, "/")
            if any(_has(reader.tree, _join(reader.cpu, name), files) for name in reader.tree.folders(reader.cpu)):
                any_cpu = True
            reader.threads(at)
            continue
        parent = place.get(above) if at else None
        if not _has(reader.tree, _join(reader.cpu, at), files):
            # The controller is not enabled there, so that the kernel has no task group of it.
            place[at], cpus[at] = parent, cpus.get(above)
        elif depth is not None and level > depth:
            place[at], cpus[at] = parent, cpus.get(above)
            folded += 1
        else:
            any_cpu = True
            group = place[at] = reader.group(at, names[at])
            own = reader.cpus(at, names[at])
            cpus[at] = own or (cpus.get(above) if at else None)
            if own and (not at or own != cpus.get(above)):
                group.settings["cpus"] = own
                group.why.append(f"cpuset: CPUs {own}")
            if own and at and reader.isolates(at, names[at]):
                group.settings["partition"] = "isolated"
            found.groups.append(group)
        threads = reader.threads(at)
        target = place[at]
        if target is not None and threads:
            target.threads.update(threads)
        elif threads:
            unseen += sum(threads.values())
    if not any_cpu:
        raise InputError(
            f"{path}: no cgroup below the root has files of the cpu controller (cpu.weight, cpu.max, cpu.shares)"
        )
    if not reader.nr_files[True]:
        raise InputError(
            f"{path}: all files are empty, as tar stores those of a mounted tree; copy it with cp -r first"
        )
    _finish(found, reader, only, keep_empty=keep_empty)
    if folded:
        found.notes.append(f"{folded} groups below level {depth} count in the groups above them (--depth)")
    if unseen:
        found.notes.append(f"{unseen} threads in groups without the cpu controller are left out")
    if reader.partitions:
        first = some_of(reader.partitions, 5)
        found.notes.append(f"{len(reader.partitions)} partitions are kept as CPU sets, not as domains: {first}")
    return found


def _finish(found: Found, reader: _Reader, only: str | None, *, keep_empty: bool) -> None:
    """Take away groups that are not wanted or have no threads, and give threads to those of which none are known."""
    if only is not None:
        wanted = {one.name for one in found.groups if fnmatch.fnmatchcase(one.name, only)}
        if not wanted:
            raise InputError(f"--only {only}: no group is called so; {len(found.groups)} are there")
        above = _above(wanted)
        kept = [one for one in found.groups if one.name in wanted or one.name in above]
        left = len(found.groups) - len(kept)
        for one in kept:
            if one.name not in wanted:
                one.threads.clear()
        if left:
            found.notes.append(f"{left} groups are left out, with the CPU time that they would take (--only)")
        found.groups[:] = kept
    if keep_empty:
        # A workload's own tasks are put into them.
        return
    if not reader.has_threads:
        above = _above({one.name for one in found.groups})
        for one in found.groups:
            if one.name not in above:
                one.threads[PurePosixPath(one.name).stem] = 1
        found.notes.append("no file has the groups' threads: each innermost group gets one")
    else:
        names = {one.name for one in found.groups if one.threads}
        above = _above(names)
        kept = [one for one in found.groups if one.name in names or one.name in above]
        if len(kept) < len(found.groups):
            found.notes.append(f"{len(found.groups) - len(kept)} groups without threads are left out")
        found.groups[:] = kept


def _above(names: set[str]) -> set[str]:
    """Give the groups that hold one of the groups."""
    return {str(one) for name in names for one in PurePosixPath(name).parents}

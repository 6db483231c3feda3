"""`opplab host ... --ssh HOST` and `--adb DEVICE`: the static agent there, what it wrote here.

::

    opplab-agent ─► ~/.cache/opplab/ID there ─► runs there ─► its folder of results, packed ─► here
                         ▲ results of an earlier, cut-off run of the same folder

The agent's supervisor is there, too: if the connection ends, the run ends and settings are put back.  The same command
goes on where it was.
"""

from __future__ import annotations

import hashlib
import io
import re
import shlex
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from opplab.errors import InputError

MACHINES = {0x3E: ("x86_64", "amd64"), 0xB7: ("aarch64", "arm64"), 0x28: ("armv7l", "armv8l"), 0xF3: ("riscv64",)}
"""An ELF file's machine -> `uname -m` there."""
DEFAULTS = {"compare": "host-compare", "calibrate": "host-calibrate"}
"""Commands that write a folder, and its name where none is given."""


class Far:
    """A way to another machine.

    Parameters
    ----------
    name : str
        Of the machine, as the way's program takes it.
    """

    home = "${HOME:-/tmp}/.cache/opplab"

    def __init__(self, name: str) -> None:
        self.name = name
        if shutil.which(self.words("true")[0]) is None:
            raise InputError(f"{self.words('true')[0]} is not installed")

    def words(self, script: str, to: str = "ask") -> list[str]:
        """Give the program's words that run a shell script there, to ask, send or run."""
        raise NotImplementedError

    def ask(self, script: str) -> bytes:
        """Run a script there and give what it prints.

        Raises
        ------
        InputError
            It failed, with its message.
        """
        done = subprocess.run(self.words(script), stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            why = said[-1] if said else f"exit code {done.returncode}"
            raise InputError(f"{self.name}: {why}")
        return done.stdout

    def send(self, data: bytes, script: str) -> None:
        """Run a script there that takes `data` from its standard input."""
        done = subprocess.run(self.words(script, "send"), input=data, capture_output=True, check=False)
        if done.returncode:
            raise InputError(f"{self.name}: {done.stderr.decode(errors='replace').strip()}")

    def run(self, script: str) -> int:
        """Run a script there with this terminal's output; give its exit code."""
        return subprocess.run(self.words(script, "run"), stdin=subprocess.DEVNULL, check=False).returncode


class Ssh(Far):
    """By ssh, whose own configuration has how HOST is reached."""

    def words(self, script: str, to: str = "ask") -> list[str]:
        """Give ssh's words."""
        if self.name.startswith("-"):
            raise InputError(f"--ssh: `{self.name}` is no host")
        return ["ssh", self.name, script]


class Adb(Far):
    """By Android's debug bridge."""

    home = "/data/local/tmp/opplab"

    def words(self, script: str, to: str = "ask") -> list[str]:
        """Give adb's words: `exec-out` and `exec-in` leave bytes as they are, `shell` gives the exit code."""
        return ["adb", "-s", self.name, {"ask": "exec-out", "send": "exec-in", "run": "shell"}[to], script]


def machine_of(agent: Path) -> tuple[str, ...]:
    """Give `uname -m` of machines that an agent runs on.

    Raises
    ------
    InputError
        It is no program of Linux.
    """
    with agent.open("rb") as file:
        head = file.read(20)
    if head[:4] != b"\x7fELF" or int.from_bytes(head[18:20], "little") not in MACHINES:
        raise InputError(f"{agent}: not a program for Linux")
    return MACHINES[int.from_bytes(head[18:20], "little")]


def output_at(words: Sequence[str]) -> tuple[int, str, str] | None:
    """Find a command's output, however that is spelt: the place of its word, what stands before the name, the name.

    Words after ``--`` are those of another program.
    """
    end = words.index("--") if "--" in words else len(words)
    for index in range(end):
        if found := re.fullmatch(r"(?s)(--output=|-o=?)(.+)", words[index]):
            return index, found[1], found[2]
        if words[index] in ("-o", "--output") and index + 1 < end:
            return index + 1, "", words[index + 1]
    return None


def output_of(words: Sequence[str]) -> tuple[list[str], Path | None]:
    """Give a command's words with its output there, and where it is to be here; None where it writes nothing.

    Examples
    --------
    >>> output_of(["compare", "-o", "a/b", "--", "make"])
    (['compare', '-o', 'out/b', '--', 'make'], PosixPath('a/b'))
    >>> output_of(["show"])
    (['show'], None)
    """
    words = list(words)
    if found := output_at(words):
        index, start, name = found
        words[index] = f"{start}out/{Path(name).name}"
        return words, Path(name)
    if words and words[0] in DEFAULTS:
        here = Path(DEFAULTS[words[0]])
        return [words[0], "-o", f"out/{here.name}", *words[1:]], here
    return words, None


def run(far: Far, words: Sequence[str], agent: Path, sudo: bool = False) -> tuple[int, Path | None]:
    """Run a command of the agent on another machine and bring what it wrote.

    Parameters
    ----------
    words : sequence of str
        As those of `opplab host`.
    agent : Path
        A static `opplab-agent` (`make agent`) for that machine.
    sudo : bool
        Whether it runs as root there, by `sudo -n`.

    Returns
    -------
    (int, Path or None)
        Its exit code, and where its output is.

    Raises
    ------
    InputError
        The agent is for another kind of machine, or the machine is not reached.
    """
    kinds = machine_of(agent)
    kind = far.ask("uname -m").decode().strip()
    if kind not in kinds:
        raise InputError(f"{far.name} is {kind}; {agent} is for {kinds[0]}")
    there, here = output_of(words)
    name = hashlib.sha256(str(here.absolute() if here else "").encode()).hexdigest()[:16]
    folder = f"{far.home}/{name}"
    # Nobody else may put a link there.
    far.ask(f'umask 077 && mkdir -p "{folder}/out"')
    data = agent.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    known = far.ask(f'cat "{folder}/agent.sha256" 2>/dev/null || true').decode().strip()
    if known != digest:
        far.send(data, f'cat > "{folder}/opplab-agent"')
        far.ask(f'chmod 700 "{folder}/opplab-agent" && echo {digest} > "{folder}/agent.sha256"')
    if here is not None and here.is_dir():
        far.send(_packed(here), f'tar -C "{folder}/out" -xf -')
    command = shlex.join(["./opplab-agent", *there])
    code = far.run(f'cd "{folder}" && {"sudo -n " if sudo else ""}{command}')
    if here is not None:
        # What root wrote belongs to root.
        packed = far.ask(f'cd "{folder}/out" && {"sudo -n " if sudo else ""}tar -cf - .')
        unpack(packed, here)
    return code, here


def _packed(folder: Path) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.add(folder, folder.name, filter=lambda info: info if info.isfile() or info.isdir() else None)
    return out.getvalue()


def unpack(packed: bytes, here: Path) -> None:
    """Put an archive's files at `here`, whatever their owner; names that lead elsewhere are left out."""
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            parts = [part for part in PurePosixPath(member.name).parts if part != "."]
            if not member.isfile() or not parts or ".." in parts or parts[0] != here.name:
                continue
            target = here.joinpath(*parts[1:])
            target.parent.mkdir(parents=True, exist_ok=True)
            source = archive.extractfile(member)
            assert source is not None
            target.write_bytes(source.read())

"""`opplab host --ssh`: the agent is copied and run, results come back, another kind of machine is refused.

The way here is a shell on this machine in a home of its own.  By sshd on loopback where that is installed.
"""

from __future__ import annotations

import io
import os
import platform
import shutil
import socket
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from opplab.errors import InputError
from opplab.host import far

from calls import answered, called

ELF = {"x86_64": 0x3E, "aarch64": 0xB7}


class Here(far.Far):
    """A shell on this machine, whose home is a folder."""

    def __init__(self, folder: Path) -> None:
        self.home = str(folder)
        super().__init__("here")

    def words(self, script: str, to: str = "ask") -> list[str]:
        return ["sh", "-c", script]


def agent(folder: Path, machine: int | None = None) -> Path:
    """Write what looks like a program by its head, and is a shell script to a shell that is asked to run it."""
    path = folder / "agent"
    head = bytearray(b"\x7fELF" + bytes(16))
    head[18] = ELF.get(platform.machine(), 0) if machine is None else machine
    path.write_bytes(bytes(head))
    return path


class Scripted(Here):
    """The same, where the agent is a script."""

    script = ""

    def run(self, script: str) -> int:
        return subprocess.run(
            ["sh", "-c", script.replace("./opplab-agent", f"sh -c {self.script!r} agent")], check=False
        ).returncode


def test_results_come_back_and_go_on(tmp_path: Path) -> None:
    way = Scripted(tmp_path / "home")
    # Adds a line to what an earlier run left in its folder.
    way.script = 'mkdir -p out/res; echo line >> out/res/runs.jsonl; echo "$@" > out/res/words'
    here = tmp_path / "deep" / "res"
    words = ["compare", "-o", str(here), "--", "echo", "a b"]
    for count in (1, 2):
        code, place = far.run(way, words, agent(tmp_path))
        assert (code, place) == (0, here)
        assert (here / "runs.jsonl").read_text() == "line\n" * count
        shutil.rmtree(tmp_path / "home" / "x", ignore_errors=True)
    assert (here / "words").read_text() == "compare -o out/res -- echo a b\n"
    # What is here counts, also where the other machine has lost it.
    shutil.rmtree(tmp_path / "home")
    far.run(way, words, agent(tmp_path))
    assert (here / "runs.jsonl").read_text() == "line\n" * 3


def test_another_kind_of_machine_is_refused(tmp_path: Path) -> None:
    way = Here(tmp_path / "home")
    other = next(value for kind, value in ELF.items() if kind != platform.machine())
    with pytest.raises(InputError, match=r"here is .*; .*agent is for"):
        far.run(way, ["show"], agent(tmp_path, other))
    (tmp_path / "text").write_text("#!/bin/sh\n")
    with pytest.raises(InputError, match="not a program for Linux"):
        far.run(way, ["show"], tmp_path / "text")
    with pytest.raises(InputError, match="is no host"):
        far.Ssh("-oProxyCommand=x")


def test_an_archive_stays_in_its_folder(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in ("res/good", "../bad", "res/../../bad", "/bad", "other/bad"):
            info = tarfile.TarInfo(name)
            info.size = 1
            archive.addfile(info, io.BytesIO(b"x"))
        link = tarfile.TarInfo("res/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    far.unpack(out.getvalue(), tmp_path / "a" / "res")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() or path.is_symlink()] == ["good"]


def test_the_options_are_taken_apart(tmp_path: Path) -> None:
    def refused(*words: str) -> str:
        done = called("host", *words)
        assert done.exit_code, words
        return f"{done.output} {done.exception}"

    assert "--ssh or --adb" in refused("--ssh", "a", "--adb", "b", "show")
    assert "are for --ssh" in refused("show", "--sudo")
    assert "no agent to copy" in refused("show", "--ssh", "a", "--agent", str(tmp_path / "none"))
    assert "no experiment" in refused("experiment", "--ssh", "a", "x.toml")


SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin") or ""
AGENT = Path(__file__).parents[2] / "target" / "opplab-agent"


@pytest.mark.skipif(not SSHD, reason="skipped: sshd is not installed")
@pytest.mark.skipif(not AGENT.is_file(), reason="skipped: no static agent (make agent)")
def test_by_ssh_on_loopback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of its own on 127.0.0.1, with keys of its own, that ends with the test."""
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    shutil.copy(tmp_path / "user.pub", tmp_path / "authorized")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host\nAuthorizedKeysFile {tmp_path}/authorized\n"
        f"PidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n"
    )
    (tmp_path / "config").write_text(
        f"Host loop\n HostName 127.0.0.1\n Port {port}\n IdentityFile {tmp_path}/user\n BatchMode yes\n"
        f" UserKnownHostsFile {tmp_path}/known\n StrictHostKeyChecking accept-new\n"
    )
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "ssh").write_text(f'#!/bin/sh\nexec "{shutil.which("ssh")}" -F "{tmp_path}/config" "$@"\n')
    (tools / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    # Where its package starts no service, the folder that it wants is not there.
    separation = Path("/run/sshd")
    is_ours = not separation.is_dir()
    if is_ours:
        if os.geteuid() != 0:
            pytest.skip("skipped: sshd has no /run/sshd")
        separation.mkdir(mode=0o755)
    server = subprocess.Popen([SSHD, "-D", "-e", "-f", str(tmp_path / "sshd_config")], stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        here = tmp_path / "res"
        words = ["host", "--ssh", "loop", "--agent", str(AGENT), "compare", "-o", str(here), "--blocks", "2"]
        words += ["--pilot", "2", "--warm-up", "0", "--same", "0", "--others", "1000", "--env", "A=1", "--env", ""]
        answered(*words, "--", "true")
        assert (here / "runs.jsonl").read_text().count('"kind":"block"') >= 4
        assert (here / "results.parquet").is_file()
    finally:
        server.terminate()
        server.wait()
        if is_ours:
            separation.rmdir()

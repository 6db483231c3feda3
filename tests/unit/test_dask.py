"""Sweeps on a Dask cluster on the loopback interface."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import opplab
from opplab import results

from calls import called

pytest.importorskip("distributed", reason="skipped: the extra 'dask' is not installed")
SHORT = ("--iterations", "1", "--seconds", "1", "--no-report")
ENVIRONMENT = {**os.environ, "PYTHONWARNINGS": "ignore", "DASK_DISTRIBUTED__ADMIN__LOW_LEVEL_LOG_LENGTH": "0"}


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "opplab.cli.main", "run", "juno-eas", "-o", str(folder), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=120)


class Cluster:
    """A scheduler and two workers, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.address = self._address(
            self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show")
        )
        for number in range(2):
            options = ("--nthreads", "1", "--nworkers", "1", "--no-dashboard", "--no-nanny")
            self._start("worker", self.address, *options, "--host", "127.0.0.1", "--name", f"w{number}")
        self.workers = self.processes[1:]

    def _start(self, what: str, *options: str) -> Path:
        log = self.folder / f"{what}{len(self.processes)}.log"
        command = [sys.executable, "-m", "dask", what, *options]
        if what == "worker":
            command += ["--local-directory", str(self.folder)]
        with log.open("wb") as file:
            self.processes.append(
                subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, cwd=self.folder, env=ENVIRONMENT)
            )
        return log

    def _address(self, log: Path) -> str:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if found := re.search(r"tcp://127\.0\.0\.1:\d+", log.read_text()):
                return found[0]
            time.sleep(0.05)
        raise AssertionError(log.read_text())

    def wait_for_workers(self) -> None:
        from distributed import Client

        with Client(self.address, timeout=30) as client:
            client.wait_for_workers(2, timeout=60)

    def stop(self) -> None:
        for process in self.processes[::-1]:
            process.kill()
            process.wait()


@pytest.mark.filterwarnings("ignore")
def test_a_worker_dies_half_way(tmp_path: Path) -> None:
    """Two workers, one of them killed when a third of the cases is there: the results are those of threads."""
    cluster = Cluster(tmp_path)
    folder = tmp_path / "dask"
    try:
        cluster.wait_for_workers()
        command = [sys.executable, "-m", "opplab.cli.main", "run", "juno-eas", "-o", str(folder), *SHORT]
        sweep = subprocess.Popen(
            [*command, "--dask", cluster.address], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
        )
        until = time.monotonic() + 60
        while len(list((folder / "cases").glob("*.json"))) < 12 and time.monotonic() < until:
            assert sweep.poll() is None, "over before a worker could be killed"
            time.sleep(0.002)
        cluster.workers[0].send_signal(signal.SIGKILL)
        _, errors = sweep.communicate(timeout=120)
        assert sweep.returncode == 0, errors
        assert "36 cases in" in errors
        assert cluster.workers[1].poll() is None
    finally:
        cluster.stop()
    threads = opplab.Experiment.load("juno-eas", iterations=1, seconds=1).run(tmp_path / "threads")
    assert results.read(folder).equals(threads)
    assert (folder / "results.parquet").read_bytes() == (tmp_path / "threads" / "results.parquet").read_bytes()


def test_nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opplab.cli.run.CONNECT_S", 0.5)

    done = called("run", "juno-eas", "-o", tmp_path / "out", "--dask", "tcp://127.0.0.1:9")
    assert isinstance(done.exception, OSError)
    assert "127.0.0.1:9" in str(done.exception)


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path / "out", *SHORT, "--dask", "nowhere")
    assert done.returncode == 2
    assert "--dask nowhere: missing port number" in done.stderr
    assert "write it like tcp://HOST:8786" in done.stderr

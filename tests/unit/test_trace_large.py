"""Traces that are larger than the memory: pieces and sums say what the whole does."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import opplab
from opplab.trace import export


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the trace of a run with regular and irregular tasks."""
    work = opplab.Workload.periodic(6, run_us=3000, period_us=16000)
    path = tmp_path_factory.mktemp("traces") / "run.dat"
    opplab.simulate("juno-r2", work, opplab.Policy(), seconds=0.5).to_trace(path)
    return path


@pytest.mark.parametrize("deadline_us", [None, 4000])
def test_sums_are_those_of_the_tables(recorded: Path, deadline_us: int | None) -> None:
    machine = opplab.Machine.load("juno-r2")
    trace = opplab.read_trace(recorded)
    whole = trace.signals(machine, deadline_us=deadline_us)
    sums = trace.signal_sums(machine, deadline_us=deadline_us)
    assert whole.task_summary()["missed"].sum() > 0 or deadline_us is None
    assert_frame_equal(sums.task_summary(), whole.task_summary(), check_dtypes=False)
    assert_frame_equal(sums.cpu_summary(), whole.cpu_summary())


@pytest.mark.parametrize("name", ["out.txt", "out.dat", "out.pftrace", "out.parquet", "out"])
def test_pieces_are_the_whole(recorded: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = opplab.read_trace(recorded)
    whole = trace.export(tmp_path / f"whole-{name}")
    monkeypatch.setattr(export, "PIECE", 100)
    pieces = trace.export(tmp_path / name)
    if name == "out.txt":
        # Events of one CPU at one time may stand in two pieces.
        lines, expected = (path.read_text().splitlines() for path in (pieces, whole))
        assert sorted(lines) == sorted(expected)
    elif name in ("out.dat", "out.pftrace"):
        read = {path: opplab.read_trace(path).events() for path in (pieces, whole)}
        assert read[pieces].keys() == read[whole].keys()
        for event, table in read[whole].items():
            assert_frame_equal(read[pieces][event], table)
    elif name == "out.parquet":
        order = ["time_ns", "cpu", "event"]
        read_sorted = (pl.read_parquet(path).sort(order, maintain_order=True) for path in (pieces, whole))
        assert_frame_equal(*read_sorted)
    else:
        files = sorted(path.name for path in whole.iterdir())
        assert sorted(path.name for path in pieces.iterdir()) == files
        for file in files:
            assert_frame_equal(pl.read_parquet(pieces / file), pl.read_parquet(whole / file))


def test_nothing_is_left_of_a_piece_that_cannot_be_written(recorded: Path, tmp_path: Path) -> None:
    with pytest.raises(opplab.InputError, match="nearest name"):
        opplab.read_trace(recorded).export(tmp_path / "out.txt", "sched_swich")
    assert list(tmp_path.iterdir()) == []


def test_what_would_not_fit_into_memory_is_refused(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = opplab.read_trace(recorded)
    start_ns, length_ns = trace.info["start_ns"], trace.info["duration_ns"]
    # A tenth of the time, or the clocks alone, fit; all events do not.
    monkeypatch.setenv("OPPLAB_MAX_MEMORY", str(80 * sum(trace.info["events"].values()) // 2))
    refused = pytest.raises(opplab.InputError, match=r"\d+ events would take some .* GB .*--max-memory SIZE")
    for whole in (
        trace.signals,
        lambda: trace.view(tmp_path / "out.html"),
        trace.events,
    ):
        with refused:
            whole()
    assert list(tmp_path.iterdir()) == []
    assert len(trace.events("cpu_frequency")) == trace.info["events"]["cpu_frequency"]
    assert trace.events(to_ns=start_ns + length_ns // 10)
    # Sums and pieces need no more memory for more events.
    trace.signal_sums()
    whole = trace.export(tmp_path / "out.dat")
    assert opplab.read_trace(whole).info["events"] == trace.info["events"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.dat"]
    trace.export(tmp_path / "out.txt")
    monkeypatch.setenv("OPPLAB_MAX_MEMORY", "2G")
    with pytest.raises(opplab.InputError, match="number of bytes"):
        trace.events()

"""The extension server for ui.perfetto.dev: the documented form, and SQL that finds a run's numbers."""

import json
import re
import sqlite3
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import opplab

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import make_perfetto  # noqa: E402

# Perfetto's commands for automation: the only ones that macros may count on.
STABLE = {
    "dev.perfetto.AddDebugCounterTrackWithPivot": 3,
    "dev.perfetto.AddDebugSliceTrack": 2,
    "dev.perfetto.PinTracksByRegex": 1,
    "dev.perfetto.RunQuery": 1,
    "dev.perfetto.RunQueryAndShowTab": 1,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("server")
    make_perfetto.make(folder)
    return {str(path.relative_to(folder)): json.loads(path.read_text()) for path in folder.rglob("*") if path.is_file()}


def test_files_have_the_documented_form(server: dict[str, Any]) -> None:
    """docs/visualization/extension-server-protocol.md of Perfetto: paths, keys, names below the namespace."""
    assert set(server) == {"manifest", "modules/default/macros", "modules/default/sql_modules"}
    manifest = server["manifest"]
    assert set(manifest) == {"name", "namespace", "features", "modules"}
    assert manifest["features"] == [{"name": "macros"}, {"name": "sql_modules"}]
    assert [module["id"] for module in manifest["modules"]] == ["default"]
    own = manifest["namespace"] + "."
    names = set()
    for module in server["modules/default/sql_modules"]["sql_modules"]:
        assert set(module) == {"name", "sql"} and module["name"].startswith(own)
        assert "CREATE PERFETTO VIEW" in module["sql"]
        names.add(module["name"])
    for macro in server["modules/default/macros"]["macros"]:
        assert set(macro) == {"id", "name", "run"} and macro["id"].startswith(own)
        for command in macro["run"]:
            assert set(command) == {"id", "args"} and len(command["args"]) == STABLE[command["id"]]
            included = re.findall(r"INCLUDE PERFETTO MODULE ([\w.]+)", " ".join(command["args"]))
            assert set(included) <= names


def tables_of(trace: Path) -> sqlite3.Connection:
    """Read a trace with Google's messages into tables with the names and columns of the trace processor's."""
    messages = pytest.importorskip(
        "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="skipped: Perfetto's protobuf is not installed"
    )
    base = sqlite3.connect(":memory:")
    base.executescript(
        "CREATE TABLE track(id INT, name TEXT); CREATE TABLE counter_track(id INT, name TEXT, unit TEXT);"
        "CREATE TABLE counter(ts INT, track_id INT, value REAL);"
        "CREATE TABLE slice(id INT, ts INT, dur INT, name TEXT, track_id INT, arg_set_id INT);"
    )
    args: list[dict[str, Any]] = []
    base.create_function("EXTRACT_ARG", 2, lambda at, key: None if at is None else args[at].get(key))
    whole = messages.Trace()
    whole.ParseFromString(trace.read_bytes())
    for packet in whole.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            table = "counter_track" if track.HasField("counter") else "track"
            more = [track.counter.unit_name] if table == "counter_track" else []
            marks = ", ".join("?" * (2 + len(more)))
            base.execute(f"INSERT INTO {table} VALUES({marks})", [str(track.uuid), track.name, *more])
        elif packet.HasField("track_event"):
            event = packet.track_event
            if event.type == messages.TrackEvent.TYPE_COUNTER:
                base.execute(
                    "INSERT INTO counter VALUES(?, ?, ?)",
                    [packet.timestamp, str(event.track_uuid), event.counter_value],
                )
            else:
                notes = {
                    f"debug.{note.name}": getattr(note, note.WhichOneof("value")) for note in event.debug_annotations
                }
                args.append(notes)
                row = [len(args) - 1, packet.timestamp, 0, event.name, str(event.track_uuid), len(args) - 1]
                base.execute("INSERT INTO slice VALUES(?, ?, ?, ?, ?, ?)", row)
    return base


def test_sql_finds_the_numbers_of_a_run(server: dict[str, Any], tmp_path: Path) -> None:
    """SQLite stands in for the trace processor; the run's own tables and meters are the other way to each number."""
    work = opplab.Workload.periodic(6, run_us=7000, period_us=16000)
    run = opplab.simulate("juno-r2", work, opplab.Policy(), seconds=0.3)
    run.to_perfetto(tmp_path / "run.pftrace")
    base = tables_of(tmp_path / "run.pftrace")
    for module in server["modules/default/sql_modules"]["sql_modules"]:
        base.executescript(module["sql"].replace("CREATE PERFETTO VIEW", "CREATE VIEW"))
    requests = base.execute("SELECT cpu, khz, util FROM opplab_frequency_request ORDER BY ts").fetchall()
    events = run.events("freq_request")
    assert requests == list(events.select("cpu", "khz", "util").iter_rows()) and len(requests) > 5
    assert all(why for (why,) in base.execute("SELECT why FROM opplab_frequency_request WHERE util > 0"))
    counted = base.execute("SELECT ts, khz FROM opplab_requested_khz ORDER BY ts").fetchall()
    assert counted == base.execute("SELECT ts, khz FROM opplab_frequency_request ORDER BY ts").fetchall()
    missed = base.execute("SELECT count(*), min(late_ns) FROM opplab_missed_activation").fetchone()
    late = run.events("activation").filter(pl.col("slack_ns") < 0)
    assert missed[0] == len(late) and (not missed[0] or missed[1] > 0)
    utils = base.execute("SELECT max(util_avg) FROM opplab_cpu_util").fetchone()[0]
    assert utils == run.events("pelt_cfs_tp")["util_avg"].max()
    assert (
        base.execute("SELECT count(DISTINCT task) FROM opplab_task_util WHERE task LIKE 'periodic%'").fetchone()[0] == 6
    )
    joules = base.execute("SELECT sum(mj) / 1000 FROM opplab_energy").fetchone()[0]
    # What a cluster draws after its last change is not in a counter's spans.
    assert joules == pytest.approx(dict(run.metrics.select("metric", "value").iter_rows())["energy"], rel=0.05)
    for macro in server["modules/default/macros"]["macros"]:
        for command in macro["run"]:
            for query in command["args"][:1]:
                if "SELECT" in query:
                    base.execute(query.split(";")[-1].strip() or query).fetchall()

"""`opplab verify`: the build proves itself."""

from __future__ import annotations

import difflib
import json
import sys
from pathlib import Path
from typing import Any

import click

from opplab import _opplab
from opplab.cli.group import Group
from opplab.cli.options import damaged_ok_option, jobs_option, output_format_option, output_option, report_option
from opplab.errors import InputError, OpplabError
from opplab.report.ktap import Test, ktap
from opplab.report.text import print_table, say


@click.group(name="verify", cls=Group)
def command() -> None:
    """Verify the build against real kernels, published results and measurements."""


@command.command(name="vectors")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Count families that are not built as failures.")
@report_option
def vectors(paths: tuple[Path, ...], strict: bool, output_format: str) -> None:
    """Replay the vector files at PATHS (files or folders) and compare bit for bit.

    Prints one line per family: its name, the replayed cases and the differing ones.
    Exit codes: 1 a case differed, 2 nothing was verified or a file is damaged.
    """
    files = [file for path in paths for file in _opplab.find_vectors(path)]
    if not files:
        raise InputError(f"no vector files (.csv, .csv.gz, .jsonl, .jsonl.gz) in {', '.join(map(str, paths))}")
    rows: list[dict[str, object]] = []
    failed = unbuilt = 0
    for file in files:
        family, cases, mismatches, first = _opplab.verify_file(file)
        rows.append({"family": family, "cases": cases, "mismatches": mismatches, "first": first})
        failed += bool(mismatches)
        unbuilt += cases is None
        if output_format == "text":
            click.echo(f"{family} {cases} {mismatches}" if cases is not None else f"{family} not built")
            if first:
                click.echo(f"  {first}", err=True)
    if output_format == "ktap":
        click.echo(ktap([_family(row, strict) for row in rows]))
    elif output_format != "text":
        print_table(rows, output_format)
    sys.stdout.flush()
    if unbuilt == len(files):
        names = [str(row["family"]) for row in rows]
        near = difflib.get_close_matches(names[0], _opplab.families(), 1)
        hint = f"; the nearest to {names[0]!r} is {near[0]!r}" if near else ""
        raise InputError(f"nothing was verified: no vector family is called {', '.join(map(repr, names[:5]))}{hint}")
    raise click.exceptions.Exit(1 if failed or (strict and unbuilt) else 0)


def _family(row: dict[str, Any], strict: bool) -> Test:
    """Give a family of vectors as a test."""
    if row["cases"] is None:
        return Test(row["family"], not strict, "" if strict else "not built", ("not built",) if strict else ())
    remarks = [f"{row['mismatches']} of {row['cases']} cases differ", row["first"] or ""] if row["mismatches"] else []
    return Test(row["family"], not row["mismatches"], remarks=tuple(filter(None, remarks)))


def _kind_of(failure: str) -> str:
    return failure.split(maxsplit=1)[0].rstrip(":")


def _recording(name: str, rows: list[dict[str, Any]], failures: list[str]) -> Test:
    """Give a recording as a test of its kinds; comparisons with runs (`sim_*`) are remarks, for they fail nothing."""
    wrong = {_kind_of(failure): failure for failure in failures}
    kinds, remarks = [], []
    for row in rows:
        is_run = row["kind"].startswith("sim_")
        near = "within their limits" if row["kind"].startswith(("sim_", "signal_")) else "equal"
        count = f"{row['exact']} of {row['total']} {near}" if row["total"] else ""
        told = "; ".join(filter(None, (count, row["remark"])))
        if is_run:
            remarks.append(f"{row['kind']}: {told}")
        else:
            skip = "" if row["total"] or row["kind"] in wrong else f"nothing compared {row['remark']}"
            failure = wrong.pop(row["kind"], "")
            kinds.append(Test(row["kind"], not failure, skip, tuple(filter(None, (failure, told)))))
    kinds += [Test(kind, False, remarks=(failure,)) for kind, failure in wrong.items()]
    return Test(name, not failures, remarks=tuple(remarks), tests=tuple(kinds))


def _simulated(folder: Path) -> list[dict[str, Any]]:
    """Give what a run of the recording's workload file has in common with the recording, as rows."""
    text = _opplab.agree_recording(str(folder))
    if text is None:
        return []
    rows: list[dict[str, Any]] = []
    for row in json.loads(text)["rows"]:
        kind, limit = row["kind"], row.get("limit")
        if kind in ("freq_residency", "busy_residency"):
            what = f"mean {row['recorded'] / 1000:.0f} MHz, simulated {row['simulated'] / 1000:.0f} MHz"
        elif kind == "class_residency":
            what = f"{row['recorded'] / 1000:.1f} % on the biggest CPUs, simulated {row['simulated'] / 1000:.1f} %"
        else:
            what = f"{row['recorded']}, simulated {row['simulated']}"
        near = limit is not None and row["distance"] <= limit
        remark = f"{row['of']}: {what}"
        if limit is not None:
            remark += f"; {row['distance'] / 1000:.1f} points apart, runs within {row['spread'] / 1000:.1f}"
        rows.append(
            {
                "kind": f"sim_{kind}",
                "exact": int(near),
                "total": int(limit is not None),
                "share": 100 - row["distance"] / 1000 if limit is not None else None,
                "remark": remark,
            }
        )
    return rows


@command.command(name="traces")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@damaged_ok_option
@report_option
def traces(paths: tuple[Path, ...], output_format: str) -> None:
    """Recompute the decisions of recorded kernels from their recorded inputs, and compare.

    PATHS are recordings (folders with a trace.dat, archives of `opplab host record`) or folders of recordings. Other
    paths are skipped with a note.

    Prints one line per recording and kind: exact results, their number and share, and the causes of the others.
    A dash marks kinds without a comparison. `unexplained` counts differences without a known cause.
    The kinds `sim_*` run the recording's own workload nine times on its machine, and compare the mean. They pass if a
    policy's frequency residency is within 5 points, and a task's residency by CPU class within 10.

    Exit code 1: a line ends with `FAILS`. A kind fails where a result differs that follows from recorded numbers alone:
    clock_pelt, clock_pelt_idle, compute_energy, effective_perf, freq_scale_ref, next_freq, pd_max_util,
    pelt_blocked_se, pelt_cfs, pelt_hw, pelt_se, raw_freq and util_est_se. The kinds `signal_*` fail where a rebuilt
    signal leaves its stated bound without a stopped virtual CPU. No other kind fails, nor does `sim_*`.
    """
    folders: list[Path] = []
    for path in paths:
        try:
            folders += _opplab.find_recordings(path)
        except OpplabError as error:
            if len(paths) == 1:
                raise
            click.echo(f"passed over: {error}", err=True)
    if not folders:
        raise InputError("none of the paths is a recording (a folder with a trace.dat, or an archive)")
    rows: list[dict[str, object]] = []
    failed = False
    tests: list[Test] = []
    for folder in folders:
        recording, kinds, failures = _opplab.verify_recording(folder)
        failed = failed or bool(failures)
        first = len(rows)
        wrong_kinds = {_kind_of(failure) for failure in failures}
        found = [
            {"kind": kind, "exact": exact, "total": total, "share": share if total else None, "remark": remark}
            for kind, exact, total, share, remark in kinds
        ]
        for row in (*found, *_simulated(folder)):
            rows.append({"recording": recording, **row, "fails": row["kind"] in wrong_kinds})
            if output_format == "text":
                counts = f"{row['exact']} {row['total']} {row['share']:.3f}%" if row["total"] else "- - -"
                fails = "FAILS" if row["kind"] in wrong_kinds else ""
                say(" ".join(filter(None, (recording, row["kind"], counts, row["remark"], fails))))
        for wrong in failures:
            click.echo(f"{recording}: {wrong}", err=True)
        tests.append(_recording(recording, rows[first:], list(failures)))
    if output_format == "ktap":
        click.echo(ktap(tests))
    elif output_format != "text":
        print_table(rows, output_format)
    sys.stdout.flush()
    raise click.exceptions.Exit(1 if failed else 0)


@command.command(name="published")
@click.argument("experiments", nargs=-1)
@output_option("Results folder.", default=Path("out/published"))
@click.option("--quick", is_flag=True, help="Run every fifth row only, an unbiased sample of the published rows.")
@jobs_option
@output_format_option(only=("text", "json"))
@click.option(
    "--docs",
    type=click.Path(path_type=Path),
    help="Folder for agreement.md and its figures; a full run also writes the models' errors.",
)
@click.option("--score-only", is_flag=True, help="Score the results in -o without a run.")
def published(**given: Any) -> None:
    """Predict the published results of five texts, and report the errors beside those of "no change".

    Runs EXPERIMENTs (default: all with published tables), and compares each variant's ratio to the baseline with the
    published ratio. For each table it prints the share of correct signs, and the median and 90th percentile error.
    It also prints the skill over the rival that predicts 1.000 everywhere, the share of values closer than the
    rival's, the rank correlation of the variants, and the worst values.

    All experiments take many minutes on a machine with few cores: --quick runs a fifth of them.
    Results in -o are not run again, so an interrupted run continues.
    """
    from opplab.agreement.verify import verify_published

    failed = verify_published(**given)
    sys.stdout.flush()
    raise click.exceptions.Exit(1 if failed else 0)


@command.command(name="silicon")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("../shared/silicon"))
@output_format_option(only=("text", "json"))
def silicon(folder: Path, output_format: str) -> None:
    """Predict measurements of real hardware that a fit did not use, and report the errors.

    FOLDER holds the measurements (default: ../shared/silicon); freqbench's tables are recognised (opp_power.csv).
    Prints one line per set and left-out part: median and 90th percentile of the relative error, and the simplest
    rival's. Skill is 1 less the ratio of the medians. The last column is the share of values within the predicted
    interval.
    """
    from opplab.agreement import silicon as scoreboard

    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder of measurements (give it as an argument)")
    report = scoreboard.score(scoreboard.score_folder(folder))
    report["unknown"] = scoreboard.unknown_tables(folder)
    if report["unknown"]:
        click.echo(f"opplab: tables without a prediction: {', '.join(report['unknown'])}", err=True)
    sys.stdout.write(json.dumps(report, indent=2) + "\n" if output_format == "json" else scoreboard.text(report))

"""What is made of a finished sweep: tables on the terminal, the report, Perfetto traces.

`publish` reads only the results folder and the experiment; it can be called again at any time.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opplab import _opplab, catalog
from opplab.certainty import change_text
from opplab.comparison.method import compare_runs
from opplab.comparison.sources import by_machine
from opplab.files import printable, read_text, safe_name, write_bytes, write_text
from opplab.metrics import FRAMES, answers, find, powers
from opplab.report.numbers import several
from opplab.report.text import flow, render_table, terminal_width
from opplab.simulation.power import how_to_get_power, is_unknown
from opplab.summary.caveats import machines_of
from opplab.summary.pairs import Block, pair_blocks, places_of, render
from opplab.sweep.confidence import mean_of
from opplab.uncertainty.causes import CHANCE
from opplab.uncertainty.parts import LEVEL

if TYPE_CHECKING:
    import polars as pl

    from opplab.comparison.published import Published
    from opplab.comparison.tables import Cell
    from opplab.summary.answer import Answer
    from opplab.sweep.experiments import Experiment
    from opplab.uncertainty.sweep import Sureness


def blocks_of(experiment: Experiment, results: pl.DataFrame) -> list[Block]:
    """Compare what the experiment compares, by what its benchmarks measure; by energy where they measure nothing."""
    blocks: list[Block] = []
    for metric in own_metrics(results) or ["energy"]:
        blocks += pair_blocks(results, experiment.pairs, metric, published=experiment.published)
    return blocks


def own_metrics(results: pl.DataFrame) -> list[str]:
    """Give the metrics of the benchmarks' own that were measured, frames of a GPU and, beside them, watts."""
    found = results["metric"].unique(maintain_order=True).to_list()
    chosen = answers(found)
    by_benchmark = (set(of["metric"]) for of in results.partition_by("benchmark"))
    return [*chosen, *(name for name in powers(by_benchmark) if chosen and name in found)]


def mean_rows(results: pl.DataFrame) -> list[dict[str, Any]]:
    """Give one row a metric of each point and policy: its mean over the iterations, and how many there are."""
    import polars as pl

    keys = ["machine", "benchmark", "param", "policy", "metric", "unit"]
    groups = results.group_by([*keys, "better"], maintain_order=True).agg("value", pl.len().alias("n"))
    rows = []
    for row in groups.to_dicts():
        known = [value for value in row.pop("value") if value is not None]
        better, n = row.pop("better"), row.pop("n")
        rows.append({**row, "mean": mean_of(known, better, row["unit"]) if known else None, "n": n})
    return rows


def runs_of_points(results: pl.DataFrame) -> tuple[list[int], int]:
    """Give how many runs points have (the fewest and the most; a sweep with ``until`` has both), and all runs."""
    keys = ["machine", "benchmark", "param", "policy"]
    number = results.select(*keys, "iteration").unique().group_by(keys).len()["len"].sort().to_list()
    return list(dict.fromkeys((min(number, default=0), max(number, default=0)))), sum(number)


def published_on(experiment: Experiment) -> str:
    """Name the machines of published values that a machine of another name stands for; empty if there are none."""
    from opplab.agreement.forecast import machines_of as stand_ins
    from opplab.comparison.published import cells_for

    if not experiment.published_seed:
        return ""
    table = cells_for(experiment)
    found = [(row.machine, ours) for entry in experiment.compare for row, ours in stand_ins(experiment, table, entry)]
    others = dict.fromkeys(pair for pair in found if pair[0] not in ("", "unspecified", pair[1]))
    return "; ".join(f"of {theirs}, beside simulated ones of {ours}" for theirs, ours in others)


def legend(experiment: Experiment, results: pl.DataFrame, *, measured: bool) -> str:
    """Give the line below the tables in a text's layout."""
    other = published_on(experiment)
    other = f" Published values are {other}." if other else ""
    runs = runs_of_points(results)[0]
    iterations = "one iteration" if runs == [1] else f"{' to '.join(map(str, runs))} iterations"
    clear = "* clear: the interval of the change excludes zero, or the change is the same in all runs; "
    if measured:
        start = f"{'' if runs == [1] else 'mean of '}{iterations}; changes are against the first column; "
        return f"{start}{clear}intervals in the report.{other}"
    joules = f" Joules grow with the time of a run: {experiment.measured_time()} here, the text's there."
    return clear + (
        f"ci(+/-): half-width of Student's t 95 % interval of {iterations} (none: they do not vary); publ.: "
        "as published; diff.: simulated against published, and the changes' difference in percentage points (pp); "
        f"missed%: activations missed, baseline / variant.{joules if experiment.published_seed else ''}{other}"
    )


BESIDE_MOST = 12
"""Published changes that are printed beside the simulated ones; longer tables are `opplab compare`'s."""


def scored(experiment: Experiment, results: pl.DataFrame) -> tuple[list[dict[str, str]], str]:
    """Give the published changes beside the simulated ones, where they are few, and the score over "no change"."""
    from opplab.agreement.scoreboard import cells_of, score

    unknown: dict[tuple[str, ...], str] = {}

    def not_known(row: Published, why: str) -> None:
        unknown.setdefault((row.benchmark, row.parameter, row.variant), why)

    cells = []
    if experiment.published_seed and experiment.compare:
        cells = cells_of(experiment, results, not_known=not_known)
    first = next(iter(unknown.values()), "")
    without = f"Not scored: {several(len(unknown), 'published value')} ({first})." if unknown else ""
    if not cells:
        return [], without
    found = score(cells)
    right = round((found["sign_agreement"] or 0) * found["sign_cells"])
    median, null = 100 * found["median_abs_error"], 100 * found["null_median_abs_error"]
    changes = "change" if len(cells) == 1 else "changes"
    line = (
        f"Score against {len(cells)} published {changes}: median error {median:.1f} percentage points; "
        f'always predicting "no change" misses by {null:.1f}. '
        f"Right sign in {right} of {found['sign_cells']} changes beyond their spread."
        f"{without and f' {without}'}"
    )
    rows = [
        {
            "benchmark": cell.benchmark,
            "parameter": cell.parameter,
            "variant": cell.variant,
            "published": f"{100 * (cell.published - 1):+.1f} %",
            "simulated": f"{100 * (cell.predicted - 1):+.1f} %",
            "error, points": f"{100 * cell.error:+.1f}",
        }
        for cell in cells
    ]
    if len(rows) > BESIDE_MOST:
        return [], line
    # What all rows share is not repeated in each.
    same = [key for key in ("benchmark", "variant") if len({row[key] for row in rows}) == 1]
    return [{key: value for key, value in row.items() if key not in same} for row in rows], line


def tables_text(blocks: list[Block]) -> list[tuple[str, object]]:
    """Give title and table of each comparison; tables are rich texts."""
    names = places_of(blocks)
    return [(f"{names[block.machine, block.benchmark]}: energy ({block.unit})", render(block)) for block in blocks]


def sure_tables(sure: Sureness) -> list[tuple[str, list[dict[str, Any]]]]:
    """Give title and rows of what is known of how sure the changes are, and of what they hang on."""
    level = f"{100 * LEVEL:g} %"
    made: list[tuple[str, list[dict[str, Any]]]] = []
    if sure.lines:
        percent = ", in percent" if all(line.base and line.change.unit == "%" for line in sure.lines) else ""
        made.append((f"how sure{percent} ({level} intervals of {sure.number} draws)", list(sure.text_rows())))
    if own := sure.own_rows():
        made.append((f"energy and power of each variant ({level} intervals of {sure.number} draws)", own))
    deciding = [
        {
            **{name: row[name] for name in ("machine", "benchmark", "param") if name in row},
            "metric": row["metric"],
            "change": row["change"],
            "assumption": row["assumption"],
            "rank correlation": f"{row['rank_correlation']:+.2f}",
            "explains": f"{100 * row['share']:.0f} %",
        }
        for row in sure.deciding()
        if row["p"] < CHANCE
    ]
    if deciding:
        title = "what the changes depend on (share of their variance that each explains alone)"
        made.append((title, deciding))
    return made


def print_sure(sure: Sureness, output_format: str) -> None:
    """Print how sure changes are: on standard output where that is for people, else on standard error."""
    width = terminal_width()
    stream = sys.stdout if output_format == "text" else sys.stderr
    for title, rows in sure_tables(sure):
        stream.write(f"\n{printable(title)}\n{printable(render_table(rows, 'text', width))}")
    stream.write("".join(f"{flow(printable(line), width)}\n" for line in sure.findings()))


def metric_tables(experiment: Experiment, results: pl.DataFrame) -> list[tuple[str, list[dict[str, str]]]]:
    """Give title and rows of what benchmarks report (and watts, and a GPU's frames): a column a policy.

    Only benchmarks with a metric of their own have such tables; the changes are against the experiment's baseline.
    """
    places = by_machine(results)
    base = experiment.baseline
    labels = [base, *(label for label in experiment.policies if label != base)] if base else experiment.policies
    made: list[tuple[str, list[dict[str, str]]]] = []
    for machine, place in places:
        there = [label for label in labels if label in place.runs()]
        for benchmark in dict.fromkeys(name for label in there for name in place.benchmarks(label)):
            runs = [place.load(label, benchmark) for label in there]
            metrics = dict.fromkeys(one.metric for run in runs for one in run.series.values())
            own = answers(metrics)
            if all(name.startswith(FRAMES) for name in own):
                continue
            for metric in (name for name in metrics if name in own or name in powers([metrics])):
                rows = compare_runs([place.load(label, benchmark, metric) for label in there]).rows
                where = f" on {machine}" if len(places) > 1 else ""
                declared = find(metric)
                better = rows[0].better if declared is None or declared.better else ""
                title = f"{benchmark}{where}: {metric} ({rows[0].unit}){f', {better} is better' if better else ''}"
                table = []
                for row in rows:
                    param = row.operation.removeprefix(metric).removeprefix("-")
                    table.append({"": param} | dict(zip(labels, [""] * len(labels), strict=True)))
                    table[-1] |= {label: _with_change(cell) for label, cell in zip(there, row.cells, strict=True)}
                made.append((title, table))
    return made


def _with_change(cell: Cell | None) -> str:
    """A mean with its change against the first column, and a star where that is clear."""
    if cell is None:
        return ""
    if cell.value is None:
        return "unknown"
    if cell.ratio is None or cell.sample is None:
        return f"{cell.value:.2f}"
    change = change_text(100 * (cell.ratio - 1)).replace(" %", "%")
    return f"{cell.value:.2f} ({change})" + ("*" if cell.significant else "")


def _examples(experiment: Experiment) -> list[_opplab.Case]:
    """One run of each machine and policy: the first workload at its smallest load, iteration 0."""
    first = experiment.cases[0]
    chosen: dict[tuple[str, str], str] = {}
    for case in experiment.cases:
        if (case.benchmark, case.param, case.iteration) == (first.benchmark, first.param, 0):
            chosen.setdefault((case.machine, case.policy), case.hash)
    return [experiment.find(hash_) for hash_ in chosen.values()]


EVENTS_MAX = 500_000
"""Events of a run up to which it is drawn and written as a trace: about 60 MB, and a second of time."""


def drawn(experiment: Experiment, results: pl.DataFrame, *, every: bool = False) -> list[_opplab.Case]:
    """Give one run of each machine and policy that is short enough to be drawn; with `every` all of them."""
    keys = ["machine", "benchmark", "param", "policy", "iteration"]
    counted = results.filter(results["metric"] == "engine_events").select(*keys, "value")
    events = {tuple(key): value for *key, value in counted.iter_rows()}
    return [
        case
        for case in _examples(experiment)
        if every or events.get((case.machine, case.benchmark, case.param, case.policy, 0), 0) <= EVENTS_MAX
    ]


def write_traces(experiment: Experiment, cases: Sequence[_opplab.Case], folder: Path) -> list[Path]:
    """Write a Perfetto trace of each case."""
    folder.mkdir(exist_ok=True)
    files = []
    for case in cases:
        several = len({one.machine for one in experiment.cases}) > 1
        at = case.machine if several else ""
        words = "-".join(filter(None, (at, case.benchmark, case.param.replace("=", ""), case.policy)))
        files.append(folder / f"{safe_name(words)}.pftrace")
        write_bytes(files[-1], case.trace("perfetto"))
    return files


def write_report(
    experiment: Experiment,
    results: pl.DataFrame,
    blocks: list[Block],
    path: Path,
    sure: Sureness | None,
    answer: Answer,
) -> None:
    """Write the HTML report."""
    from opplab.summary.page import Report
    from opplab.summary.timelines import window

    facts = experiment.manifest()
    examples = _examples(experiment)
    first = examples[0]
    shown = drawn(experiment, results)
    timelines = [window(case, case.run(False)) for case in shown]
    if len(facts["machines"]) > 1:
        timelines = [replace(one, machine=case.machine) for one, case in zip(timelines, shown, strict=True)]
    ends = {one.end_ms for one in timelines}
    load = first.param.replace("=", " ").partition(" ")
    at = f", {load[0]} {load[2]}" if load[2] else ""
    note = (
        f"One run of each policy: {first.benchmark}{at}, iteration 0, from "
        f"{timelines[0].start_ms:g} to {'at most ' * (len(ends) > 1)}{max(ends):g} ms. A colour is a task; the line is "
        "the cluster's clock between its lowest and highest frequency. CPUs that ran nothing are left out."
        if timelines
        else ""
    )
    runs, cases = runs_of_points(results)
    drawn_beside = any(line.published_base is not None for block in blocks for line in block.lines)
    # As in a sweep, the seed after the largest is 0.
    seeds = f"{facts['seed']} to {(facts['seed'] + runs[-1] - 1) % 2**64}"
    report = Report(
        title=experiment.name,
        subtitle=experiment.about,
        facts=[
            ("machine", ", ".join(dict.fromkeys(case.machine for case in experiment.cases))),
            ("kernel profile", ", ".join(facts["kernels"])),
            ("seeds", seeds if runs[-1] > 1 else str(facts["seed"])),
            ("iterations", " to ".join(map(str, runs))),
            ("simulated time", f"{experiment.measured_time(' a case')}, {several(cases, 'case')}"),
            ("program classes", _classes(examples)),
            ("opplab", _opplab.__version__),
            ("made by", command_of(experiment)),
            *([("published values", other)] if drawn_beside and (other := published_on(experiment)) else []),
        ],
        results=results,
        blocks=blocks,
        published=experiment.published,
        timelines=timelines,
        timeline_note=note,
        sure=sure,
        answer="" if experiment.compare else answer.html(),
        runs=" to ".join(map(str, runs)),
        methods=methods(
            facts["seed"],
            experiment.measured_time(),
            energy=any(block.metric == "energy" for block in blocks),
            drawn=sure is not None and any(line.change.assumed is not None for line in (*sure.lines, *sure.beside)),
        ),
        unknown_energy=how_to_get_power(machines_of(experiment).values()) if is_unknown(results) else "",
        version=_opplab.__version__,
        footer=f"Made by opplab {_opplab.__version__}. Equal version, experiment and seed give an equal report. "
        "Every number is in results.parquet beside this file.",
    )
    write_text(path, report.to_html())


def _classes(cases: Sequence[_opplab.Case]) -> str:
    """Report which classes of programs the workloads name, and what holds without one."""
    tasks = [task for case in cases for task in json.loads(case.to_json())["workload"]["tasks"]]
    names = sorted({task["class"] for task in tasks if "class" in task})
    without = "none: work is in proportion to the clock and the core's capacity"
    if any("class" not in task for task in tasks):
        names.append(without)
    return "; ".join(names)


def command_of(experiment: Experiment) -> str:
    """Give the command that makes the same results: the file, and the options that replace its values."""
    # A copy that a user has changed often keeps the name.
    name = experiment.name
    built_in = name in catalog.names("experiment")
    built_in = built_in and experiment.text == read_text(catalog.find("experiment", name), "an experiment file")
    words = ["opplab", "run", experiment.name if built_in else Path(experiment.file).name]
    for option, value in experiment.adjusted.items():
        words += [f"--{option}", f"{value:g}" if isinstance(value, float) else str(value)]
    return " ".join([*words, "-o", "OUT"])


def methods(seed: int, time: str, *, energy: bool = True, drawn: bool = False) -> list[str]:
    """Report how the numbers came about and how far they can be trusted."""
    alone = " of the runs alone" if drawn else ""
    beside = ' Those of the answer and of "How sure" also cover the ranges of what is assumed.' if drawn else ""
    about_energy = (
        f"Energy is the sum of the clusters' meters over the simulated time ({time}), without the rest of the "
        "board. Where a published text does not state how long its runs took, its joules and these differ by an "
        "unknown factor; changes in percent do not. Nothing was fitted to the published variants."
    )
    return [
        "Exact: load tracking (PELT, util_est), schedutil, energy-model tables, the artificial energy model and "
        "energy-aware placement match vectors of real kernel code, integer for integer (opplab verify vectors). "
        "Modelled: hardware, power and latencies, from the machine file, where each number has a source or is marked "
        "as assumed. LIMITATIONS.md lists the limits of load balancing and timers.",
        f"Iteration i runs every policy with seed {seed} + i, so that all policies see the same tasks starting at the "
        f"same times. Intervals{alone} are Student's t at 95 % over the iterations. They cover the variation between "
        f"seeds, mainly the relative start times of tasks. They do not cover the error of the model.{beside}",
        *([about_energy] if energy else ["Nothing was fitted to the published variants."]),
        "An activation is missed when a task's work for a period ends after the next period has begun, or not at all "
        "though that was due before the end of the run. Its share is over all activations of all tasks.",
    ]

"""`opplab run`: an experiment, or one case put together on the command line."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opplab.cli.options import (
    BENCHMARK_S,
    VARIATION,
    BuiltIn,
    benchmark_of,
    check_workload,
    format_option,
    jobs_option,
    machine_option,
    output_option,
    param_option,
    percent,
    policy_of,
    policy_options,
    uncertainty_option,
    with_calibration,
    workers,
)
from opplab.errors import InputError
from opplab.files import printable
from opplab.report.text import flow, print_table, render_table, say, terminal_width

if TYPE_CHECKING:
    import polars as pl

    from opplab.sweep.experiments import Experiment
    from opplab.sweep.runner import Tally
    from opplab.sweep.store import Store
    from opplab.uncertainty.sweep import Sureness

# How long a Dask scheduler may take to answer.
CONNECT_S = 10

# Where a cluster of our own listens: nobody else on the network may send it work.
LOOPBACK = "127.0.0.1"


@click.command(name="run")
@click.argument("what", required=False, metavar="[EXPERIMENT|FILE|BENCHMARK|FOLDER]", type=BuiltIn("experiment"))
@machine_option("What a workload runs on.")
@click.option("-w", "--workload", type=click.Path(path_type=Path), metavar="FILE", help="The same as FILE.")
@param_option
@click.option("--power", type=click.Choice(["generic"]), help="A rough curve for a machine without power.")
@policy_options
@click.option("--seconds", type=float, help="Simulated time of a case.")
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), help="Seed of the first iteration.")
@click.option("--iterations", type=click.IntRange(1, 100_000), help="Iterations of each cell.")
@click.option(
    "--until-ci", metavar="PERCENT", callback=percent, help="Fewer iterations when intervals are this narrow."
)
@click.option(
    "--repeats",
    type=click.Choice(["workgen", "json-c"]),
    default="workgen",
    help="What a repeated key of an rt-app file means (see 'opplab workload show').",
)
@uncertainty_option
@output_option("Results folder (out/NAME).")
@format_option
@jobs_option
@click.option("--dask", metavar="ADDRESS", help="Run on a Dask cluster: a scheduler's address, or 'local'.")
@click.option("--check", is_flag=True, help="Check the invariants of every run.")
@click.option("--check-determinism", is_flag=True, help="Run every case twice and compare.")
@click.option("--retry-failed", is_flag=True, help="Run the cases again that failed before.")
@click.option("--replace", is_flag=True, help="Remove results of another experiment from the folder.")
@click.option("--no-report", is_flag=True, help="Only results: no tables, report or traces.")
def command(
    what: str | None,
    machine: str | None,
    power: str | None,
    workload: Path | None,
    params: tuple[str, ...],
    seconds: float | None,
    seed: int | None,
    iterations: int | None,
    until_ci: float | None,
    repeats: str,
    output: Path | None,
    output_format: str,
    jobs: int | None,
    **options: Any,
) -> None:
    """Run an experiment, or a workload on a machine.

    EXPERIMENT is built in ('opplab list experiments') or a .toml file. FILE may also be an rt-app workload (.json):
    then --machine says what it runs on, and the other options which policy; several governors are compared. So it is
    for BENCHMARK ('opplab list benchmarks'), whose parameters --param sets. FOLDER is a results folder: its experiment
    goes on there.

    Results go to the folder given by -o, one file a finished case; a case that is there is not run again.
    Ctrl-C keeps what is finished.  The results are the same whatever --jobs.  With --until-ci (or `until` in the
    experiment) --iterations is the most: a point has enough when the interval of every compared change is so narrow.
    With --uncertainty N the assumed numbers of the machine are drawn from their ranges as well, and each change has an
    interval in two parts: what the runs leave open, and what the assumptions do.
    """
    how = How(jobs, output_format, **{name: options.pop(name) for name in How.FLAGS})
    given = {name: value for name, value in options.items() if value not in (None, {}, ())}
    target = what
    benchmark = benchmark_of(what or "", params)
    if benchmark is not None:
        target, workload = None, Path(what or "")
    elif what is not None and _is_workload(what):
        if workload is not None:
            raise click.UsageError("give one workload")
        target, workload = None, Path(what)
    from opplab.sweep.store import Store

    with contextlib.ExitStack() as kept:
        if target is None:
            if workload is None:
                raise click.UsageError(
                    "give an EXPERIMENT (see 'opplab list experiments'), or a workload and --machine"
                )
            if machine is None:
                some = "'opplab list machines', or a .toml file"
                raise click.UsageError(f"say what {workload} runs on: --machine NAME ({some})")
            keys = {"variation": VARIATION, **policy_of(given)}
            folder = output or Path("out") / workload.stem
            kept.enter_context(Store(folder).inputs_kept())
            if benchmark is None and _is_model(workload):
                workload = _model_as_rtapp(workload, folder, seconds)
            if power is not None:
                machine = _with_generic_power(machine, folder)
            many = "," in keys.get("governor", "") or iterations or until_ci or how.dask or how.uncertainty
            if many or benchmark is not None:
                target = str(_write_experiment(machine, workload, benchmark, keys, folder, seconds, repeats))
                output = folder
            else:
                _run_one(machine, workload, keys, repeats, folder, seconds, 1 if seed is None else seed, how)
                return
        else:
            _check_name(target)
            if given or machine or power or workload:
                flag = "--" + next(iter(given), "machine" if machine else "power" if power else "workload")
                raise click.UsageError(
                    f"{flag.replace('_', '-').removesuffix('s')} is for workloads; the experiment says its own"
                )
        from opplab.sweep.experiments import Experiment, file_of_results

        if Path(target).is_dir():
            target, output = file_of_results(Path(target)), output or Path(target)
        chosen = Experiment.load(target, iterations=iterations, seed=seed, seconds=seconds, until_ci=until_ci)
        if how.uncertainty:
            chosen.adjusted["uncertainty"] = how.uncertainty
        _run_experiment(chosen, output or Path("out") / chosen.name, how)


class How:
    """How cases are run and shown."""

    FLAGS = ("dask", "check", "check_determinism", "retry_failed", "replace", "no_report", "uncertainty")

    def __init__(
        self,
        jobs: int | None,
        output_format: str,
        *,
        dask: str | None,
        check: bool,
        check_determinism: bool,
        retry_failed: bool,
        replace: bool,
        no_report: bool,
        uncertainty: int | None,
    ) -> None:
        self.jobs = workers(jobs)
        self.output_format = output_format
        self.dask = dask
        self.check = check
        self.check_determinism = check_determinism
        self.retry_failed = retry_failed
        self.replace = replace
        self.no_report = no_report
        self.uncertainty = uncertainty


def _with_generic_power(name: str, folder: Path) -> str:
    """Write the machine with a generic curve of power into the folder of the results, and give its file."""
    from opplab.files import write_text
    from opplab.fit.machine_power import GENERIC_PERCENT, generic_power
    from opplab.simulation.machine import Machine

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "machine.toml"
    write_text(path, generic_power(Machine.load(name).to_toml()))
    low, high = GENERIC_PERCENT
    click.echo(f"opplab: power is a generic curve; chips are within {low} to {high} % of it", err=True)
    return str(path)


def _check_name(what: str) -> None:
    """Refuse a word that is neither an experiment nor a file, with the nearest name of what may stand there."""
    from opplab import _opplab, catalog

    known = [*catalog.names("experiment"), *(model["name"] for model in _opplab.benchmarks())]
    if "." in what or "/" in what or Path(what).exists() or what in known:
        return
    raise InputError(f"`{what}` is no experiment, benchmark or file{catalog.nearest(what, known)}")


def _is_workload(what: str) -> bool:
    """Whether words name an rt-app file, and not an experiment or a folder."""
    path = Path(what)
    return path.suffix == ".json" or (path.is_file() and (path.suffix != ".toml" or _is_model(path)))


def _is_model(path: Path) -> bool:
    """Whether a file is a model of `opplab learn`."""
    import tomllib

    from opplab.trace.learn import is_model

    try:
        return path.suffix == ".toml" and is_model(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return False


def _model_as_rtapp(path: Path, folder: Path, seconds: float | None) -> Path:
    """Write the rt-app file of a learnt model into the folder of the results, and give its path."""
    from opplab.files import write_text
    from opplab.trace.learn import read, to_rtapp

    folder.mkdir(parents=True, exist_ok=True)
    made = folder / "workload.json"
    write_text(made, to_rtapp(read(path), *([] if seconds is None else [seconds])))
    return made


def _write_experiment(
    machine: str,
    workload: Path,
    benchmark: dict[str, Any] | None,
    keys: dict[str, Any],
    folder: Path,
    seconds: float | None,
    repeats: str,
) -> Path:
    """Write the experiment that compares governors, so that it can be run again and changed."""
    from opplab.files import write_text
    from opplab.simulation.workload import Workload
    from opplab.sweep.template import experiment_text

    if repeats != "workgen":
        raise click.UsageError("--repeats is for a single governor; an experiment reads files as workgen does")
    if benchmark is None:
        check_workload(workload)
    length = seconds if seconds is not None else BENCHMARK_S if benchmark else Workload.load(workload).duration_s
    if length is None:
        raise click.UsageError("the workload has no duration: give --seconds")
    folder.mkdir(parents=True, exist_ok=True)
    where = os.path.relpath(workload, folder) if benchmark is None else workload.name
    file = Path(machine)
    if benchmark is not None:
        benchmark = with_calibration(benchmark, workload.name, file.stem if file.suffix == ".toml" else machine)
    on = os.path.relpath(file, folder) if file.suffix == ".toml" else machine
    text = experiment_text(
        folder.name, on, where, keys.pop("governor", "schedutil").split(","), length, keys, benchmark=benchmark
    )
    path = folder / "experiment.toml"
    write_text(path, text)
    return path


def _run_one(
    name: str,
    file: Path,
    keys: dict[str, Any],
    repeats: str,
    output: Path,
    seconds: float | None,
    seed: int,
    how: How,
) -> None:
    from opplab.files import write_text
    from opplab.simulation.cases import Case
    from opplab.simulation.machine import Machine
    from opplab.simulation.policy import Policy
    from opplab.simulation.power import HOW_TO_GET_POWER, is_unknown
    from opplab.simulation.run import Run
    from opplab.simulation.simulate import build_case
    from opplab.simulation.workload import Workload
    from opplab.sweep.runner import run_one
    from opplab.sweep.store import Store

    machine = Machine.load(name)
    check_workload(file)
    workload = Workload.load(file, repeats=repeats)
    for note in workload.notes:
        click.echo(f"opplab: {note}", err=True)
    policy = Policy(**keys)
    length = seconds if seconds is not None else workload.duration_s
    if length is None:
        raise click.UsageError("the workload has no duration: give --seconds")
    inner = build_case(machine, workload, policy, seconds=length, seed=seed)
    case = Case.of(inner)
    with Store(output) as store:
        listed = [{"hash": case.hash, "label": case.label}]
        store.create({"experiment": "", "about": "", "cases": listed, "policies": [case.policy]}, replace=how.replace)
        write_text(output / "case.json", case.json)
        run = Run(case, inner, run_one(case.json, how.check, how.check_determinism), machine)
        store.put(case.hash, run.metrics.iter_rows(named=True))
        store.merge([case.hash])
        run.to_perfetto(output / "run.pftrace")
        run.view(output / "run.html")
        logs = run.rtapp_logs(output / "rt-app")
        table = run.metrics.select("metric", "value", "unit").to_dicts()
        if how.output_format == "text":
            print_table([{**row, "value": "unknown"} if row["value"] is None else row for row in table], "text")
            if is_unknown(run.metrics):
                say(HOW_TO_GET_POWER)
        else:
            print_table(table, how.output_format)
        if how.output_format == "text":
            click.echo(f"fingerprint {run.fingerprint}")
        files = f"{output}/results.parquet, {output}/run.pftrace, {output}/run.html, {output}/rt-app ({len(logs)} logs)"
        click.echo(f"wrote {files}", err=True)


@contextlib.contextmanager
def cluster(address: str | None, jobs: int) -> Iterator[tuple[object, int]]:
    """Give the executor of a Dask cluster and the number of its threads, or None and `jobs`."""
    if address is None:
        yield None, jobs
        return
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise InputError("--dask needs the extra 'dask': pip install 'opplab[dask]'") from None
    with contextlib.ExitStack() as stack:
        where = address
        if address == "local":
            where = stack.enter_context(
                LocalCluster(n_workers=jobs, threads_per_worker=1, host=LOOPBACK, dashboard_address=None)  # type: ignore[no-untyped-call,unused-ignore]
            )
        client = stack.enter_context(Client(where, timeout=CONNECT_S))  # type: ignore[no-untyped-call,unused-ignore]
        threads = sum(client.nthreads().values())
        if not threads:
            raise InputError(f"the Dask cluster at {where} has no workers")
        yield client.get_executor(pure=False), threads


def _run_experiment(experiment: Experiment, output: Path, how: How) -> None:
    from opplab.sweep.store import Store

    with Store(output) as store:
        _run_into(store, experiment, output, how)


def _run_into(store: Store, experiment: Experiment, output: Path, how: How) -> None:
    from opplab.sweep.progress import progress
    from opplab.sweep.runner import run_cases

    start = time.monotonic()
    try:
        if store.create(experiment.manifest(), replace=how.replace):
            click.echo(f"opplab: {output} held results of another build; they are made anew", err=True)
        with cluster(how.dask, how.jobs) as (executor, threads), progress(len(experiment.cases)) as shown:
            tally = run_cases(
                experiment.cases,
                store,
                executor=executor,  # type: ignore[arg-type]
                jobs=threads,
                check=how.check,
                check_determinism=how.check_determinism,
                retry_failed=how.retry_failed,
                until=experiment.until,
                progress=shown,
            )
    except KeyboardInterrupt:
        done = len(store.finished() & {case.hash for case in experiment.cases})
        kept = f"{done} of {len(experiment.cases)} cases are kept in {output}"
        click.echo(f"opplab: interrupted; {kept}; the same command goes on from there", err=True)
        raise click.exceptions.Exit(130) from None
    for note in store.notes:
        click.echo(f"opplab: {note}", err=True)
    seconds = time.monotonic() - start
    _finish(experiment, store, tally, how)
    skipped = f", {tally.skipped} were there" if tally.skipped else ""
    speed = f", {tally.simulated_ns / 1e9 / seconds:.0f} simulated seconds a second" if tally.done else ""
    spared = f", {tally.spared} were not needed" if tally.spared else ""
    click.echo(f"{tally.done} cases in {seconds:.1f} s{skipped}{spared}{speed}", err=True)
    if tally.problems:
        for problem in tally.problems[:5]:
            click.echo(f"opplab: {problem}", err=True)
        click.echo(f"opplab: {tally.failed} of {tally.total} cases failed (opplab status {output})", err=True)
        raise click.exceptions.Exit(1)


def _how_sure(experiment: Experiment, results: pl.DataFrame, metrics: list[str], folder: Path, how: How) -> Sureness:
    """Run the draws, which go to a results folder of their own within the sweep's."""
    from opplab.files import write_text
    from opplab.sweep.progress import progress
    from opplab.sweep.store import Store
    from opplab.uncertainty.sweep import how_sure

    assert how.uncertainty is not None
    with Store(folder / "draws") as store, cluster(how.dask, how.jobs) as (executor, threads):
        sure = how_sure(
            experiment,
            results,
            metrics,
            how.uncertainty,
            store=store,
            executor=executor,  # type: ignore[arg-type]
            jobs=threads,
            progress=progress,
        )
    whole = {"changes": sure.rows(), "deciding": sure.deciding(), "assumptions": sure.assumptions}
    write_text(folder / "uncertainty.json", json.dumps(whole, indent=1) + "\n")
    return sure


def _finish(experiment: Experiment, store: Store, tally: Tally, how: How) -> None:
    """Merge the results; print the tables and write report and traces."""
    from opplab.report import publish

    results = store.merge(tally.wanted)
    if tally.spared:
        wanted = set(tally.wanted)
        store.note_spared([case.hash for case in experiment.cases if case.hash not in wanted])
    if how.no_report or results.is_empty():
        return
    from rich.console import Console

    from opplab.simulation.power import HOW_TO_GET_POWER, is_unknown

    class Screen(Console):
        def on_broken_pipe(self) -> None:
            """Leave it to the caller, which says with its exit code that the reader went away."""
            raise BrokenPipeError

    # Tables of another format stand alone on standard output.
    stream = sys.stdout if how.output_format == "text" else sys.stderr
    # Only this stream takes colours; names in what is shown are made harmless before.
    console = Screen(file=getattr(stream, "unguarded", stream), highlight=False, soft_wrap=True, markup=False)
    if how.output_format != "text":
        print_table(publish.mean_rows(results), how.output_format)
    if is_unknown(results):
        console.print(flow(HOW_TO_GET_POWER, terminal_width()), markup=False)
    blocks = publish.blocks_of(experiment, results)
    plain = []
    measured = publish.metric_tables(experiment, results)
    for title, rows in measured:
        console.print(f"\n{printable(title)}")
        console.print(printable(render_table(rows, "text", terminal_width())), end="")
        plain.append(f"{title}\n{render_table(rows, 'text')}")
    # Where benchmarks say what they measure, that is the table; energies are in the report.
    for title, table in [] if measured else publish.tables_text(blocks):
        console.print(f"\n{printable(title)}")
        console.print(table, end="")
        plain.append(f"{title}\n{table}")
    if blocks:
        from opplab.files import write_text

        write_text(store.path / "tables.txt", "\n".join(plain))
        iterations = results["iteration"].n_unique()
        legend = (
            f"mean of {iterations} iterations; changes are against the first column; * clear: the interval excludes "
            "zero; intervals are in the report."
            if measured
            else "* clear: the interval of the change excludes zero; "
            f"ci(+/-): half-width of Student's t 95 % interval of {iterations} iterations (none: they do not "
            "vary); publ.: as published; diff.: simulated against published, and the changes' difference in percentage "
            "points (pp); missed%: activations missed, baseline / variant."
        )
        console.print(textwrap.fill(legend, min(terminal_width() or 100, 100)), style="dim")
    sure = None
    if how.uncertainty and not tally.problems:
        sure = _how_sure(experiment, results, publish.own_metrics(results) or ["energy"], store.path, how)
        for title, rows in publish.sure_tables(sure):
            console.print(f"\n{printable(title)}")
            console.print(render_table(rows, "text", terminal_width()), end="")
        for line in sure.findings():
            console.print(flow(printable(line), terminal_width()))
    if not tally.problems:
        publish.write_report(experiment, results, blocks, store.path / "report.html", sure)
        traces = publish.write_traces(experiment, results, store.path / "traces")
        console.print(
            f"\nwrote {store.path}/report.html, results.parquet, tables.txt, cases/ ({len(experiment.cases)})"
        )
        console.print(f"      {store.path}/traces/ ({len(traces)} for https://ui.perfetto.dev)")

"""`opplab run`: an experiment, or one case put together on the command line."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opplab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from opplab.sweep.experiments import Experiment
    from opplab.sweep.runner import Tally
    from opplab.sweep.store import Store

# How long a Dask scheduler may take to answer.
CONNECT_S = 10
AD_HOC = ("machine", "workload", "governor", "kernel", "driver", "eas", "energy_model", "idle_governor", "tunables")


def _tunables(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"'{text}' is not NAME=VALUE")
        pairs[key] = value
    return pairs


def _percent(_ctx: click.Context, _param: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = 0.0
    if not 0 < value <= 100:
        raise click.BadParameter(f"'{text}' is no share: write it like 1% or 0.25%")
    return value


@click.command(name="run")
@click.argument("experiment", required=False)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Results folder.")
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), help="Seed of the first iteration.")
@click.option("--iterations", type=click.IntRange(1, 100_000), help="Iterations of each cell.")
@click.option(
    "--until-ci", metavar="PERCENT", callback=_percent, help="Fewer iterations when intervals are this narrow."
)
@click.option("--seconds", type=float, help="Simulated time of a case.")
@click.option("--jobs", "-j", type=click.IntRange(1, 1024), help="Threads (default: one a CPU).")
@click.option("--dask", metavar="ADDRESS", help="Run on a Dask cluster: a scheduler's address, or 'local'.")
@click.option("--check", is_flag=True, help="Check the invariants of every run.")
@click.option("--check-determinism", is_flag=True, help="Run every case twice and compare.")
@click.option("--retry-failed", is_flag=True, help="Run the cases again that failed before.")
@click.option("--no-report", is_flag=True, help="Only results: no tables, report or traces.")
@click.option("--machine", help="Ad hoc: built-in name or .toml file.")
@click.option("--workload", type=click.Path(path_type=Path), help="Ad hoc: rt-app file.")
@click.option("--repeats", type=click.Choice(["workgen", "json-c"]), default="workgen", help="Ad hoc: repeated keys.")
@click.option("--governor", help="Ad hoc: cpufreq governor (schedutil).")
@click.option("--kernel", help="Ad hoc: kernel profile (6.12).")
@click.option("--driver", help="Ad hoc: cpufreq driver (the machine's own).")
@click.option("--eas/--no-eas", "eas", default=None, help="Ad hoc: energy-aware scheduling (on).")
@click.option("--energy-model", type=click.Choice(["registered", "artificial", "none"]), help="Ad hoc.")
@click.option("--idle-governor", help="Ad hoc: menu, teo, ... (menu).")
@click.option("--tunable", "tunables", multiple=True, callback=_tunables, metavar="NAME=VALUE", help="Ad hoc.")
def command(
    experiment: str | None,
    output: Path,
    seed: int | None,
    iterations: int | None,
    until_ci: float | None,
    seconds: float | None,
    jobs: int | None,
    dask: str | None,
    check: bool,
    check_determinism: bool,
    retry_failed: bool,
    no_report: bool,
    repeats: str,
    **ad_hoc: object,
) -> None:
    """Run EXPERIMENT (built in, or a .toml file), or one case: --machine M --workload FILE.

    Results go to the folder given by -o, one file a finished case; a case that is there is not run again.
    Ctrl-C keeps what is finished.  The results are the same whatever --jobs.  With --until-ci (or `until` in the
    experiment) --iterations is the most: a point has enough when the interval of every compared change is so narrow.
    """
    given = {name: value for name, value in ad_hoc.items() if value not in (None, {})}
    if experiment is None:
        if "machine" not in given or "workload" not in given:
            raise click.UsageError("give an EXPERIMENT (see 'opplab list experiments'), or --machine and --workload")
        if iterations or dask or until_ci:
            raise click.UsageError("--iterations, --until-ci and --dask are for experiments")
        _run_one(given, repeats, output, seconds, 1 if seed is None else seed, check, check_determinism)
        return
    if given:
        flag = "--" + next(iter(given)).replace("_", "-").removesuffix("s")
        raise click.UsageError(f"{flag} is for single cases; the experiment says its own")
    from opplab.sweep.experiments import Experiment

    chosen = Experiment.load(experiment, iterations=iterations, seed=seed, seconds=seconds, until_ci=until_ci)
    workers = jobs or os.cpu_count() or 1
    _run_experiment(chosen, output, workers, dask, check, check_determinism, retry_failed, no_report)


def _run_one(
    given: dict[str, object],
    repeats: str,
    output: Path,
    seconds: float | None,
    seed: int,
    check: bool,
    check_determinism: bool,
) -> None:
    from opplab.cli.output import print_table
    from opplab.simulation.api import Machine, Policy, Run, Workload, build_case
    from opplab.simulation.cases import Case
    from opplab.sweep.runner import run_one
    from opplab.sweep.store import Store, write_text

    machine = Machine.load(str(given.pop("machine")))
    workload = Workload.load(Path(str(given.pop("workload"))), repeats=repeats)
    for note in workload.notes:
        click.echo(f"opplab: {note}", err=True)
    policy = Policy(**given)  # type: ignore[arg-type]
    length = seconds if seconds is not None else workload.duration_s
    if length is None:
        raise click.UsageError("the workload has no duration: give --seconds")
    inner = build_case(machine, workload, policy, seconds=length, seed=seed)
    case = Case.of(inner)
    store = Store(output)
    listed = [{"hash": case.hash, "label": case.label}]
    store.create({"experiment": "", "about": "", "cases": listed, "policies": [case.policy]})
    write_text(output / "case.json", case.json)
    run = Run(case, inner, run_one(case.json, check, check_determinism), machine)
    store.put(case.hash, run.metrics.iter_rows(named=True))
    store.merge([case.hash])
    run.to_perfetto(output / "run.pftrace")
    run.view(output / "run.html")
    logs = run.rtapp_logs(output / "rt-app")
    table = run.metrics.select("metric", "value", "unit")
    print_table(table.to_dicts(), "text")
    click.echo(f"fingerprint {run.fingerprint}")
    files = f"{output}/results.parquet, {output}/run.pftrace, {output}/run.html, {output}/rt-app ({len(logs)} logs)"
    click.echo(f"wrote {files}", err=True)


@contextlib.contextmanager
def _progress(total: int) -> Iterator[Callable[[Tally], None]]:
    """Show how far a sweep is: a bar on a terminal, a line now and then elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    start = time.monotonic()
    if not console.is_terminal:
        last = [start]

        def line(tally: Tally) -> None:
            now = time.monotonic()
            finished = tally.done + tally.skipped
            if now - last[0] >= 5 or finished + tally.failed == total:
                last[0] = now
                rate = tally.done / max(now - start, 1e-9)
                left = (total - finished - tally.failed) / rate if rate else 0
                failed = f", {tally.failed} failed" if tally.failed else ""
                print(f"{finished}/{total} cases, {rate:.1f} a second, {left:.0f} s left{failed}", file=sys.stderr)

        yield line
        return
    columns = (
        TextColumn("simulating"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("[red]{task.fields[failed]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        job = bar.add_task("", total=total, rate="", failed="")

        def update(tally: Tally) -> None:
            rate = tally.done / max(time.monotonic() - start, 1e-9)
            failed = f"{tally.failed} failed" if tally.failed else ""
            finished = tally.done + tally.skipped + tally.failed
            bar.update(job, completed=finished, rate=f"{rate:.1f}/s", failed=failed)

        yield update


@contextlib.contextmanager
def _cluster(address: str | None, jobs: int) -> Iterator[tuple[object, int]]:
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
                LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=None)  # type: ignore[no-untyped-call,unused-ignore]
            )
        client = stack.enter_context(Client(where, timeout=CONNECT_S))  # type: ignore[no-untyped-call,unused-ignore]
        threads = sum(client.nthreads().values())
        if not threads:
            raise InputError(f"the Dask cluster at {where} has no workers")
        yield client.get_executor(pure=False), threads


def _run_experiment(
    experiment: Experiment,
    output: Path,
    jobs: int,
    dask: str | None,
    check: bool,
    check_determinism: bool,
    retry_failed: bool,
    no_report: bool,
) -> None:
    from opplab.sweep.runner import run_cases
    from opplab.sweep.store import Store

    store = Store(output)
    start = time.monotonic()
    try:
        if store.create(experiment.manifest()):
            click.echo(f"opplab: {output} held results of another build; they are made anew", err=True)
        with _cluster(dask, jobs) as (executor, workers), _progress(len(experiment.cases)) as progress:
            tally = run_cases(
                experiment.cases,
                store,
                executor=executor,  # type: ignore[arg-type]
                jobs=workers,
                check=check,
                check_determinism=check_determinism,
                retry_failed=retry_failed,
                until=experiment.until,
                progress=progress,
            )
    except KeyboardInterrupt:
        done = len(store.finished() & {case.hash for case in experiment.cases})
        kept = f"{done} of {len(experiment.cases)} cases are kept in {output}"
        click.echo(f"opplab: interrupted; {kept}; the same command goes on from there", err=True)
        raise click.exceptions.Exit(130) from None
    seconds = time.monotonic() - start
    _finish(experiment, store, tally, no_report)
    skipped = f", {tally.skipped} were there" if tally.skipped else ""
    speed = f", {tally.simulated_ns / 1e9 / seconds:.0f} simulated seconds a second" if tally.done else ""
    spared = f", {tally.spared} were not needed" if tally.spared else ""
    click.echo(f"{tally.done} cases in {seconds:.1f} s{skipped}{spared}{speed}", err=True)
    if tally.problems:
        for problem in tally.problems[:5]:
            click.echo(f"opplab: {problem}", err=True)
        click.echo(f"opplab: {tally.failed} of {tally.total} cases failed (opplab status {output})", err=True)
        raise click.exceptions.Exit(1)


def _finish(experiment: Experiment, store: Store, tally: Tally, no_report: bool) -> None:
    """Merge the results; print the tables and write report and traces."""
    from opplab.report import publish

    results = store.merge(tally.wanted)
    if tally.spared:
        wanted = set(tally.wanted)
        store.note_spared([case.hash for case in experiment.cases if case.hash not in wanted])
    if no_report or results.is_empty():
        return
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    blocks = publish.blocks_of(experiment, results)
    plain = []
    measured = publish.metric_tables(experiment, results)
    for title, text in measured:
        console.print(f"\n{title}", markup=False)
        console.print(text, end="", markup=False)
        plain.append(f"{title}\n{text}")
    # Where benchmarks say what they measure, that is the table; energies are in the report.
    for title, table in [] if measured else publish.tables_text(blocks):
        console.print(f"\n{title}")
        console.print(table, end="")
        plain.append(f"{title}\n{table}")
    if blocks:
        from opplab.sweep.store import write_text

        write_text(store.path / "tables.txt", "\n".join(plain))
        iterations = results["iteration"].n_unique()
        console.print(
            f"mean of {iterations} iterations; changes are against the first column; intervals are in the report."
            if measured
            else f"ci(+/-): half-width of Student's t 95 % interval of {iterations} iterations; publ.: as published;\n"
            "diff.: simulated against published, and the changes' difference in percentage points (pp);\n"
            "missed%: activations missed, baseline / variant.",
            style="dim",
        )
    if not tally.problems:
        publish.write_report(experiment, results, blocks, store.path / "report.html")
        traces = publish.write_traces(experiment, results, store.path / "traces")
        console.print(
            f"\nwrote {store.path}/report.html, results.parquet, tables.txt, cases/ ({len(experiment.cases)})"
        )
        console.print(f"      {store.path}/traces/ ({len(traces)} for https://ui.perfetto.dev)")

"""`opplab run`: an experiment, or one case put together on the command line."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opplab import _opplab, catalog
from opplab.cli.options import (
    BuiltIn,
    background_option,
    benchmark_of,
    check_workload,
    from_folder,
    jobs_option,
    machine_option,
    note,
    output_format_option,
    output_option,
    param_option,
    percent,
    policy_of,
    policy_options,
    power_option,
    uncertainty_option,
    variants_on,
    vs_option,
    with_generic_power,
    workers,
)
from opplab.errors import FormatError, InputError, plain_interrupts
from opplab.files import printable, read_text, relative, toml_of, write_text
from opplab.report.block import FORMATS, LINES
from opplab.report.numbers import several, some_of, workload_of
from opplab.report.text import flow, print_table, render_table, terminal_width
from opplab.sweep.progress import progress
from opplab.sweep.store import Store

if TYPE_CHECKING:
    import polars as pl

    from opplab.summary.answer import Answer
    from opplab.summary.pairs import Block
    from opplab.sweep.experiments import Experiment
    from opplab.sweep.runner import Tally
    from opplab.sweep.variants import Variant
    from opplab.uncertainty.sweep import Sureness

# Runs of each variant where several are compared, and the seed of the first.
ITERATIONS = 3
SEED = 1

# Variants that a sentence on failed runs names.
FAILED = 3

# How long a Dask scheduler may take to answer.
CONNECT_S = 10

# Where a cluster of our own listens: nobody else on the network may send it work.
LOOPBACK = "127.0.0.1"


@click.command(name="run")
@click.argument("what", required=False, metavar="[EXPERIMENT|FILE|BENCHMARK|FOLDER]", type=BuiltIn("experiment"))
@machine_option("Machine of the workload. May be repeated.", multiple=True)
@click.option(
    "-w", "--workload", type=click.Path(path_type=Path), metavar="FILE", help="Workload file; the same as FILE."
)
@param_option
@power_option
@background_option
@policy_options
@vs_option
@click.option("--seconds", type=float, help="Simulated time per case, s (default: the workload's).")
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), help="Seed of the first iteration.")
@click.option("--iterations", type=click.IntRange(1, 100_000), help="Iterations of each case, each with its own seed.")
@click.option(
    "--until-ci", metavar="PERCENT", callback=percent, help="Interval half-width at which a point stops early."
)
@click.option(
    "--repeats",
    type=click.Choice(["workgen", "json-c"]),
    default="workgen",
    show_default=False,
    help="Meaning of repeated keys in an rt-app file (see 'opplab workload show').",
)
@uncertainty_option
@output_option("Results folder (default: out/NAME).")
@output_format_option(only=FORMATS)
@click.option("--all", "everything", is_flag=True, help="Print every metric and every line of the answer.")
@jobs_option
@click.option("--dask", metavar="ADDRESS", help="Dask scheduler to run on, or 'local'.")
@click.option("--check", is_flag=True, help="Check the engine's invariants in every run.")
@click.option("--check-determinism", is_flag=True, help="Run every case twice and compare.")
@click.option("--retry-failed", is_flag=True, help="Run failed cases again.")
@click.option("--replace", is_flag=True, help="Remove another experiment's results from the folder.")
@click.option("--no-report", is_flag=True, help="Write results only; print the answer.")
@click.option("--traces", is_flag=True, help="Write traces of long runs as well (130 bytes an event).")
def command(
    what: str | None,
    machine: tuple[str, ...],
    power: str | None,
    background: str | None,
    workload: Path | None,
    params: tuple[str, ...],
    seconds: float | None,
    seed: int | None,
    iterations: int | None,
    until_ci: float | None,
    repeats: str,
    vs: tuple[str, ...],
    output: Path | None,
    output_format: str,
    everything: bool,
    jobs: int | None,
    **options: Any,
) -> None:
    """Run an experiment, or a workload on a machine.

    EXPERIMENT is built in ('opplab list experiments') or a .toml file. FILE may also be an rt-app workload (.json),
    which needs --machine and takes the policy options. Several governors are compared. Each --vs adds a variant of
    the first policy. The same options apply to BENCHMARK ('opplab list benchmarks'); --param sets its parameters.
    FOLDER is a results folder, whose experiment continues.

    The answer has one row per variant. The results folder (-o) holds all numbers, the experiment and a report.
    Finished cases are not run again, also after Ctrl-C. Results do not depend on --jobs.

    With --until-ci (or `until` in the experiment), --iterations is an upper bound. A point stops once the interval of
    every compared change is narrower than this. --uncertainty N also varies the machine's assumed values within
    their ranges. Each interval then has two parts: runs and assumptions.
    """
    flags = {one.name: options.pop(one.name) for one in fields(How) if one.kw_only}
    how = How(workers(jobs), output_format, everything, **flags)
    if how.no_report and how.traces:
        raise click.UsageError("--traces are files beside the report, which --no-report leaves out: give one of them")
    given = {name: value for name, value in options.items() if value not in (None, {}, ())}
    target = what
    benchmark = benchmark_of(what or "", params)
    if benchmark is not None:
        target, workload = None, Path(what or "")
    elif what is not None and _is_workload(what):
        if workload is not None:
            raise click.UsageError("give one workload")
        target, workload = None, Path(what)
    adjusted: dict[str, Any] = {"iterations": iterations, "seed": seed, "seconds": seconds, "until_ci": until_ci}
    with contextlib.ExitStack() as kept:
        if target is None:
            if workload is None:
                raise click.UsageError(
                    "give an EXPERIMENT (see 'opplab list experiments'), or a workload and --machine"
                )
            if not machine:
                some = "'opplab list machines', or a .toml file"
                raise click.UsageError(f"{workload} needs --machine NAME ({some})")

            from opplab.sweep.missing import unable
            from opplab.sweep.taken import as_taken

            notes: list[str] = []
            variants = variants_on(machine, policy_of(given), vs, notes.append)
            folder = output or Path("out") / workload.stem
            Store(folder).check()
            kept.enter_context(Store(folder).inputs_kept())
            with _nothing_left(folder):
                if benchmark is None and _is_model(workload):
                    workload = _model_as_rtapp(workload, folder, seconds)
                if power is not None:
                    machine = _with_generic_power(machine, folder)
                if repeats != "workgen":
                    workload = _as_json_c(workload, folder)
                one = len(variants) == 1 and not (until_ci or how.uncertainty)
                number = iterations or (1 if one else ITERATIONS)

                def loaded(variants: Sequence[Variant], notes: Sequence[str]) -> Experiment:
                    written = _write_experiment(
                        machine, workload, benchmark, variants, folder, seconds, number, seed, background, notes
                    )
                    return _loaded(str(written), True, **adjusted)

                chosen = loaded(variants, notes)
                taken, refused = as_taken(variants, chosen.cases)
                if refused:
                    chosen = loaded(taken, [*notes, *refused])
                # Refused before anything is kept.
                unable(chosen.cases)
            output = folder
        else:
            _check_name(target)
            own = {"machine": machine, "power": power, "background": background, "vs": vs, "workload": workload}
            others = [*given, *(name for name, value in own.items() if value)]
            if others:
                flag = next(
                    max(each.opts, key=len)
                    for each in click.get_current_context().command.params
                    if each.name == others[0]
                )
                raise click.UsageError(f"{flag} cannot be combined with an experiment, which has its own")
            if Path(target).is_dir():
                from opplab.sweep.experiments import Experiment as Sweep

                output = output or Path(target)
                chosen = Sweep.of_results(target, **adjusted)
            else:
                chosen = _loaded(target, False, **adjusted)
        if how.uncertainty:
            chosen.adjusted["uncertainty"] = how.uncertainty
        with Store(output or Path("out") / chosen.name) as store:
            _run_experiment(store, chosen, how)


@dataclass
class How:
    """How cases are run and shown."""

    jobs: int
    output_format: str
    everything: bool
    _: KW_ONLY
    dask: str | None
    check: bool
    check_determinism: bool
    retry_failed: bool
    replace: bool
    no_report: bool
    traces: bool
    uncertainty: int | None


def _with_generic_power(names: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Write the machines without power into the folder of the results, with a generic curve; give their files."""
    from opplab.simulation.machine import Machine

    bare = [name for name in names if Machine.load(name)._inner.unknown_power] or names
    paths = []
    for number, name in enumerate(names, 1):
        if name not in bare:
            paths.append(name)
            continue
        file = f"machine-{number}.toml" if len(names) > 1 else "machine.toml"
        paths.append(str(_written(folder, file, with_generic_power(name).to_toml())))
    return tuple(paths)


def _written(folder: Path, name: str, text: str) -> Path:
    """Write a text into the folder of the results, and give its path."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / name, text)
    return folder / name


def _check_name(what: str) -> None:
    """Refuse a word that is neither an experiment nor a file, with the nearest name of what may stand there."""
    known = [*catalog.names("experiment"), *(model["name"] for model in _opplab.benchmarks())]
    if "." in what or "/" in what or Path(what).exists() or what in known:
        return
    hint = catalog.nearest(what, known) or "; see `opplab list experiments` and `opplab list benchmarks`"
    raise InputError(f"`{what}` is not an experiment, a benchmark or a file{hint}")


def _is_workload(what: str) -> bool:
    """Whether words name an rt-app file, and not an experiment or a folder."""
    path = Path(what)
    return path.suffix == ".json" or (path.is_file() and (path.suffix != ".toml" or _is_model(path)))


def _is_model(path: Path) -> bool:
    """Whether a file is a model of `opplab learn`."""
    from opplab.trace.learn import is_model

    try:
        return path.suffix == ".toml" and is_model(toml_of(read_text(path, "a workload file"), path))
    except (OSError, FormatError):
        return False


def _model_as_rtapp(path: Path, folder: Path, seconds: float | None) -> Path:
    """Write the rt-app file of a learnt model into the folder of the results, and give its path."""
    from opplab.trace.learn import read, to_rtapp

    return _written(folder, "workload.json", to_rtapp(read(path), *([] if seconds is None else [seconds])))


@contextlib.contextmanager
def _nothing_left(folder: Path) -> Iterator[None]:
    """Take a folder away again that was made for a run that is refused."""
    there = folder.exists()
    try:
        yield
    except BaseException:
        if not there:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _as_json_c(path: Path, folder: Path) -> Path:
    """Write an rt-app file as json-c reads it, the last value of a repeated key, into the folder of the results."""
    try:
        # Python's reader keeps the last value, too.
        whole = json.loads(read_text(path, "a workload file"))
    except ValueError as error:
        raise InputError(f"{path}: --repeats json-c needs plain JSON: {error}") from None
    return _written(folder, "workload.json", json.dumps(whole, indent=1) + "\n")


def _write_experiment(
    machines: Sequence[str],
    workload: Path,
    benchmark: dict[str, Any] | None,
    variants: Sequence[Variant],
    folder: Path,
    seconds: float | None,
    iterations: int,
    seed: int | None,
    background: str | None,
    notes: Sequence[str],
) -> Path:
    """Write the experiment of these variants, so that every other command works on what comes of it."""
    from opplab.simulation.machine import Machine
    from opplab.simulation.run import duration_ns
    from opplab.simulation.workload import Benchmark, Workload, length_of
    from opplab.sweep.template import experiment_text

    names = [Machine.load(machine).name for machine in machines]
    load: Benchmark | Workload = Benchmark(workload.name)
    if benchmark is None:
        check_workload(workload)
        load = Workload.load(workload)
    length = length_of(load, seconds)
    duration_ns(length)
    folder.mkdir(parents=True, exist_ok=True)
    where = relative(workload, folder) if benchmark is None else workload.name
    if benchmark is not None:
        from opplab.simulation.fitted import with_calibration

        benchmark = with_calibration(benchmark, workload.name, names)
    on = [from_folder(one, folder) for one in machines]
    text = experiment_text(
        folder.name,
        on,
        where,
        variants,
        length,
        iterations=iterations,
        seed=seed or SEED,
        benchmark=benchmark,
        names=names,
        background=from_folder(background or "", folder),
        notes=notes,
    )
    return _written(folder, "experiment.toml", text)


def _loaded(target: str, ad_hoc: bool, **adjusted: Any) -> Experiment:
    """Load an experiment; errors in one that a command has written have no place in it."""
    from opplab.sweep.experiments import Experiment

    try:
        return Experiment.load(target, **adjusted)
    except FormatError as error:
        if not ad_hoc or error.file != target:
            raise
        raise InputError(str(error).split(": ", 1)[1]) from None


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
        try:
            client = stack.enter_context(Client(where, timeout=CONNECT_S))  # type: ignore[no-untyped-call,unused-ignore]
        except ValueError as error:
            raise InputError(f"--dask {where}: {error}; write it like tcp://HOST:8786, or local") from None
        threads = sum(client.nthreads().values())
        if not threads:
            raise InputError(f"the Dask cluster at {where} has no workers")
        yield client.get_executor(pure=False), threads


def _run_experiment(store: Store, experiment: Experiment, how: How) -> None:
    from opplab.sweep.missing import missing, unable
    from opplab.sweep.runner import run_cases

    # What is asked for and is not there stands in the answer, where that is printed in sentences.
    in_answer = (
        not experiment.compare and how.output_format != "csv" and (not how.everything or how.output_format == "text")
    )
    unsaid = () if in_answer else (*missing(experiment.cases), *experiment.disk_notes)
    lacking = (*unsaid, *unable(experiment.cases))
    for words in (*experiment.notes, *experiment.workload_notes, *lacking):
        note(words)
    start = time.monotonic()
    try:
        if store.create(experiment.manifest(), replace=how.replace):
            note(f"{store.path} held results of another build; they are made anew")
        with (
            plain_interrupts(),
            cluster(how.dask, how.jobs) as (executor, threads),
            progress(len(experiment.cases)) as shown,
        ):
            tally = run_cases(
                experiment.cases,
                store,
                executor=executor,  # type: ignore[arg-type]
                jobs=threads,
                check=how.check,
                check_determinism=how.check_determinism,
                retry_failed=how.retry_failed,
                until=experiment.until,
                latencies=experiment.latencies,
                progress=shown,
            )
    except KeyboardInterrupt:
        done = len(store.finished() & {case.hash for case in experiment.cases})
        kept = f"{done} of {len(experiment.cases)} cases are kept in {store.path}"
        note(f"interrupted; {kept}; the same command goes on from there")
        raise click.exceptions.Exit(130) from None
    for words in store.notes:
        note(words)
    seconds = time.monotonic() - start
    _finish(experiment, store, tally, how)
    skipped = f", {tally.skipped} were there" if tally.skipped else ""
    speed = f", {tally.simulated_ns / 1e9 / seconds:.3g} simulated seconds a second" if tally.done else ""
    spared = f", {tally.spared} were not needed" if tally.spared else ""
    cases = "case" if tally.done == 1 else "cases"
    click.echo(f"{tally.done} {cases} in {seconds:.1f} s{skipped}{spared}{speed}", err=True)
    if tally.problems:
        for problem in tally.problems[:5]:
            note(problem)
        note(f"{tally.failed} of {tally.total} cases failed (opplab status {store.path})")
        raise click.exceptions.Exit(1)


def _how_sure(
    experiment: Experiment, results: pl.DataFrame, metrics: list[str], beside: list[str], folder: Path, how: How
) -> Sureness:
    """Run the draws, which go to a results folder of their own within the sweep's."""
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
            beside=beside,
        )
    whole = {
        "changes": sure.rows(),
        "values": sure.own_values(),
        "deciding": sure.deciding(),
        "regimes": sure.regimes(),
        "assumptions": sure.assumptions,
    }
    write_text(folder / "uncertainty.json", json.dumps(whole, indent=1) + "\n")
    return sure


def _finish(experiment: Experiment, store: Store, tally: Tally, how: How) -> None:
    """Merge the results; print the answer, or the tables of a published text, and write pages and traces."""
    from opplab.summary import publish
    from opplab.summary.answer import answer_of

    results = store.merge(tally.wanted)
    if tally.spared:
        wanted = set(tally.wanted)
        store.note_spared([case.hash for case in experiment.cases if case.hash not in wanted])
    if results.is_empty():
        return
    blocks = publish.blocks_of(experiment, results)
    sure = None
    if how.uncertainty and not tally.problems:
        about, beside = answer_of(experiment, results).compared(publish.own_metrics(results))
        sure = _how_sure(experiment, results, about, beside, store.path, how)
    answer = answer_of(experiment, results, sure)
    answer.finding = " ".join(
        filter(None, [answer.finding, _not_reached(experiment, results), _failed(experiment, tally)])
    )
    plain = _shown(experiment, results, blocks, answer, how)
    if sure is not None:
        publish.print_sure(sure, how.output_format)
    if tally.problems or how.no_report:
        return
    written = ["report.html", "results.parquet", "tables.txt", f"cases/ ({len(tally.wanted)})"]
    write_text(store.path / "tables.txt", plain)
    publish.write_report(experiment, results, blocks, store.path / "report.html", sure, answer)
    drawn = publish.drawn(experiment, results, every=how.traces)
    if len(experiment.cases) == 1:
        written = [*_run_files(experiment, store, pages=bool(drawn)), *written]
    elif drawn:
        traces = publish.write_traces(experiment, drawn, store.path / "traces")
        written.append(f"traces/ ({len(traces)} for https://ui.perfetto.dev)")
    if left := len(publish.drawn(experiment, results, every=True)) - len(drawn):
        note(f"{left} runs of over {publish.EVENTS_MAX:,} events are not drawn; --traces writes their traces")
    click.echo(flow(f"wrote {store.path}: {', '.join(written)}", terminal_width()), err=True)


def _not_reached(experiment: Experiment, results: pl.DataFrame) -> str:
    """Name the points whose intervals are wider than asked for (--until-ci) after all iterations; empty for none."""
    if (until := experiment.until) is None:
        return ""
    words = []
    found = until.not_reached(results)
    for (machine, *workload), number, widest in found[:FAILED]:
        half = "no interval" if widest is None else f"\u00b1 {widest:.2g} %"
        place = f"{workload_of(*workload)} on {machine}"
        words.append(f"{half} after {several(number, 'iteration')} ({place})")
    more = len(found) - len(words)
    words += [f"{several(more, 'more point')}"] if more > 0 else []
    wanted = f"\u00b1 {until.ci:g} % of {until.metric}"
    return f"Not reached: {wanted}, but {', '.join(words)}; --iterations allows more." if words else ""


def _failed(experiment: Experiment, tally: Tally) -> str:
    """Name the variants whose runs failed, and why, in a sentence; empty if none did."""
    words = []
    for variant, reasons in list(tally.failures.items())[:FAILED]:
        cases = sum(case.policy == variant for case in experiment.cases)
        how = "all runs" if len(reasons) == cases else f"{len(reasons)} of {cases} runs"
        machines = list(dict.fromkeys(machine for machine, _ in reasons))
        on = f" on {some_of(machines, FAILED)}" if len({case.machine for case in experiment.cases}) > 1 else ""
        words.append(f"{how} of {variant}{on}, {reasons[0][1].removeprefix('failed to use the policy: ')}")
    more = len(tally.failures) - len(words)
    words += [f"and runs of {several(more, 'more variant')}"] if more > 0 else []
    return f"Failed: {'; '.join(words)}." if words else ""


def _shown(experiment: Experiment, results: pl.DataFrame, blocks: list[Block], answer: Answer, how: How) -> str:
    """Print the answer in the form that was asked for, and give what `tables.txt` holds."""
    from opplab.summary import publish

    width = terminal_width()
    if how.everything and how.output_format in ("csv", "json", "markdown"):
        print_table(publish.mean_rows(results), how.output_format)
    elif how.output_format != "text":
        sys.stdout.write(answer.form(how.output_format))
    if experiment.compare and blocks:
        # The layout of a published text stands where there is a text.
        measured = publish.metric_tables(experiment, results)
        texts = [(title, render_table(rows, "text", width), render_table(rows, "text")) for title, rows in measured]
        texts = texts or [(title, str(table), str(table)) for title, table in publish.tables_text(blocks)]
        legend = publish.legend(experiment, results, measured=bool(measured))
        beside, score = publish.scored(experiment, results)
        if measured and beside:
            baseline = experiment.baseline or "the baseline"
            title = f"changes against {baseline}, text {experiment.published_seed} and simulated"
            texts.append((title, render_table(beside, "text", width), render_table(beside, "text")))
        shown = "".join(f"\n{title}\n{table}" for title, table, _ in texts)
        shown += "".join(f"{flow(line, width)}\n" for line in (legend, score) if line)
        kept = "\n".join(f"{title}\n{table}" for title, _, table in texts) + (score and f"\n{flow(score, 80)}\n")
    else:
        shown = answer.text(width, None if how.everything else LINES)
        kept = answer.text(80, None)
    if how.output_format == "text":
        sys.stdout.write(printable(shown))
        if how.everything:
            every = publish.mean_rows(results)
            # What any policy has stays for all.
            there = {_place_of(row) for row in every if row["mean"] != 0}
            means = [
                {**row, "mean": "unknown" if row["mean"] is None else row["mean"]}
                for row in every
                if _place_of(row) in there
            ]
            sys.stdout.write("\n" + printable(render_table(means, "text", width)))
            if left := len(every) - len(means):
                words = "0 under every policy left out (--format csv --all has them)"
                sys.stdout.write(f"{several(left, 'row')} that are {words}\n")
            sys.stdout.write(
                "".join(f"fingerprint {one}\n" for one in results["fingerprint"].unique(maintain_order=True))
            )
        sys.stdout.flush()
    return kept


def _place_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Give what policies share of a row: its point and metric."""
    return tuple(row[name] for name in ("machine", "benchmark", "param", "metric"))


def _run_files(experiment: Experiment, store: Store, *, pages: bool) -> list[str]:
    """Write what a single run has beside its results: its page and its trace if it has pages, and rt-app's logs."""
    from opplab.simulation.run import Run

    case = experiment.cases[0]
    run = Run(case.inner, case.inner.run(False), experiment.machine_of(case.machine))
    if pages:
        run.to_perfetto(store.path / "run.pftrace")
        run.view(store.path / "run.html")
    logs = run.rtapp_logs(store.path / "rt-app")
    return [*(("run.html", "run.pftrace") if pages else ()), f"rt-app/ ({several(len(logs), 'log')})"]

"""`opplab compare`: tables of results, side by side."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from opplab.certainty import CONFIDENCE
from opplab.cli.options import jobs_option, note, uncertainty_option, workers
from opplab.comparison.compare import OF_BENCHMARKS, TABLES, check_layout, compare, mmtests_table, names_in, order_runs
from opplab.comparison.tables import FORMATS, render_all
from opplab.errors import InputError
from opplab.mmtests import is_run, runs_of
from opplab.mmtests.problems import UnknownName
from opplab.mmtests.summary import SUMMARIES
from opplab.report.numbers import several
from opplab.report.text import terminal_width
from opplab.simulation.power import is_of_power
from opplab.sweep.missing import idle_in_words
from opplab.sweep.store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from opplab.comparison.tables import Row, Table
    from opplab.runs import Problem
    from opplab.sweep.experiments import Experiment

SCREENFUL = 40
"""Rows of a table that are shown of more."""

OF_THE_RUNS = "intervals, stars and --fail-if are of the runs alone here; tables of their own have the assumptions"
"""The note where draws are asked for beside a comparison of runs."""


def _names(_context: click.Context, _parameter: click.Parameter, value: str | None) -> list[str]:
    names = names_in(value or "")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise click.BadParameter(f"'{twice}' is there twice")
    return names


NAMED_MAX = 8
"""Of so many cases without results each is a failure of its own; more of them are one."""

_TABLES_HELP = f"{', '.join(TABLES)} or monitor:NAME."


class TableName(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """One of the tables, or ``monitor:NAME``."""

    name = "table"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the name."""
        if value in TABLES or value.startswith("monitor:"):
            return value
        raise click.BadParameter(str(UnknownName("table", value, [*TABLES, "monitor:NAME"])), ctx, param)


@click.command(name="compare")
@click.argument("source", nargs=-1, required=True)
@click.option(
    "--runs",
    callback=_names,
    metavar="A,B,...",
    help="Runs to compare, in order (default: all); a name with a comma in double quotes.",
)
@click.option("--baseline", help="Baseline run (default: the first).")
@click.option(
    "-b",
    "--benchmark",
    "benchmarks",
    multiple=True,
    metavar="NAME[:METRIC]",
    help="Benchmark to compare; may be repeated.",
)
@click.option("--metric", default="", show_default=False, help="Metric of the benchmark to compare, e.g. tput.")
@click.option("--report", default="", show_default=False, help="Other view of the same logs, e.g. latency for fio.")
@click.option(
    "--method",
    type=click.Choice(["default", "mmtests"]),
    default="default",
    help="Statistics: opplab's default, or mmtests' own.",
)
@click.option("--summary", type=click.Choice(SUMMARIES), help="mmtests summary (default: the benchmark's own).")
@click.option("--table", type=TableName(), default="detail", help=_TABLES_HELP)
@click.option(
    "--layout",
    default="",
    show_default=False,
    help="Layout: blocks, slides or boxes for detail; overview or grid for overview.",
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="Output format.")
@click.option("--confidence", type=click.FloatRange(0.5, 0.9999), default=CONFIDENCE, help="Level of intervals.")
@click.option("--overview-rule", is_flag=True, help="Print ~ for ratios within 2.5 % of 1, as in the EPYC overview.")
@click.option(
    "--all", "everything", is_flag=True, help="Print every metric and row (default: each benchmark's main ones)."
)
@uncertainty_option
@jobs_option
@click.option(
    "--seed",
    type=click.IntRange(0, 2**64 - 1),
    default=1,
    help="Seed of mmtests' bootstrap (SubAmean, SubHmean).",
)
@click.option(
    "--fail-if", "rules", multiple=True, metavar="EXPR", help="Rule for exit code 1, e.g. 'tbench < -2% clear'."
)
@click.option(
    "--allow-missing",
    "allowed",
    multiple=True,
    metavar="NAME",
    help="Run, benchmark or operation that may be missing for --fail-if.",
)
@click.option("--html", type=click.Path(dir_okay=False), help="File for a self-contained report with plots.")
@click.option("--junit", type=click.Path(dir_okay=False), help="File for the checks as JUnit XML.")
def command(source: tuple[str, ...], **options: Any) -> None:
    """Compare the runs in SOURCE.

    SOURCE is an mmtests results folder, a results folder of `opplab run`, or a Parquet or CSV table with its columns.
    Benchmark outputs (one run per file) and mails of the kernel test robot work, too. published:SEED is a table of a
    published text (000 to 004); beside a results folder it shows simulated and published changes together.

    With --uncertainty N, the experiment of a results folder runs again with draws of the machine's assumed values.
    Additional tables then have intervals in two parts: runs and assumptions. Stars and --fail-if use the runs alone.

    A positive change is an improvement. Each machine and workload is compared on its own. --fail-if also fails on
    missing runs, benchmarks and iterations, and on values that are not numbers. Its NAME is a metric, an operation, a
    benchmark (its main metrics) or any (all metrics with a better direction).
    Exit codes: 0 ok, 1 a rule of --fail-if holds or cannot be judged, 2 usage or bad input.
    """
    request = Request(source, options)
    request.print()
    if request.broken:
        for line in request.broken:
            note(line)
        raise click.exceptions.Exit(1)


class Request:
    """One call of the command."""

    def __init__(self, source: tuple[str, ...], options: dict[str, Any]) -> None:
        self.source = source
        self.options = options
        self.table: str = options["table"]
        self.form: str = options["form"]
        self.metric: str = options["metric"]
        self.report: str = options["report"]
        self.summary: str = options["summary"] or ""
        self.broken: list[str] = []
        self.problems: list[Problem] = []

    def print(self) -> None:
        """Write the tables, then what was skipped, then check the rules."""
        if self.options["layout"] == "grid" and self.options["rules"]:
            raise click.UsageError("--fail-if needs the baselines, which --layout grid leaves out")
        if self.options["uncertainty"] and not self._is_robots():
            # What cannot be drawn is refused before anything is printed.
            self._experiment.cases  # noqa: B018
        texts = [one.removeprefix("published:") for one in self.source if one.startswith("published:")]
        folders = [one for one in self.source if not one.startswith("published:")]
        if texts:
            some = () if self.table in ("detail", "overview", "ppw", "power") else ("table",)
            why = "published tables are as they were printed"
            self._refuse_what_needs_values(why, "runs", "baseline", "metric", *some)
        if texts and folders:
            from opplab.agreement.against import against_published

            tables = [against_published(folder, text) for folder in folders for text in texts]
        elif texts:
            tables = self._published()
        elif self._is_robots():
            tables = self._robots()
        elif self._by_mmtests():
            tables = []
        else:
            try:
                tables = self._tables()
            except InputError as error:
                if not self.options["rules"]:
                    raise
                # A gate that has nothing to judge does not pass, and names it where its CI looks.
                self._check([], [str(error)])
                return
        if self.options["uncertainty"]:
            for one in tables:
                one.notes.append(OF_THE_RUNS)
        if tables:
            sys.stdout.write(render_all([self._screenful(one) for one in tables], self.form, terminal_width()))
        if self.form == "csv":
            for words in dict.fromkeys(words for one in tables for words in one.notes):
                note(words)
        for problem in dict.fromkeys(map(str, self.problems)):
            note(f"skipped {problem}")
        gated = bool(self.options["rules"] or self.options["junit"])
        for line in self._other_questions:
            # A gate prints what it fails on.
            if not gated or self._allows(line):
                note(line)
        if any(is_of_power(row.metric) for one in tables for row in one.rows):
            for line in idle_in_words(self._unknown_idle()):
                note(line)
        for source in () if gated else self.source:
            if gone := self._unfinished(source):
                count = f"{len(gone)} of {len(self._manifest(source)['cases'])}"
                note(f"{source}: {count} cases have no results (opplab status {source})")
        if self.options["uncertainty"]:
            self._how_sure()
        if self.options["html"]:
            self._report(self.options["html"])
        if gated:
            self._check(tables, self._missing(tables))

    def _is_robots(self) -> bool:
        """Whether the sources are texts of the kernel's test robot; both kinds at once are refused."""
        from opplab.formats.kernel_robot import is_file

        plain = [one for one in self.source if Path(one).is_file()]
        robots = [one for one in plain if is_file(one)]
        if robots and len(robots) < len(self.source):
            other = next(one for one in self.source if one not in robots)
            raise InputError(f"{robots[0]} is a comparison of the kernel robot, {other} is none: compare them apart")
        return bool(robots)

    def _robots(self) -> list[Table]:
        from opplab.comparison import robot

        tables = () if self.table == "detail" else ("table",)
        self._refuse_what_needs_values("a comparison of the kernel robot has none", *tables)
        asked = self._asked()
        names, metric = [name for name, _ in asked], next((one for _, one in asked), self.metric)
        chosen = {"runs": self.options["runs"] or (), "baseline": self.options["baseline"]}
        found = robot.tables(self.source, names, metric, **chosen)
        if not found:
            raise InputError(f"{self.source[0]} has no such test or metric")
        return found

    def _refuse_what_needs_values(self, why: str, *others: str) -> None:
        """Refuse options that concern the values of runs, where tables are given as somebody printed them."""
        plain = {"method": "default", "confidence": CONFIDENCE}
        for name in ("html", "uncertainty", "layout", "method", "report", "summary", "overview_rule", "confidence"):
            if self.options[name] and self.options[name] != plain.get(name):
                others = (*others, name)
        for name in others:
            if self.options[name]:
                raise InputError(f"--{name.replace('_', '-')} needs the values of runs; {why}")

    def _screenful(self, table: Table) -> Table:
        """Give a table without what is beyond a screen; everything where that is asked for, or read by a program."""
        left_out = len(table.rows) - SCREENFUL
        if self.options["everything"] or self.form != "text" or left_out <= 0:
            return table
        more = f"{several(left_out, 'more row')}: --all"
        return replace(table, rows=table.rows[:SCREENFUL], notes=[*table.notes, more])

    @cached_property
    def _experiment(self) -> Experiment:
        """The experiment of the results folder, which runs again with draws."""
        from opplab.sweep.experiments import Experiment

        if len(self.source) != 1 or not self._manifest(self.source[0]):
            raise InputError("--uncertainty is for one results folder of `opplab run`, whose experiment it runs again")
        return Experiment.of_results(self.source[0])

    def _how_sure(self) -> None:
        """Run the draws of a results folder's experiment, and report how sure its changes are."""
        from opplab import results
        from opplab.summary import publish
        from opplab.sweep.progress import progress
        from opplab.uncertainty.sweep import how_sure

        found = results.read(self.source[0])
        asked = [metric for _, metric in self._asked() if metric] or ([self.metric] if self.metric else [])
        with Store(Path(self.source[0]) / "draws") as store:
            sure = how_sure(
                self._experiment,
                found,
                asked or publish.own_metrics(found) or ["energy"],
                self.options["uncertainty"],
                store=store,
                jobs=workers(self.options["jobs"]),
                progress=progress,
            )
        publish.print_sure(sure, self.form)

    def _names(self, runs: list[str]) -> list[str]:
        return order_runs(self.options["runs"] or runs, self.options["baseline"])

    def _asked(self) -> list[tuple[str, str]]:
        """(benchmark, metric) as asked for."""
        pairs = [one.partition(":") for one in self.options["benchmarks"]]
        return [(name, metric or self.metric) for name, _, metric in pairs]

    def _by_mmtests(self) -> bool:
        """The quick way: mmtests' own tables of a result tree."""
        check_layout(self.options["layout"], self.table, self.options["method"])
        if self.options["method"] != "mmtests" or any(
            self.options[name] for name in ("rules", "junit", "html", "uncertainty")
        ):
            return False
        if self.form not in ("text", "html") or self.table in OF_BENCHMARKS:
            return False
        if len(self.source) > 1 or not Path(self.source[0]).is_dir() or not self._asked() or is_run(self.source[0]):
            return False
        asked = self.options["runs"]
        names = self._names([] if asked else runs_of(self.source[0]))
        if not names:
            return False
        for benchmark, metric in self._asked():
            text, skipped = mmtests_table(
                self.source[0],
                names,
                benchmark,
                metric=metric,
                report=self.report,
                table=self.table,
                form=self.form,
                seed=self.options["seed"],
                summary=self.summary,
            )
            self.problems += skipped
            sys.stdout.write(text)
        return True

    def _published(self) -> list[Table]:
        from opplab.comparison import published

        found = []
        for source in self.source:
            tables = published.tables(source.removeprefix("published:"))
            wanted = {name for name, _ in self._asked()}
            found += [table for table in tables if self._wanted(table, wanted)]
        if not found:
            raise InputError(f"{self.source[0]} has no such table ({self.table})")
        return found

    def _wanted(self, table: Table, benchmarks: set[str]) -> bool:
        if self.table in ("overview", "ppw") and table.layout not in ("overview", "grid"):
            return False
        if self.table == "power" and table.layout not in ("power", "listing"):
            return False
        return not benchmarks or any(table.benchmark.startswith(name) for name in benchmarks)

    def _whole(self, tables: list[Table]) -> list[Table]:
        """Give the tables, and those of every metric beside theirs that a run can be better at: what `any` is about."""
        from opplab.comparison.gate import parse
        from opplab.metrics import is_answer

        if not any(rule.takes_all for text in self.options["rules"] for rule in parse(text)):
            return tables
        if not tables or self.metric or not self._has_other_metrics():
            return tables
        named = {name for name, metric in self._asked() if metric}
        shown = {
            (one.machine, row.operation if one.layout == "overview" else one.benchmark, row.metric)
            for one in tables
            for row in one.rows
        }

        def better_at(table: Table, row: Row) -> bool:
            return is_answer(row.metric) or table.benchmark in named

        def beside(table: Table, row: Row) -> bool:
            known = table.benchmark in named or (table.machine, table.benchmark, row.metric) in shown
            return is_answer(row.metric) and not known

        parts = [(tables, better_at), (self._tables(everything=True), beside)]
        return [
            replace(one, rows=[row for row in one.rows if takes(one, row)]) for some, takes in parts for one in some
        ]

    def _every(self) -> list[Table]:
        """Give the tables of every metric, where there are more than those that are compared."""
        if self.metric or not self._has_other_metrics():
            return []
        try:
            return self._tables(everything=True)
        except InputError:
            # What cannot be compared was refused before.
            return []

    def _monitored_power(self, tables: list[Table]) -> list[Table]:
        """Give the table of power where a rule is about it, and only a monitor recorded it."""
        from opplab.comparison.gate import names_of

        known = any(row.metric == "power" for one in tables for row in one.rows)
        if known or "power" not in names_of(self.options["rules"]) or not self._has_other_metrics():
            return []
        try:
            return self._tables(table="power")
        except InputError as error:
            # The rule concerns nothing, then, and fails for that.
            note(str(error))
            return []

    def _has_other_metrics(self) -> bool:
        """Whether the sources may have metrics that the tables do not show."""
        return not (self._is_robots() or self.source[0].startswith("published:"))

    def _tables(self, everything: bool = False, table: str = "") -> list[Table]:
        from opplab.comparison.gate import names_of

        tables = compare(
            self.source,
            **self._chosen(),
            report=self.report,
            table="detail" if everything else table or self.table,
            method=self.options["method"],
            summary=self.summary,
            overview_rule=self.options["overview_rule"],
            seed=self.options["seed"],
            layout="" if everything or table else self.options["layout"],
            everything=everything or self.options["everything"],
            also=names_of(self.options["rules"]),
        )
        self.problems += [] if everything or table else tables.problems
        return tables

    def _report(self, path: str) -> None:
        """Write the page; its numbers are the default method's."""
        from opplab.summary.compared import report

        report(self.source, **self._chosen(), view=self.report).write(path)
        click.echo(f"wrote {path}", err=True)

    def _chosen(self) -> dict[str, Any]:
        """Give what is compared with what, and how sure intervals are."""
        benchmarks = [f"{name}:{metric}" for name, metric in self._asked()]
        own = {name: self.options[name] for name in ("runs", "baseline", "confidence")}
        return {**own, "benchmarks": benchmarks, "metric": self.metric}

    @staticmethod
    def _manifest(source: str) -> dict[str, Any]:
        """Give what a results folder consists of; nothing of another source."""
        return Store(source).manifest() if (Path(source) / "manifest.json").is_file() else {}

    def _unfinished(self, source: str) -> list[str]:
        """Give the labels of a sweep's cases that have no results."""
        return Store(source).unfinished() if self._manifest(source) else []

    def _allows(self, words: str) -> bool:
        """Whether --allow-missing names something in these words."""
        return any(f" {name} " in f" {words} " for name in self.options["allowed"])

    @cached_property
    def _other_questions(self) -> list[str]:
        """Name what is called the same in two results folders, and is other work or runs for another time."""
        from opplab.simulation.cases import measured_time

        first: dict[str, tuple[str, list[Any]]] = {}
        found = []
        for source in self.source:
            for place, question in self._manifest(source).get("questions", {}).items():
                other, before = first.setdefault(place, (source, question))
                if question[1] != before[1]:
                    # Older manifests have no warm-up.
                    then, now = (measured_time([(one[1], sum(one[2:]))]) for one in (before, question))
                    found.append(f"{place} runs for {then} in {other} and {now} in {source}")
                elif question[0] != before[0]:
                    found.append(f"{place} is other work in {source} than in {other}")
        return found

    def _unknown_idle(self) -> list[list[str]]:
        """Give machine, baseline and policy where energies of results folders leave out what idle states draw."""
        return [found for one in self.source for found in self._manifest(one).get("unknown_idle", ())]

    def _missing(self, tables: list[Table]) -> list[str]:
        """What the sources lack as a whole: files that could not be read, cases of a sweep without results."""
        from opplab.comparison.sources import run_name

        allowed = set(self.options["allowed"])
        runs = {run for table in tables for run in table.runs}
        found = []
        # A run that lacks something has empty cells, which the gate sees.
        for problem in (one for one in self.problems if one.path not in runs):
            path = Path(problem.path)
            names = {problem.path, path.name, run_name(path), problem.what.rpartition(" ")[2]}
            if problem.line is None and not names & allowed:
                found.append(str(problem))
        for source in self.source:
            gone = [label for label in self._unfinished(source) if not self._allows(label)]
            if len(gone) > NAMED_MAX:
                others = f"{len(gone) - NAMED_MAX} others (opplab status {source} --format csv)"
                gone = [f"{', '.join(gone[:NAMED_MAX])} and {others}"]
            found += [f"{source}: no results of {label}" for label in gone]
        found += [line for line in self._other_questions if not self._allows(line)]
        return list(dict.fromkeys(found))

    def _check(self, tables: list[Table], missing: list[str]) -> None:
        from opplab.comparison import gate

        if tables and self.table in OF_BENCHMARKS and not self._is_robots():
            # A benchmark is all that it is about, whatever is shown of it.
            tables = tables + self._tables(table="detail")
        tables = tables + self._monitored_power(tables)
        checks = gate.check(
            tables,
            self.options["rules"],
            whole=self._whole(tables),
            allow_missing=self.options["allowed"],
            missing=missing,
            confidence=self.options["confidence"],
            every=self._every,
        )
        self.broken = [one.message for one in checks if one.failed]
        for one in checks:
            if one.forgiven and not one.failed:
                judged = "not judged" if one.skipped else "judged without what is missing"
                note(f"{judged}: {one.message}")
        if self.options["junit"]:
            gate.write_junit(self.options["junit"], checks)

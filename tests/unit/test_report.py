"""The report: self-contained, labelled, and saying what it does not know."""

import dataclasses
import itertools
import json
import math
import re
import statistics
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

import opplab
from opplab.report import svg
from opplab.summary import page as page_of
from opplab.summary import pairs, publish
from opplab.summary.answer import answer_of
from opplab.summary.sure import tornado
from opplab.sweep import confidence

from calls import answered, called


class Page(HTMLParser):
    """Collects what matters; fails on tags that are not closed."""

    VOID = frozenset(("meta", "br", "link", "img"))

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.outside: list[str] = []
        self.ids: list[str] = []
        self.labels: list[str] = []
        self.headings: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        for name in ("src", "href", "srcset", "data"):
            if (value := found.get(name)) and not value.startswith("#"):
                self.outside.append(value)
        if "id" in found:
            self.ids.append(str(found["id"]))
        if tag == "svg":
            self.labels.append(str(found.get("aria-label")))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    experiment = opplab.Experiment.load("juno-eas", iterations=2, seconds=0.2)
    results = experiment.run()
    path: Path = tmp_path_factory.mktemp("report") / "report.html"
    publish.write_report(
        experiment, results, publish.blocks_of(experiment, results), path, None, answer_of(experiment, results)
    )
    return path.read_text()


def test_page_is_self_contained_and_well_formed(page: str) -> None:
    parser = Page()
    parser.feed(page)
    assert parser.open == []
    assert parser.outside == []
    assert "url(" not in page
    assert "@import" not in page
    assert len(page) < 1_000_000
    assert len(parser.ids) == len(set(parser.ids))
    assert parser.headings == [
        "At a glance",
        "Energy against load",
        "Change against the baseline",
        "Every cell",
        "Where the time went",
        "Who ran where",
        "Methods",
    ]
    assert len(parser.labels) == len(set(parser.labels)) == 2 + 2 + 8 + 4
    assert "None" not in parser.labels


def test_page_says_what_it_is(page: str) -> None:
    for fact in ("juno-r2", "5.18", "1 to 2", "0.2 s a case, 72 cases", opplab.__version__):
        assert f"<dd>{fact}</dd>" in page
    for words in ("Student", "published", "They do not cover the error of the model", "its sign is met in"):
        assert words in page
    assert page.count("<tr><td") == 18
    # Published values as they were printed: 6.99 (-11.36), 5.64 (-28.23).
    for value in ("6.99 \u00b1 0.49", "\u221211.36", "5.64 \u00b1 0.05", "\u221228.23"):
        assert value in page
    # Coordinates are numbers.
    assert not re.search(r'="-?(nan|inf)', page)


def test_pairs_take_the_baseline_of_their_driver() -> None:
    experiment = opplab.Experiment.load("juno-eas", iterations=1, seconds=0.1)
    assert experiment.pairs == [("no-EAS", "EAS"), ("CPPC-no-EAS", "CPPC-EAS")]


def test_every_variant_is_compared_where_the_baseline_has_eas_on(tmp_path: Path) -> None:
    """Two drivers and a variant without EAS: a rule for phones dropped it, or made it the baseline of others."""
    variants = ["driver=intel_cpufreq governor=schedutil eas=false", "driver=intel_cpufreq nosmt=true", "hz=1000"]
    file = tmp_path / "three.toml"
    lines = ["format = 1", 'name = "three"', 'machine = "haswell-48x-numa"', 'baseline = "base"', "seed = 1"]
    lines += ["iterations = 1", 'duration = "600ms"', "[[policy]]", 'label = "base"', 'governor = "performance"']
    for label, text in enumerate(variants):
        keys = [
            f"{key} = {value if value in ('true', 'false', '1000') else json.dumps(value)}"
            for key, value in (pair.split("=") for pair in text.split())
        ]
        lines += ["[[policy]]", f'label = "v{label}"', *keys]
    lines += ["[[workload]]", 'label = "w"', 'benchmark = "tbench"', "clients = [1]"]
    file.write_text("\n".join(lines))
    assert opplab.Experiment.load(str(file)).pairs == [("base", "v0"), ("base", "v1"), ("base", "v2")]


@pytest.mark.parametrize(
    ("probability", "freedom", "expected"),
    # Tables of the distribution (NIST/SEMATECH e-Handbook, 1.3.6.7.2), and closed forms for 1 and 2 degrees.
    [
        (0.975, 1, math.tan(math.pi * 0.475)),
        (0.975, 2, 0.95 * math.sqrt(2 / (1 - 0.95**2))),
        (0.975, 4, 2.776445105),
        (0.95, 9, 1.833112933),
        (0.995, 30, 2.749995654),
    ],
)
def test_student_t(probability: float, freedom: int, expected: float) -> None:
    values = [float(number) for number in range(freedom + 1)]
    found = confidence.estimate(values, level=2 * probability - 1)
    assert found.half is not None
    error = statistics.stdev(values) / math.sqrt(len(values))
    assert found.half / error == pytest.approx(expected, rel=1e-8)


def test_paired_interval_uses_the_common_seeds() -> None:
    """A change that is the same in every iteration has a narrow interval, however much the iterations differ."""
    rows = [
        {
            "benchmark": "b",
            "param": "n=1",
            "policy": policy,
            "metric": "energy",
            "unit": "J",
            "iteration": i,
            "seed": i + 1,
            "value": v,
        }
        for policy, factor in (("base", 1.0), ("half", 0.5))
        for i, v in enumerate(factor * value for value in (1.0, 2.0, 4.0))
    ]
    from opplab.results import frame

    (block,) = pairs.pair_blocks(frame(rows), [("base", "half")])
    (line,) = block.lines
    assert line.ratio == pytest.approx(-50)
    assert line.ends == pytest.approx((-50, -50))
    assert line.base.half is not None
    assert line.base.half > 1
    assert line.published_ratio is None
    text = pairs.render(block).plain
    assert "* -50.00%*" in text
    assert "publ." not in text
    assert {len(row) for row in text.splitlines()} == {80}


def test_published_values_keep_what_was_printed() -> None:
    published = opplab.Experiment.load("juno-eas", iterations=1, seconds=0.1).published
    assert published is not None
    mine = published.filter(pl.col("experiment") == "juno-energy-homogeneous")
    found = pairs.find_published(mine, "juno-energy-homogeneous", "EAS", "tasks=10", "J")
    assert found == confidence.Estimate(6.99, 0.49, 0, -11.36)
    assert pairs.find_published(mine, "juno-energy-homogeneous", "EAS", "tasks=11", "J") is None


def test_a_printed_change_is_not_taken_for_one_against_another_baseline() -> None:
    """Text 003 prints CPPC-EAS against CPPC-no-EAS; a copy of the experiment may compare it with no-EAS."""
    published = opplab.Experiment.load("juno-eas", iterations=1, seconds=0.1).published
    assert published is not None
    at = published.filter(pl.col("experiment") == "juno-energy-heterogeneous", pl.col("param") == "tasks=3")
    means = dict(
        at.filter(pl.col("unit") == "J", ~pl.col("metric").str.ends_with(" ci")).select("policy", "value").rows()
    )
    printed = dict(at.filter(pl.col("unit") == "%").select("policy", "value").rows())

    def line(base: str, variant: str) -> float | None:
        old = [pairs.find_published(at, "juno-energy-heterogeneous", one, "tasks=3", "J") for one in (base, variant)]
        one = confidence.Estimate(1.0, None, 1)
        return pairs.Line("3", one, one, None, None, old[0], old[1]).published_ratio

    assert line("CPPC-no-EAS", "CPPC-EAS") == printed["CPPC-EAS"]
    assert line("no-EAS", "CPPC-EAS") == pytest.approx(100 * (means["CPPC-EAS"] / means["no-EAS"] - 1))


def test_published_values_of_another_machine_and_a_changed_copy_are_named(tmp_path: Path) -> None:
    """A copy of a built-in experiment on another machine keeps the name and the published table."""
    text = (Path(opplab.__file__).parent / "data/experiments/juno-eas.toml").read_text()
    copy = tmp_path / "mine.toml"
    copy.write_text(
        re.sub(r"^driver = .*$", "", text.replace('machine = "juno-r2"', 'machine = "pixel4"'), flags=re.MULTILINE)
    )
    words = ["--iterations", "1", "--seconds", "0.05", "-j", "1"]
    for target, other in ((copy, True), ("juno-eas", False)):
        done = answered("run", target, *words, "-o", tmp_path / f"out-{other}")
        page = re.sub("<[^>]*>", "", (tmp_path / f"out-{other}/report.html").read_text())
        shown = " ".join(done.stdout.split())
        assert ("Published values are of juno-r2, beside simulated ones of pixel4." in shown) is other
        assert ("of juno-r2, beside simulated ones of pixel4" in page) is other
        assert "Joules grow with the time of a run: 0.05 s here" in shown
        assert f"opplab run {'mine.toml' if other else 'juno-eas'} --iterations 1" in page


def test_ticks_cover_the_range() -> None:
    for low, high in ((0, 1), (-3.2, 4.7), (0, 43), (1e-6, 2e-6), (-30, -10), (5, 5)):
        marks = svg.ticks(low, high)
        assert marks[0] <= low
        assert marks[-1] >= high
        assert 2 <= len(marks) <= 9
        steps = {round(b - a, 12) for a, b in itertools.pairwise(marks)}
        assert max(steps) - min(steps) < 1e-9 * max(1.0, abs(high))


def _rows(metric: str, unit: str, better: str, param: str, values: dict[str, list[float]]) -> list[dict[str, object]]:
    return [
        {"benchmark": "fio", "param": param, "policy": policy, "metric": metric, "unit": unit, "better": better}
        | {"iteration": iteration, "seed": iteration + 1, "value": value}
        for policy, given in values.items()
        for iteration, value in enumerate(given)
    ]


def test_a_page_of_any_experiment_speaks_of_its_own_metrics() -> None:
    """No energy, no number as load, one iteration that varies nowhere: nothing empty, nothing of juno-eas's words."""
    from opplab.results import frame
    from opplab.summary.page import Report, findings

    table = frame(_rows("iops", "1/s", "higher", "", {"base": [100.0, 102.0], "new": [110.0, 113.0]}))
    blocks = pairs.pair_blocks(table, [("base", "new")], "iops")
    (sentence, *_) = findings(blocks)
    assert sentence.startswith("fio, iops (higher is better), against base: new +10.4")
    page = Report("title", "subtitle", [], table, blocks).to_html()
    for empty in (" at .", "number of <", "energy", "missed, %", "nan", "None"):
        assert empty not in page
    assert ">Iops</h2>" in page
    assert ">load</button>" not in page, "a column without a word"


def test_machines_side_by_side_share_an_axis_that_shows_their_changes() -> None:
    one = [("tasks 1", [svg.Change("fast", "v1", 3.0, 2.0, 4.0, clear=True)])]
    other = [("tasks 1", [svg.Change("fast", "v1", 9.0, 8.0, 10.0, clear=True)])]
    axis = (-1.0, 12.0)
    places = [re.findall(r'<rect x="([\d.]+)"[^>]*class="box"', svg.changes("a", at, "%", axis)) for at in (one, other)]
    zero = 130 + 1 / 13 * (svg.WIDTH - 144)
    assert (float(places[1][0]) + 3.5 - zero) / (float(places[0][0]) + 3.5 - zero) == pytest.approx(3, rel=0.01)
    assert svg.axis_of(one) == pytest.approx((-0.42, 4.2))


def test_names_beside_a_picture_keep_what_tells_them_apart() -> None:
    names = [f"schedutil with the time between two changes, in us, of rate_limit_us={us}" for us in (2000, 20000)]
    changes = [(name, [svg.Change(name, "v0", 1.0, None, None, clear=True)]) for name in names]
    bars = [svg.Bar(name, "v0", [("a", "f0", 100.0)]) for name in names]
    points = [svg.Series("x", "v0", [(0.0, 1.0, None), (1.0, 2.0, None)])]
    pictures = (
        svg.changes("a", changes, "%"),
        svg.stacked("a", [("1", bars)]),
        svg.lines("a", points, "", "J", names=names),
    )
    for picture in pictures:
        shown = re.findall(r"<text[^>]*>([^<]+\u2026[^<]+)<title>", picture)
        assert len(set(shown)) == 2, picture
        assert all(f"<title>{name}</title>" in picture for name in names)


def test_a_name_that_does_not_fit_beside_a_row_stands_whole_above_it() -> None:
    name = "schedutil rate_limit_us=2000"
    changes = [(name, [svg.Change(name, "v0", 1.0, None, None, clear=True)])]
    bars = [svg.Bar(name, "v0", [("a", "f0", 100.0)])]
    cause = {"assumption": name, "rank_correlation": 0.5, "share": 0.5, "p": 0.0}
    for picture in (svg.changes("a", changes, "%"), svg.stacked("a", [("1", bars)]), tornado("a", [cause])):
        marks = re.search(rf'y="([\d.]+)"[^>]*>{name}</text>', picture)
        drawn = re.findall(r'<rect x="[\d.]+" y="([\d.]+)" [^>]*class="(?:box|f\d)"', picture)
        assert marks is not None, picture
        assert float(marks[1]) < float(drawn[0]), picture


def test_numbers_below_an_axis_leave_room_for_each_other() -> None:
    """1 to 256 clients on one axis: the small numbers stand so near that not each is written."""
    series = svg.Series("x", "v0", [(float(2**power), 1.0, None) for power in range(9)])
    picture = svg.lines("a", [series], "clients", "J")
    written = [float(x) for x in re.findall(r'<text x="([\d.]+)" y="273"', picture)]
    assert 4 <= len(written) < 9
    assert min(b - a for a, b in itertools.pairwise(written)) > 12


def test_an_axis_of_values_ends_at_0_though_an_interval_does_not() -> None:
    wide = svg.Series("x", "v0", [(1.0, 200.0, 390.0), (8.0, 3500.0, 10.0)])
    assert "\u2212" not in re.sub("<title>.*?</title>", "", svg.lines("a", [wide], "clients", "MB/s"))
    below = svg.Series("x", "v0", [(1.0, -200.0, 390.0), (8.0, 3500.0, 10.0)])
    assert "\u22121000" in svg.lines("a", [below], "clients", "MB/s")


def test_strips_are_drawn_where_policies_differ() -> None:
    bar = lambda name, share: svg.Bar(name, "v0", [("a", "f0", share), ("b", "f1", 100 - share)])  # noqa: E731
    assert not page_of._differ([bar("x", 40.0), bar("y", 40.3)])
    assert page_of._differ([bar("x", 40.0), bar("y", 41.0)])
    assert page_of._differ([bar("x", 40.0)]), "one policy is not compared"


def test_small_values_keep_their_digits() -> None:
    cell = page_of._estimate_cell(confidence.Estimate(0.08861, 0.00042, 5))
    assert cell["text"] == "0.08861 \u00b1 0.00042"
    # An interval that is below the digits of its mean is not nothing; equal values have none.
    narrow = page_of._estimate_cell(confidence.Estimate(12345.6, 0.0312, 5))
    assert narrow["text"] == "12346 \u00b1 0.03"
    assert page_of._estimate_cell(confidence.Estimate(12345.6, 0.0, 5))["text"] == "12346"


def test_a_few_missed_activations_are_no_alarm() -> None:
    made = opplab.Experiment.load("juno-eas", iterations=2, seconds=0.2)
    blocks = publish.blocks_of(made, made.run())
    line = dataclasses.replace(blocks[0].lines[0], base_missed=0.02, variant_missed=2.5)
    cells = page_of._rows([dataclasses.replace(blocks[0], lines=(line,))], has_published=False, has_missed=True)[0]
    assert [(cell["text"], cell["class"]) for cell in cells[-2:]] == [("0.02", ""), ("2.50", "miss")]


def test_runs_without_variation_have_no_interval() -> None:
    from opplab.results import frame
    from opplab.summary.page import findings

    same = frame(_rows("energy", "J", "lower", "n=1", {"base": [2.0, 2.0], "new": [1.5, 1.5]}))
    blocks = pairs.pair_blocks(same, [("base", "new")])
    text = pairs.render(blocks[0]).plain
    assert "0.00" not in text
    assert "none" in text
    assert "nothing varies between seeds, so there are no intervals" in " ".join(findings(blocks))
    chance = frame(_rows("energy", "J", "lower", "n=1", {"base": [2.0, 2.1, 2.2], "new": [2.3, 1.9, 2.2]}))
    (first, *_) = findings(pairs.pair_blocks(chance, [("base", "new")]))
    assert "nothing clear" in first


def test_many_clocks_have_a_continuous_scale() -> None:
    """32 points: as many colours as the scale has, in the order of frequency, and one key that tells its ends."""
    from opplab.results import frame
    from opplab.summary.page import SHADES, STEPS, Means, residency_panels

    def rows(khz: list[int]) -> pl.DataFrame:
        of = {"benchmark": "b", "param": "n=1", "policy": "p", "unit": "", "better": "", "iteration": 0, "seed": 1}
        return frame([of | {"metric": f"freq_residency:big@{one}", "value": 100 / len(khz)} for one in khz])

    many = [800_000 + 100_000 * step for step in range(32)]
    ((keys, panels),) = residency_panels(Means(rows(many)), {"p": "v0"})
    assert keys == [("big 800 to 3900 MHz", "scale")]
    found = re.findall(r'class="(?:[^"]* )?c(\d+)(?: [^"]*)?"', panels[0][1])
    numbers = [int(number) for number in found]
    assert numbers == sorted(numbers)
    assert (numbers[0], numbers[-1], len(set(numbers))) == (0, STEPS - 1, STEPS)
    assert "3900 MHz" in panels[0][1], "each bar tells its own clock"
    # A gap between clocks is a gap between colours.
    ((_, gap),) = residency_panels(Means(rows([*range(100_000, 106_000, 1000), 200_000])), {"p": "v0"})
    assert set(re.findall(r"\bc(\d+)\b", gap[0][1])) == {"0", "1", "20"}
    ((few, _),) = residency_panels(Means(rows(many[:SHADES])), {"p": "v0"})
    assert len(few) == SHADES


def test_the_command_of_a_report_makes_the_same_results_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it stands in the report: of a built-in experiment, and of an ad hoc run from its folder."""
    (tmp_path / "load.json").write_text(
        '{"tasks": {"t": {"loop": -1, "run": 2000, "timer": {"ref": "u", "period": 16000}}},'
        ' "global": {"duration": 1, "calibration": "CPU0"}}'
    )
    monkeypatch.chdir(tmp_path)
    ad_hoc = ["run", "load.json", "-m", "juno-r2", "--governor", "schedutil,performance", "--seconds", "0.2"]
    for words in (["run", "juno-eas", "--iterations", "1", "--seconds", "0.05"], [*ad_hoc, "--iterations", "2"]):
        monkeypatch.chdir(tmp_path)
        folder = tmp_path / words[1].partition(".")[0]
        answered(*words, "-j", "1", "-o", folder)
        made = re.search(
            r"made by</dt><dd>opplab ([^<]*) -o OUT</dd>",
            re.sub("</?span[^>]*>", "", (folder / "report.html").read_text()),
        )
        assert made is not None
        monkeypatch.chdir(folder)
        answered(*made[1].split(), "-j", "1", "-o", "again")
        assert (folder / "again/results.parquet").read_bytes() == (folder / "results.parquet").read_bytes()


def test_long_runs_are_not_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second of tbench with 64 clients wrote 2.5 GB of traces and a page of 260 MB."""
    load = {"tasks": {"t": {"instance": 4, "loop": -1, "run": 2000, "timer": {"ref": "u", "period": 16000}}}}
    (tmp_path / "load.json").write_text(json.dumps(load))
    words = ["run", str(tmp_path / "load.json"), "-m", "juno-r2", "--governor", "schedutil,performance"]
    words += ["--seconds", "0.3", "--iterations", "1", "-o"]
    monkeypatch.setattr("opplab.summary.publish.EVENTS_MAX", 10)
    done = answered(*words, tmp_path / "long")
    assert "2 runs of over 10 events are not drawn" in done.stderr
    assert not (tmp_path / "long" / "traces").exists()
    assert "tasks on CPUs" not in (tmp_path / "long" / "report.html").read_text()
    done = called(*words, tmp_path / "asked", "--traces")
    assert len(list((tmp_path / "asked" / "traces").iterdir())) == 2
    monkeypatch.setattr("opplab.summary.publish.EVENTS_MAX", 10**6)
    monkeypatch.setattr("opplab.summary.timelines.SLICES_MAX", 5)
    done = called(*words, tmp_path / "busy")
    page = (tmp_path / "busy" / "report.html").read_text()
    assert "tasks on CPUs" in page
    assert page.count(" us from ") <= 2 * 6


def test_where_nothing_is_due_nothing_is_missed() -> None:
    """A report of hackbench had "Missed activations: none.", and its table "mean of 1 iterations"."""
    from opplab.results import frame
    from opplab.summary.page import findings

    def results(activations: float, iterations: int) -> pl.DataFrame:
        names = [("energy", "J", 2.0), ("activations", "1", activations), ("missed_activations", "%", 0.0)]
        runs = [(name, unit, dict.fromkeys(("a", "b"), [value] * iterations)) for name, unit, value in names]
        many = [_rows(name, unit, "lower", "n=1", values) for name, unit, values in runs]
        return frame([row for rows in many for row in rows])

    for activations, missed in ((0.0, None), (5.0, 0.0)):
        (block,) = pairs.pair_blocks(results(activations, 2), [("a", "b")])
        (line,) = block.lines
        assert (line.base_missed, line.variant_missed) == (missed, missed)
        assert ("Missed activations: none." in findings([block])) == (missed is not None)
    made = opplab.Experiment.load("juno-hackbench")
    for iterations, words in ((1, "one iteration; changes"), (2, "mean of 2 iterations; changes")):
        assert publish.legend(made, results(0.0, iterations), measured=True).startswith(words)

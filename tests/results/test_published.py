"""The published tables in the texts' own layout, and what does not add up in them."""

import re

import pytest

from opplab.comparison import published
from opplab.comparison.tables import FORMATS, render

from calls import answered, called
from testdata import shared


def squeeze(line):
    """A line as the copies of the texts have it: blanks folded, dashes of any length alike."""
    line = line.replace("\xa0", " ").replace("\xc2", " ").replace("\\_", "_")
    line = re.sub(r"^[> ]+", "", line)
    line = re.sub(r"-{2,}", "--", line)
    # Blanks around a box's or a cell's edge do not count.
    line = re.sub(r"\s*([|()])\s*", r"\1", line)
    return " ".join(line.split())


def text_of(seed):
    files = sorted(shared("seeds").glob(f"{seed}_*.txt"))
    assert files, seed
    return [squeeze(line) for line in files[0].read_bytes().decode("utf-8", "replace").splitlines()]


def ruled(line):
    return not line.strip(" -")


@pytest.mark.parametrize("seed", published.SEEDS)
def test_every_line_of_every_table_is_in_the_text(seed):
    text = set(text_of(seed))
    missing = []
    for table in published.tables(seed):
        lines = str(table).splitlines()
        for line in lines:
            if line.startswith(("method:", "note:")) or ruled(line) or line.endswith("SIZE"):
                continue
            if squeeze(line) not in text:
                missing.append(line)
    # Heads that the text words differently: captions that it sets as headings, and columns that it does not head.
    allowed = {
        "001": ["Single socket", "Two-socket", "v4.17"],
        "002": ["BENCHMARK", "5.0.0 vanilla", " on ", "is better"],
    }.get(seed, [])
    missing = [line for line in missing if not any(part in line for part in allowed)]
    assert missing == []


def test_every_table_line_of_the_text_is_printed():
    """The other direction: no line of numbers of a text's tables is lost."""
    expect = {
        "000": r"^(Hmean|SubAmean|Amean|tbench|dbench|kernbench|gitsource)4? [0-9]",
        "001": r"^(Min|Hmean|Stddev|CoeffVar|Max|BHmean-\d+) Trans|^Amean \d",
        "002": r"^(\d+|elps-\d+|Elapsed|[a-z-]+) [0-9.]+ (±|[0-9.]+ [0-9.]+ [0-9.]+ )",
        "003": r"^\|[0-9].*\|$",
        "004": r"^([0-9f]+ \d{4}|\d+\.\d mW \{.*)$",
    }
    for seed, pattern in expect.items():
        printed = {squeeze(line) for table in published.tables(seed) for line in str(table).splitlines()}
        wanted = [line for line in text_of(seed) if re.match(pattern, line)]
        assert len(wanted) > 4, seed
        assert [line for line in wanted if line not in printed] == [], seed


def test_known_disagreements_are_found_and_nothing_else():
    found = {seed: published.check(seed) for seed in published.SEEDS}
    assert found["001"] == [] and found["004"] == []
    assert [(one.printed, round(one.computed, 2)) for one in found["003"]] == [(-2.0, -2.32)]
    assert {one.where for one in found["002"]} == {
        "overview kernbench haswell-48x-numa turbo-all-cores",
        "overview kernbench haswell-48x-numa turbo-all-cores-vincent",
        "overview kernbench haswell-48x-numa turbo-1-core",
    }
    tildes = {one.where: round(one.computed, 3) for one in found["000"] if "(~)" in one.where}
    assert tildes == {
        "overview kernbench sugov-max (~)": 0.983,
        "overview kernbench sugov-mid (~)": 0.978,
        "overview gitsource sugov-mid (~)": 0.977,
    }
    rounded = {one.where: round(one.computed, 3) for one in found["000"] if "(~)" not in one.where}
    assert rounded == {
        "performance per watt gitsource perfgov": 1.447,
        "performance per watt gitsource sugov-P0": 1.044,
        "performance per watt gitsource sugov-max": 1.034,
        "performance per watt tbench sugov-mid": 0.871,
    }


def test_a_changed_number_is_found(monkeypatch, tmp_path):
    for file in published.FOLDER.glob("001_*.csv"):
        (tmp_path / file.name).write_text(file.read_text().replace("5401.58", "5501.58"))
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    published.cells.cache_clear()
    try:
        (finding,) = published.check("001")
        assert "109.29" in str(finding) and "Min" not in finding.table
    finally:
        published.cells.cache_clear()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("seed", published.SEEDS)
def test_every_table_has_every_format(seed, form):
    for table in published.tables(seed):
        assert render(table, form).endswith("\n")


def test_published_tables_from_the_command_line():
    result = answered("compare", "published:000", "--table", "overview")
    assert "gitsource" in result.output and "~ hides ratios within 2.5 %" in result.output
    assert "printed 1, the details give 0.977" in result.output


@pytest.mark.parametrize(
    "words",
    [
        ["--runs", "nobody"],
        ["--baseline", "nobody"],
        ["--metric", "nothing"],
        ["--layout", "nonsense"],
        ["--method", "mmtests"],
        ["--table", "significance"],
        ["--confidence", "0.9"],
        ["--overview-rule"],
    ],
)
def test_what_needs_values_is_refused_for_printed_tables(words):
    result = called("compare", "published:000", *words)
    assert result.exit_code != 0
    assert f"{words[0]} needs the values of runs; published tables" in str(result.exception)

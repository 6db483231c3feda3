"""The reference of the command line is whole, and the same words mean the same everywhere."""

import shutil
import subprocess
from pathlib import Path

import click
import pytest
from option_table import COMMON, option_rows

from opplab import _opplab
from opplab.cli.list import KINDS, rows_of
from opplab.cli.main import COMMANDS, opplab
from opplab.cli.reference import main, man_page, markdown, pages

PAGES = pages()


def test_every_command_has_a_page() -> None:
    names = {page.name for page in PAGES}
    context = click.Context(opplab)
    for name in COMMANDS:
        command = opplab.get_command(context, name)
        if isinstance(command, click.Group):
            assert {f"opplab {name} {sub}" for sub in command.list_commands(context)} <= names
    assert {"opplab host show", "opplab host govern"} <= names
    for page in PAGES:
        assert page.text, page.name
        for option, text in page.options:
            assert text, f"{page.name} {option} says nothing"


def test_the_table_of_options_has_no_holes() -> None:
    rows = option_rows(PAGES)
    assert len(rows) > 20
    holes = [f"{row['command']}: {option}" for row in rows for option in COMMON if row[option] == "HOLE"]
    assert not holes


def test_an_option_is_written_one_way() -> None:
    """Whoever has ``--jobs`` has ``-j``, and so on; crate host's own parser has the same words."""
    for page in PAGES:
        written = " ".join(names for names, _ in page.options)
        for short, long in (("-m", "--machine"), ("-w", "--workload"), ("-j", "--jobs"), ("-o", "--output")):
            if long in written and not page.name.startswith("opplab host"):
                assert f"{short}, {long}" in written, page.name
        assert "--em " not in written and "--jobs INTEGER" not in written.replace("-j, --jobs INTEGER", "")


def test_man_pages(tmp_path: Path) -> None:
    main(["man", str(tmp_path)])
    assert len(list(tmp_path.glob("*.1"))) == len(PAGES)
    page = (tmp_path / "opplab-trace-view.1").read_text()
    assert page.startswith('.TH "OPPLAB-TRACE-VIEW" "1"')
    assert ".SH OPTIONS" in page and "\\-\\-machine" in page
    if shutil.which("man") and shutil.which("groff"):
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww", str(tmp_path / "opplab-run.1")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0 and not done.stderr, done.stderr
    assert "opplab explain" in man_page(PAGES[0], PAGES[1:])
    assert "## opplab replay" in markdown(PAGES)


@pytest.mark.parametrize("kind", KINDS)
def test_lists_say_what_things_are(kind: str) -> None:
    rows = rows_of(kind)
    assert rows
    assert all(row.keys() == rows[0].keys() for row in rows)
    if kind in ("policy-keys", "gates", "tunables", "parameters", "metrics"):
        assert all(row["about"] for row in rows)


def test_metrics_are_those_of_runs(small_case: _opplab.Case) -> None:
    from opplab.metrics import find, is_answer
    from opplab.simulation.cases import Case
    from opplab.simulation.cases import rows_of as rows_of_case

    measured = {row["metric"]: row for row in rows_of_case(Case.of(small_case), small_case.run(False))}
    for name, row in measured.items():
        declared = find(name)
        assert declared is not None
        assert (declared.unit, declared.better) == (row["unit"], row["better"]), name
    # A part is in its whole: whoever adds up or averages takes the answers only.
    for whole in ("energy", "power"):
        parts = [name for name in measured if name.startswith(f"{whole}:")]
        assert is_answer(whole)
        assert len(parts) > 1
        assert not any(map(is_answer, parts))
        clusters = sum(measured[name]["value"] for name in parts if name != f"{whole}:rest")
        assert clusters == pytest.approx(measured[whole]["value"])


def test_a_heading_between_options_is_no_text_of_an_option() -> None:
    """`host compare` groups its options: "Design:", "Measures:" and "Results:" are headings, not help."""
    compare = next(page for page in pages() if page.name == "opplab host compare")
    assert not [text for _, text in compare.options if text.endswith(":")]
    assert dict(compare.options)["--seed N"] == "seed of the random order (1)"

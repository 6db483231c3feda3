"""The worked example of the documentation does what it says."""

import re
import runpy
from pathlib import Path

import polars as pl
import pytest

EXAMPLE = Path(__file__).parents[2] / "docs" / "example.py"


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("example"))
        Path("out").mkdir()
        found = runpy.run_path(str(EXAMPLE))
        found["files"] = sorted(path.name for path in Path("out").iterdir())
        return found


def test_it_runs_and_shows(names: dict[str, object]) -> None:
    """Every cell's last expression has a form for notebooks."""
    text = EXAMPLE.read_text()
    last = [cell.strip().splitlines()[-1] for cell in re.split(r"^# %%.*$", text, flags=re.MULTILINE)[2:]]
    for name in ("results", "tables", "savings", "page"):
        assert name in last
        html = names[name]._repr_html_()  # type: ignore[attr-defined]
        assert "<" in html
        assert len(html) > 200
    assert names["files"] == ["example", "example.html"]


def test_what_it_finds(names: dict[str, object]) -> None:
    savings, results = names["savings"], names["results"]
    assert isinstance(savings, pl.DataFrame)
    assert isinstance(results, pl.DataFrame)
    assert savings.height > 0
    counts = results.group_by("benchmark", "param").agg(pl.col("iteration").n_unique())["iteration"]
    assert counts.min() >= 5
    assert counts.max() <= 8

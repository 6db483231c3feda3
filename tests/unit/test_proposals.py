"""The page of proposals shows what the engine computes, and energies that nobody knows are not given."""

from __future__ import annotations

from pathlib import Path

from lab.studies import pages, proposals

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_what_the_study_makes() -> None:
    assert pages.main("proposals", "", proposals.texts, ["--docs", str(DOCS), "--check"]) == 0

"""The given data that tests read in place: the folder `shared` beside the repository."""

import os
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


def without_policy(trace: Path) -> None:
    """Take a run's policy out of its trace, so that it states no more than a kernel's."""
    events = trace.read_bytes()
    assert events.count(b"opplab: policy {") == 1
    trace.write_bytes(events.replace(b"opplab: policy {", b"another program{"))


def shared(path: str = "") -> Path:
    """Give what is at `path` of the folder `shared`; without it skip the test, or fail under OPPLAB_REQUIRE_SHARED."""
    found = SHARED / path
    if not found.exists():
        absent = f"no ../shared/{path} beside the repository"
        if os.environ.get("OPPLAB_REQUIRE_SHARED", "0") not in {"", "0"}:
            pytest.fail(f"{absent}, and OPPLAB_REQUIRE_SHARED is set", pytrace=False)
        pytest.skip(absent)
    return found

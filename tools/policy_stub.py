"""The types of `Policy` from the keys: ``python tools/policy_stub.py`` writes ``policy.pyi``."""

from pathlib import Path

from opplab.simulation import policy
from opplab.simulation.policy import keys

PLACE = Path(policy.__file__).with_suffix(".pyi")


def text() -> str:
    """Give the stub."""
    fields = [f"    {name}: {kind} = ...\n" for name, kind, _, _ in keys()]
    return (
        "# Written by `python tools/policy_stub.py`.\n"
        "from collections.abc import Iterable, Iterator, Mapping\n"
        "from dataclasses import dataclass\n"
        "from typing import Any\n\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        f"class Policy:\n{''.join(fields)}\n"
        "    def _toml(self) -> str: ...\n\n"
        "def keys() -> Iterator[tuple[str, str, Any, str]]: ...\n"
        "def check_keys(given: Iterable[str]) -> None: ...\n"
    )


if __name__ == "__main__":
    PLACE.write_text(text(), encoding="utf-8")

"""The types of `Policy` from the keys: ``python -m opplab.simulation.policy_stub`` writes ``policy.pyi``."""

from pathlib import Path

from opplab.simulation.policy import keys

PLACE = Path(__file__).with_name("policy.pyi")


def text() -> str:
    """Give the stub."""
    fields = [f"    {name}: {kind} = ...\n" for name, kind, _, _ in keys()]
    return (
        "# Written by `python -m opplab.simulation.policy_stub`.\n"
        "from collections.abc import Iterable, Iterator, Mapping\n"
        "from dataclasses import dataclass\n"
        "from typing import Any\n\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        f"class Policy:\n{''.join(fields)}\n"
        "    def _toml(self) -> str: ...\n\n"
        "def keys() -> Iterator[tuple[str, str, Any, str]]: ...\n"
        "def toml_value(value: Any) -> str: ...\n"
        "def check_keys(given: Iterable[str]) -> None: ...\n"
    )


if __name__ == "__main__":
    PLACE.write_text(text(), encoding="utf-8")

"""Logs of which one word of each matching line counts: ``benchlog-FACTORA-FACTORB[-ITERATION]``."""

from __future__ import annotations

from opplab.mmtests._time import leading_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from opplab.mmtests.registry import Row
    from opplab.mmtests.tree import Logs


def parse_lines(logs: Logs, prefix: str, metric: str, column: int) -> Iterator[Row]:
    """Rows of the `column`-th word (from 0) of the lines that begin with `prefix`.

    When ``benchlog-A-B`` and ``benchlog-A-B-1`` both exist, only the first counts, as in mmtests.
    """
    factors: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for name in logs.names("benchlog-"):
        words = name.split("-")
        if len(words) >= 3:
            factors.setdefault((words[1], words[2]), []).append(
                (leading_number(words[3]) if len(words) > 3 else 0.0, name)
            )
    numeric = all(factor.isdigit() for factor, _ in factors)
    in_order = sorted(
        factors,
        key=lambda pair: (leading_number(pair[0]) if numeric else 0.0, pair[0], leading_number(pair[1]), pair[1]),
    )
    for factor_a, factor_b in in_order:
        plain = f"benchlog-{factor_a}-{factor_b}"
        for _, name in [(0.0, plain)] if plain in logs.files else sorted(factors[factor_a, factor_b]):
            found = False
            for number, line in enumerate(logs.lines(name), 1):
                if not line.startswith(prefix):
                    continue
                try:
                    value = float(line.split()[column])
                except (IndexError, ValueError):
                    logs.skip(name, "line without a value", number)
                    continue
                found = True
                yield metric, factor_a, factor_b, value, False
            if not found and logs.sound(name):
                logs.skip(name, f"no line that begins with '{prefix}'")

"""GNU time's default output, ``time-FACTOR-ITERATION``: shared by kernbench, gitsource, NAS and pgbench's exec time.

A file holds ``646.00user 76.00system 6:17.86elapsed 190%CPU ...``; of other lines only
those count that report that the command failed: its times are left out, but where mmtests is followed to the letter.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from opplab.mmtests.registry import Row
    from opplab.mmtests.tree import Logs

UNITS = {"": "seconds"}
_FAILED = ("Command exited with non-zero status", "Command terminated by signal")


def parse_time(logs: Logs, exclude: tuple[str, ...] = ()) -> Iterator[Row]:
    """Rows of Elapsed, System and User, by factor then iteration, in mmtests' order."""
    rows: list[tuple[str, tuple[float, int, str], str, float]] = []
    for name in logs.names("time-"):
        _, _, rest = name.partition("-")
        factor, dash, iteration = rest.rpartition("-")
        if not dash or not iteration.isdigit():
            continue
        text = logs.read(name)
        failed = next((line.strip() for line in text.splitlines() if line.startswith(_FAILED)), "")
        if failed and not logs.literal:
            logs.skip(name, f"{failed}: its times are left out")
            continue
        times = _times(text)
        if times is None:
            if logs.sound(name):
                logs.skip(name, "no line with user, system and elapsed time")
            continue
        key = (leading_number(factor), int(iteration), factor)
        for metric, value in zip(("User", "System", "Elapsed"), times, strict=True):
            if metric not in exclude:
                rows.append((metric, key, factor, value))
    rows.sort(key=lambda row: row[:2])
    for metric, _, factor, value in rows:
        yield metric, factor, "_", value, False


def _times(text: str) -> tuple[float, float, float] | None:
    """``(user, system, elapsed)`` in seconds of the last line that has all three, or None."""
    times = None
    for line in text.splitlines():
        if "elapsed" not in line:
            continue
        user = system = elapsed = None
        try:
            for word in line.split():
                if word.endswith("user"):
                    user = float(word[:-4])
                elif word.endswith("system"):
                    system = float(word[:-6])
                elif word.endswith("elapsed"):
                    elapsed = seconds(word[:-7])
        except ValueError:
            continue
        if user is not None and system is not None and elapsed is not None:
            times = (user, system, elapsed)
    return times


def seconds(text: str) -> float:
    """``[[h:]m:]s`` in seconds, with the six significant digits that mmtests keeps (awk's default output format)."""
    total = 0.0
    for part in text.split(":"):
        total = total * 60 + float(part)
    return total if total.is_integer() else float(f"{total:.6g}")


def leading_number(text: str) -> float:
    """The number that `sort -n` sees at the start of a text, 0 when there is none."""
    end = 0
    seen_point = False
    for char in text:
        if char == "." and not seen_point:
            seen_point = True
        elif not (char.isdigit() or (char == "-" and end == 0)):
            break
        end += 1
    try:
        return float(text[:end])
    except ValueError:
        return 0.0

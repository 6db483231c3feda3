r"""Comparison texts of the kernel's test robot (0-day, lkp-tests' ``compare``), alone or within a mail.

A report is one section of such a text: what was run where, the commits, and a row a metric with the base's mean, and
for each other commit the change and its mean::

    cpufreq_governor/nr_threads/tbox_group/testcase:
      performance/100%/lkp-a-box/hackbench

    commit:
      v6.1
      0123456789 ("sched: some patch")

                v6.1 0123456789abcdef01234567890
    ---------------- ---------------------------
             %stddev     %change         %stddev
                 \          |                \
        123456 ±  2%      -7.9%     113675 ±  3%  hackbench.throughput

Means that are not per cent themselves change by ``-7.9%``; what is a percentage changes by points, ``-7.9``. The
deviation is a percentage of the mean, and absent below 2 %. Rows under ``fail:runs`` count the runs that failed with a
message (``5:6``; ``:6`` for none). A mail's quoting, encoding, plots and boxes are passed
over. A line within a table that is no row is refused with its number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opplab.errors import InputError
from opplab.files import check_size

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_VALUE = rf"(?P<value>{_NUMBER}|nan)(?:\s*(?:±|\+/?-)\s*(?P<spread>-?\d+(?:\.\d+)?|nan)\s?%)?(?=\s|$)"
_CHANGE = rf"(?P<change>[-+](?:{_NUMBER.removeprefix('[-+]?')}|[Ii]nf|nan)|0(?:\.0+)?)(?P<percent>%?)(?=\s)"
_FIRST = re.compile(rf"\s*{_VALUE}")
_NEXT = re.compile(rf"\s+{_CHANGE}\s+{_VALUE}")
_FAILS = re.compile(r"\s*\d*:\d+\s+(?:[-+]?\d+(?:\.\d+)?%\s+\d*:\d+\s+)+(?P<name>\S.*)")
_RUNS = re.compile(r"(?:(?P<change>[-+]?\d+(?:\.\d+)?%)\s+)?(?P<fails>\d*):(?P<runs>\d+)(?=\s)")
_QUOTE = re.compile(r"^(?:[>|]\s?)+(?![-+])")
_DASHES = re.compile(r"\s*-{6,}(?:\s+-{6,})+\s*$")
_PLOT = re.compile(r"\s*(?:\d[\d.e+]*)?\s*[|+](?:[-+|]|\s|$|[.*O])")
_HEADS = re.compile(r"(?:%stddev|%change|fail:runs|%reproduction|\\|\||/)(?:\s|$)")
_AXES = re.compile(r"(?P<keys>[\w.-]+(?:/[\w.-]+)+):\s*(?P<values>.*)$")
_COMMIT = re.compile(r"\s*(?P<name>[\w./+~^-]+)(?:\s+\((?P<subject>.*))?$")
_ELIDED = re.compile(r"\s*(?:\[?\.{3}\]?|\[(?:snip|…)\]|…)\s*$")
_MAIL_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]*:[ \t]|From \S")
_MACHINE = re.compile(r"(?:^\|?\s*(?:on )?test machine:|^[\w-]+:(?= \d+ threads ))\s*(?P<words>.*\S)")


# What lkp-tests runs beside each test.
_MONITORS = re.compile(
    r"boot-time|cpuidle|diskstats|dmesg|interrupts|iostat|kmsg|latency_stats|(?:numa-|proc-)?(?:mem|vm)(?:info|stat)|"
    r"mpstat|numa-numastat|perf-(?:c2c|profile|sched|stat)|pmeter|power|sched_debug|slabinfo|softirqs|turbostat|uptime"
)

# As much of a file is looked at to find out whether it is one.
_HEAD = 1_000_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One commit's mean of a metric."""

    value: float
    spread: float | None
    """Standard deviation in percent of the mean; None where the text prints none."""
    change: float | None
    """Against the base, in percent, or in points where `is_points`; None for the base."""
    is_points: bool
    text: str
    change_text: str
    """`text` and `change_text`: as printed."""


@dataclass(frozen=True, slots=True)
class Row:
    """A metric: an entry a commit, None where the text has none."""

    metric: str
    entries: tuple[Entry | None, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Failure:
    """How many runs of each commit failed with one message, of how many runs, and the changes as printed."""

    name: str
    runs: tuple[tuple[int, int], ...]
    changes: tuple[str, ...]
    line: int = field(default=0, compare=False)


@dataclass(slots=True)
class Report:
    """One comparison: what was run (`axes`), on which commits, and what came of it."""

    axes: dict[str, str] = field(default_factory=dict)
    """``testcase``, ``tbox_group``, ``cpufreq_governor`` and the test's own parameters, as the text names them."""
    path: str = ""
    """The same as one text, as printed."""
    commits: list[str] = field(default_factory=list)
    subjects: list[str] = field(default_factory=list)
    """`commits` and `subjects`: the base is the first."""
    rows: list[Row] = field(default_factory=list)
    runs: int | None = None
    """Runs of the base, as ``fail:runs`` counts them."""
    failures: list[Failure] = field(default_factory=list)
    """Rows of ``fail:runs``."""
    machine: str = ""
    """The mail's words for the test machine."""
    line: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def testcase(self) -> str:
        """Name of the test; where no line of parameters has it, that of the first metric which is no monitor's."""
        names = [row.metric.partition(".")[0] for row in self.rows]
        return self.axes.get("testcase") or next(
            (one for one in names if not _MONITORS.fullmatch(one)), (names or [""])[0]
        )


def is_report(text: str) -> bool:
    """Whether a text has such a table: the heads ``%change``, or commits over dashes and rows with a change."""
    lines = [_bare(line)[0] for line in _decoded(text[:_HEAD]).splitlines()]
    if not any(_DASHES.match(line) for line in lines):
        return False
    return any(
        line.strip() == "commit:" or {"%change", "%stddev", "%reproduction"} & set(line.split()) for line in lines
    )


def is_file(path: str | Path) -> bool:
    """Whether a file is a text with such a table."""
    place = Path(path)
    if place.suffix in (".parquet", ".csv", ".json", ".gz", ".xz"):
        return False
    check_size(place, "a comparison of the kernel robot")
    with place.open("rb") as stream:
        raw = stream.read(_HEAD)
    return (b"---" in raw or b"base64" in raw) and b"\0" not in raw and is_report(_text_of(raw))


def read_file(path: str | Path) -> list[Report]:
    """Read all reports of a file.

    Raises
    ------
    InputError
        If a line of a table is not understood, or the file has no table.
    """
    place = Path(path)
    check_size(place, "a comparison of the kernel robot")
    return parse(_text_of(place.read_bytes()), str(place))


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _decoded(text: str) -> str:
    """Give the text of a mail, whatever its transfer encoding; other texts as they are."""
    head, _, _ = text.partition("\n\n")
    if _MAIL_HEADER.match(text) and re.search(r"^content-transfer-encoding:", text, re.IGNORECASE | re.MULTILINE):
        import email
        import email.policy

        mail = email.message_from_string(text, policy=email.policy.compat32)
        parts = [part for part in mail.walk() if part.get_content_type() == "text/plain"]
        bodies = []
        for part in parts:
            payload = part.get_payload(decode=True)
            if isinstance(payload, bytes):
                encoding = str(part.get("Content-Transfer-Encoding", "")).strip().lower()
                # What was never encoded went through the parser as text, and comes back escaped.
                body = payload if encoding in ("quoted-printable", "base64") else None
                bodies.append(str(part.get_payload()) if body is None else _text_of(body))
        if bodies:
            # Places are those of the decoded text; headers keep their lines where nothing was encoded.
            text = "\n" * (head.count("\n") + 2) + "\n".join(bodies)
    elif "=C2=B1" in text:
        import quopri

        text = quopri.decodestring(text.encode()).decode("utf-8", errors="replace")
    for wrong in ("Â±", "\u00c2\u00b1", "\ufffd\ufffd", "\ufffd"):
        text = text.replace(wrong, "±")
    return text.replace("\u00a0", " ").replace("\u202f", " ").replace("\ufeff", "")


def _text_of(payload: bytes) -> str:
    """Give bytes as text: UTF-8, or Latin-1 where that they are not."""
    payload = payload.replace(b"\r\n", b"\n")
    return payload.decode("utf-8") if _is_utf8(payload) else payload.decode("latin-1")


def _bare(line: str) -> tuple[str, int]:
    """Give a line without a mail's quoting, and how deep that is."""
    found = _QUOTE.match(line) if line[:1] == ">" else None
    depth = found.group().count(">") if found else 0
    return (line[found.end() :] if found else line).expandtabs(8).rstrip(), depth


class _Lines:
    """Lines without quoting, with their numbers."""

    def __init__(self, text: str) -> None:
        self._all = [_bare(line) for line in text.split("\n")]
        self.at = 0

    def __bool__(self) -> bool:
        return self.at < len(self._all)

    def peek(self, ahead: int = 0) -> str:
        place = self.at + ahead
        return self._all[place][0] if place < len(self._all) else ""

    def depth(self) -> int:
        return self._all[self.at][1] if self.at < len(self._all) else 0

    def skip_blank(self) -> None:
        while self and not self.peek():
            self.at += 1


def parse(text: str, file: str = "text") -> list[Report]:
    """Read all reports of a text.

    Parameters
    ----------
    file : str
        What errors call it.

    Raises
    ------
    InputError
        If a line of a table is not understood, or the text has no table.
    """
    lines = _Lines(_decoded(text))
    found: list[Report] = []
    machine = ""
    axes: dict[str, str] = {}
    path = ""
    commits: list[tuple[str, str]] = []
    noted: list[str] = []
    while lines:
        line = lines.peek()
        if told := _MACHINE.search(line):
            machine = told["words"]
        named = _AXES.fullmatch(line.strip())
        # Columns are commits, or another dimension of the comparison, such as governors.
        if re.fullmatch(r"\s*[a-z_]+:?", line) and (
            line.strip().rstrip(":") == "commit" or line.rstrip().endswith(":")
        ):
            lines.at += 1
            commits = list(_commits(lines))
            continue
        if named and ("testcase" in named["keys"].split("/") or "tbox_group" in named["keys"].split("/")):
            axes, path, noted = _axes_of(lines, named)
            commits = []
            continue
        if _DASHES.match(line):
            before = next((lines.peek(-back) for back in (1, 2) if lines.at >= back and lines.peek(-back)), "")
            heads = before.split()
            columns = len(line.split())
            if len(heads) != columns and len(commits) != columns:
                # A rule of some other table.
                lines.at += 1
                continue
            names = [name for name, _ in commits] if len(commits) == columns else heads
            subjects = [subject for _, subject in commits] if len(commits) == columns else [""] * columns
            report = Report(axes, path, names, subjects, machine=machine, line=lines.at + 1, notes=list(noted))
            lines.at += 1
            _table(lines, report, [match.end() for match in re.finditer(r"-+", line)], file)
            if report.rows or report.failures:
                found.append(report)
            continue
        lines.at += 1
    if not found:
        raise InputError(f"failed to read {file}:1:1: no comparison of commits is there (rows under `%stddev %change`)")
    return found


def _axes_of(lines: _Lines, named: re.Match[str]) -> tuple[dict[str, str], str, list[str]]:
    """Give parameters by name, from a line of names and one of values."""
    place = lines.at + 1
    lines.at += 1
    words = named["values"].strip()
    if not words:
        lines.skip_blank()
        words = lines.peek().strip()
        lines.at += 1
        # Long lines are broken by some mailers, always at a slash's word.
        while words.count("/") < named["keys"].count("/") and "/" in lines.peek() and ":" not in lines.peek():
            words += lines.peek().strip()
            lines.at += 1
    keys, values = named["keys"].split("/"), words.split("/")
    if keys[-1] == "run" and len(values) == len(keys) - 1:
        # Old texts name the run, and give none where they compare all.
        keys.pop()
    if len(keys) == len(values):
        return dict(zip(keys, values, strict=True)), words, []
    known: dict[str, str] = {}
    # Names on both ends hold where a value in the middle has a slash of its own.
    if len(values) > len(keys):
        for at, key in enumerate(keys):
            if key in ("testcase", "tbox_group"):
                known[key] = values[at] if at == 0 else values[at - len(keys)]
    note = f"line {place}: {len(keys)} parameters are named and {len(values)} values given; only their ends are read"
    return known, words, [note]


def _commits(lines: _Lines) -> Iterator[tuple[str, str]]:
    """Give commits with their subjects; a subject may go on in the next line."""
    lines.skip_blank()
    while lines and lines.peek():
        found = _COMMIT.match(lines.peek())
        if found is None or _DASHES.match(lines.peek()) or (not found["subject"] and len(lines.peek().split()) > 1):
            return
        lines.at += 1
        subject = found["subject"] or ""
        while subject and not subject.endswith(")") and lines.peek():
            subject += " " + lines.peek().strip()
            lines.at += 1
        yield found["name"], subject.removesuffix(")").strip('"')


def _table(lines: _Lines, report: Report, ends: Sequence[int], file: str) -> None:
    """Read rows until something else follows an empty line."""
    depth = lines.depth()
    fresh = True
    while lines:
        line = lines.peek()
        place = lines.at + 1
        if not line:
            fresh = True
            lines.at += 1
            # Another section, plots or words follow.
            following = lines.peek()
            if following and not (_row(following, ends, place + 1) or _FAILS.match(following) or _is_heads(following)):
                if _looks_like_row(following) and not _is_plot(following):
                    raise _refused(file, place + 1, following, report)
                return
            continue
        if _is_heads(line):
            lines.at += 1
            continue
        if failed := _FAILS.match(line):
            counts = list(_RUNS.finditer(line, 0, failed.start("name")))
            runs = tuple((int(one["fails"] or 0), int(one["runs"])) for one in counts)
            changes = tuple(one["change"] or "" for one in counts)
            report.runs = report.runs or runs[0][1]
            if len(runs) != len(report.commits):
                raise _refused(file, place, line, report)
            report.failures.append(Failure(failed["name"], runs, changes, place))
            lines.at += 1
            continue
        if _ELIDED.match(line):
            report.notes.append(f"line {place}: rows are left out there")
            lines.at += 1
            continue
        row = _row(line, ends, place)
        if row is None:
            if (
                _is_plot(line)
                or lines.depth() < depth
                or line.startswith(("====", "-- "))
                or (fresh and not _looks_like_row(line))
            ):
                return
            raise _refused(file, place, line, report)
        fresh = False
        lines.at += 1
        if not row.metric:
            # A mailer put the name into the next line.
            name = lines.peek().strip()
            if not name or " " in name or _row(name, ends, place):
                raise _refused(file, place, line, report)
            row = Row(name, row.entries, place)
            lines.at += 1
        if any(known.metric == row.metric for known in report.rows):
            raise InputError(f"failed to read {file}:{place}:1: `{row.metric}` is there twice in one table")
        report.rows.append(row)


def _is_heads(line: str) -> bool:
    return all(_HEADS.match(word) for word in line.split())


def _is_plot(line: str) -> bool:
    return bool(_PLOT.match(line)) or "[*]" in line or "[O]" in line


def _looks_like_row(line: str) -> bool:
    return bool(re.match(rf"\s*{_NUMBER}(?:\s*(?:±|\+-)|\s{{2,}}[-+\d])", line))


def _refused(file: str, place: int, line: str, report: Report) -> InputError:
    shown = " ".join(line.split())
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    form = "VALUE [± N%]" + " CHANGE[%] VALUE [± N%]" * (len(report.commits) - 1) + " METRIC"
    return InputError(f"failed to read {file}:{place}:1: `{shown}` is no row of {len(report.commits)} commits ({form})")


def _row(line: str, ends: Sequence[int], place: int) -> Row | None:
    """Give a row; None for anything else. The metric is empty where the line ends before it."""
    first = _FIRST.match(line)
    if first is None:
        return None
    entries: list[Entry | None] = [_entry(first)] + [None] * (len(ends) - 1)
    at = first.end()
    filled = 0
    while found := _NEXT.match(line, at):
        column = filled + 1
        if column >= len(ends):
            return None
        # A commit without a value leaves its column empty.
        while column + 1 < len(ends) and found.end("value") > ends[column] + 6:
            column += 1
        entries[column] = _entry(found)
        filled = column
        at = found.end()
    metric = line[at:].strip()
    if (
        not filled
        or (metric and re.match(rf"(?:{_NUMBER}%?|±)(?:\s|$)", metric))
        or " " in metric.partition("#")[0].strip()
    ):
        return None
    return Row(metric.partition(" #")[0].strip(), tuple(entries), place)


def _entry(found: re.Match[str]) -> Entry:
    parts = found.groupdict()
    spread = None if parts["spread"] in (None, "nan") else float(parts["spread"])
    change = parts.get("change")
    return Entry(
        float(parts["value"]),
        # A deviation of a mean of 0 is printed as -1 %.
        None if spread is None or spread < 0 else spread,
        None if change is None else float(change),
        bool(change) and not parts.get("percent"),
        parts["value"],
        "" if change is None else change + (parts.get("percent") or ""),
    )


def disagreements(report: Report) -> dict[tuple[int, int], str]:
    """Name the changes that do not follow from the means beside them, beyond what printing explains.

    Each is named by the line of its row and its column.
    """
    found = {}
    for row in report.rows:
        base = row.entries[0]
        for at, entry in enumerate(row.entries[1:], 1):
            if base is None or entry is None or entry.change is None or not math.isfinite(entry.change):
                continue
            low, high = _range(base.text), _range(entry.text)
            if entry.is_points:
                bounds = (high[0] - low[1], high[1] - low[0])
            elif low[0] <= 0:
                continue
            else:
                bounds = (100 * (high[0] / low[1] - 1), 100 * (high[1] / low[0] - 1))
            half = _half(entry.change_text.rstrip("%"))
            if not bounds[0] - half <= entry.change <= bounds[1] + half:
                means = f"{base.text} and {entry.text}"
                words = f"{entry.change_text} of {row.metric} does not follow from {means}"
                found[row.line, at] = f"line {row.line}: {words}"
    for failure in report.failures:
        shares = [100 * fails / runs if runs else None for fails, runs in failure.runs]
        for at, (share, change) in enumerate(zip(shares, failure.changes, strict=True)):
            if at and change and share is not None and shares[0] is not None:
                printed = change.rstrip("%")
                if abs(float(printed) - (share - shares[0])) > _half(printed):
                    counts = " and ".join(f"{fails}:{runs}" for fails, runs in (failure.runs[0], failure.runs[at]))
                    words = f"{change} of {failure.name} does not follow from {counts}"
                    found[failure.line, at] = f"line {failure.line}: {words}"
    return found


def _half(text: str) -> float:
    number, _, exponent = text.lower().partition("e")
    return 0.5001 * 10.0 ** (int(exponent or 0) - len(number.partition(".")[2]))


def _range(text: str) -> tuple[float, float]:
    if text == "nan":
        return -math.inf, math.inf
    return float(text) - _half(text), float(text) + _half(text)

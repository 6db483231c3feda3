"""Small charts as inline SVG: text in, text out, no script and no request.

Colours are CSS classes (``v0`` ... for variants, ``s0`` ... for steps of a scale), so that light, dark and print are
the page's business.  All panels share one width, so that a page can put them in a grid that folds on a phone.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from operator import itemgetter

from opplab.certainty import change_text

WIDTH = 460
POINTS_MAX = 40
"""More points than these are a curve."""
CLOCK_HEIGHT = 20
NAME_MOST = 20
"""Longer names stand above what they name, in the picture's whole width."""
LETTER, TINY = 8.6, 8.0
"""Width of a letter on a narrow screen, whose letters are larger, and of a tiny one."""
LINE = 15
"""Height of a line of text."""

ALONE = (
    "svg{--paper:#fff;--ink:#333;--grid:#ddd;--soft:#bbb;--lane:#f1f3f4;--busy:#9fc5e8;"
    "--c0:#1b6ca8;--c1:#d1495b;--c2:#8f6200;--c3:#3a7d44;--c4:#7b4b94;--c5:#777;background:var(--paper)}"
    "@media (prefers-color-scheme:dark){svg{--paper:#131416;--ink:#d0d4da;--grid:#363b43;--soft:#5b626d;--lane:#22262c;"
    "--busy:#2c5d86;--c0:#62aee6;--c1:#ee7d8c;--c2:#edae49;--c3:#7cc487;--c4:#bd92d4;--c5:#999}}"
    "text{font:11px sans-serif;fill:var(--ink)}text.tiny{font-size:9px}"
    ".grid{stroke:var(--grid)}.axis{stroke:var(--ink)}"
    ".lane,.row{fill:var(--lane)}.clock{fill:none;stroke:var(--ink);stroke-width:1.2}"
    ".line{fill:none;stroke:currentColor;stroke-width:1.8}.whisker{stroke:currentColor;stroke-width:1.3}"
    ".dot,.box{fill:currentColor}.band{fill:currentColor;opacity:.16}"
    ".hollow{fill:var(--paper);stroke:currentColor;stroke-width:1.8}"
    ".v0{color:var(--c0)}.v1{color:var(--c1)}.v2{color:var(--c2)}"
    ".v3{color:var(--c3)}.v4{color:var(--c4)}.v5{color:var(--c5)}"
)
"""Style of a picture in a file of its own, for light and dark schemes; the colours by name."""


def _attributes(values: dict[str, object]) -> str:
    parts = []
    for name, value in values.items():
        text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else escape(str(value), quote=True)
        parts.append(f'{name.rstrip("_").replace("_", "-")}="{text}"')
    return " ".join(parts)


def colour(number: int) -> str:
    """Give the class of the colour of a variant; where colours come again, lines are dashed.

    Examples
    --------
    >>> colour(1), colour(7)
    ('v1', 'v1 again')
    """
    return f"v{number % 6}" + (" again" if number >= 6 else "")


def element(name: str, content: str = "", **attributes: object) -> str:
    """Give one element; ``class_`` stands for ``class``.

    Examples
    --------
    >>> element("line", x1=0, x2=1.50, class_="axis")
    '<line x1="0" x2="1.5" class="axis"/>'
    """
    start = f"<{name} {_attributes(attributes)}" if attributes else f"<{name}"
    return f"{start}>{content}</{name}>" if content else f"{start}/>"


def text(x: float, y: float, words: str, anchor: str = "start", class_: str = "label") -> str:
    """Give one line of text."""
    return element("text", escape(words), x=x, y=y, text_anchor=anchor, class_=class_)


def short(name: str, most: int) -> str:
    """Give a name that fits beside a picture: its two ends, as variants differ at the last.

    Examples
    --------
    >>> short("schedutil rate_limit_us=2000", 20)
    'schedutil\u2026it_us=2000'
    """
    if len(name) <= most:
        return name
    most = max(most, 3)
    return f"{name[: most // 2 - 1]}\u2026{name[-(most // 2) :]}"


def headroom(names: Iterable[str], most: int = NAME_MOST) -> int:
    """Give the height above each row for its name: 0 where all names fit beside the rows.

    Examples
    --------
    >>> headroom(["schedutil"]), headroom(["schedutil", "schedutil rate_limit_us=2000"])
    (0, 15)
    """
    return LINE if max(map(len, names), default=0) > most else 0


def named(x: float, y: float, name: str, anchor: str = "start", class_: str = "label", most: int = 0) -> str:
    """Give a name of up to `most` letters (default: what the picture has room for), the whole one for a pointer."""
    shown = short(name, most or int((WIDTH - x) / LETTER))
    words = escape(shown) if shown == name else escape(shown) + tip(name)
    return element("text", words, x=x, y=y, text_anchor=anchor, class_=class_)


def tip(words: str) -> str:
    """Give the words that a pointer shows over an element."""
    return element("title", escape(words))


def upright(words: str, top: float, bottom: float) -> str:
    """Give the name of a vertical axis, in the middle between two heights."""
    turn = f"translate(13 {(top + bottom) / 2:.0f}) rotate(-90)"
    return element("text", escape(words), transform=turn, text_anchor="middle", class_="label")


def box(x: float, y: float, width: float, height: float, class_: str, words: str = "") -> str:
    """Give a rectangle, with words for a pointer if there are any."""
    return element("rect", tip(words) if words else "", x=x, y=y, width=width, height=height, class_=class_)


def document(height: float, title: str, content: Iterable[str]) -> str:
    """Give a whole picture of the common width."""
    label = element("title", escape(title))
    return element(
        "svg",
        label + "".join(content),
        viewBox=f"0 0 {WIDTH} {height:.0f}",
        role="img",
        aria_label=title,
        xmlns="http://www.w3.org/2000/svg",
    )


def alone(picture: str, style: str = "") -> str:
    """Give a picture its colours, so that it stands in a file of its own."""
    return picture.replace("</title>", f"</title>{element('style', ALONE + style)}", 1) + "\n"


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Give round numbers that cover [low, high].

    Examples
    --------
    >>> ticks(0, 43)
    [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]
    """
    if not high > low:
        high = low + 1
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _plain(value: float) -> str:
    return f"{value:g}".replace("-", "\u2212")


@dataclass
class Series:
    """A line of points with intervals."""

    label: str
    class_: str
    """CSS class that gives the colour."""
    points: list[tuple[float, float, float | None]] = field(default_factory=list)
    """x, y, half-width of the interval."""
    hollow: bool = False
    """Whether the points are hollow and not joined, as published values are."""
    band: bool = False
    """Whether the intervals are drawn as a band instead of whiskers."""


def _room(y_ticks: Sequence[float]) -> int:
    """Give the space left of a picture that its numbers and the axis's name need."""
    digits = max(len(_plain(tick)) for tick in y_ticks)
    # Narrow screens have larger letters.
    return max(50, 26 + 8 * digits)


def lines(
    title: str,
    series: Sequence[Series],
    x_label: str,
    y_label: str,
    *,
    names: Sequence[str] | None = None,
    key: bool = False,
) -> str:
    """Draw points with intervals against a number, joined by lines; `names` stand for x = 0, 1, ... if given.

    Many points are a curve: without marks, against round numbers.  With `key` the lines are named on top, where no
    page does it.
    """
    xs = [x for one in series for x, _, _ in one.points]
    ends = [y + sign * (half or 0) for one in series for _, y, half in one.points for sign in (-1, 1)]
    # An interval may go below 0; the axis does not where no value is there.
    least = min(y for one in series for _, y, _ in one.points)
    y_ticks = ticks(0.0 if least >= 0 else min(ends), max(ends), 5)
    height = 300
    left, right, top, bottom = _room(y_ticks), 12, 30 if key else 12, 44 if x_label else 26
    is_curve = len(set(xs)) > POINTS_MAX
    span = (max(xs) - min(xs)) or 1.0
    # Names have their own slots.
    beside = 0.0 if is_curve else 0.07 * span if names is None else 0.5
    x_low, x_high = min(xs) - beside, max(xs) + beside
    if is_curve and 0 < x_low < 0.05 * span:
        x_low = 0.0

    def at_x(x: float) -> float:
        return left + (x - x_low) / (x_high - x_low) * (WIDTH - left - right)

    def at_y(y: float) -> float:
        share = (max(y, y_ticks[0]) - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])
        return height - bottom - share * (height - top - bottom)

    out = []
    for tick in y_ticks:
        strong = " zero" if tick == 0 and y_ticks[0] < 0 else ""
        out.append(element("line", x1=left, x2=WIDTH - right, y1=at_y(tick), y2=at_y(tick), class_="grid" + strong))
        out.append(text(left - 6, at_y(tick) + 4, _plain(tick), "end"))
    free = 0.0
    for x in [tick for tick in ticks(x_low, x_high) if x_low <= tick <= x_high] if is_curve else sorted(set(xs)):
        out.append(element("line", x1=at_x(x), x2=at_x(x), y1=height - bottom, y2=height - bottom + 4, class_="axis"))
        name = _plain(x) if names is None else names[int(x)]
        most = len(name) if names is None else max(int((at_x(x_low + 1) - left) / LETTER) - 1, 3)
        half_width = (min(len(name), most) + 0.6) * LETTER / 2
        if at_x(x) - half_width >= free:
            out.append(named(at_x(x), height - bottom + 17, name, "middle", most=most))
            free = at_x(x) + half_width
    out.append(text((left + WIDTH - right) / 2, height - 8, x_label, "middle"))
    out.append(upright(y_label, top, height - bottom))
    for number, one in enumerate(series):
        # Points at one x stand side by side, so that intervals do not hide each other.
        shift = 0.0 if is_curve else (number - (len(series) - 1) / 2) * 2.4
        marks = []
        known = [(at_x(x) + shift, y, half) for x, y, half in one.points if half is not None]
        if one.band and len(known) > 1:
            upper = [f"{x:.1f} {at_y(y + half):.1f}" for x, y, half in known]
            lower = [f"{x:.1f} {at_y(y - half):.1f}" for x, y, half in reversed(known)]
            marks.append(element("path", d="M" + "L".join(upper + lower) + "Z", class_="band"))
        if not one.hollow and len(one.points) > 1:
            path = "M" + "L".join(f"{at_x(x) + shift:.1f} {at_y(y):.1f}" for x, y, _ in one.points)
            marks.append(element("path", d=path, class_="line"))
        if key:
            start = left + number * (WIDTH - left - right) / len(series)
            marks.append(element("line", x1=start, x2=start + 16, y1=12, y2=12, class_="line"))
            out.append(text(start + 21, 16, one.label))
        for x, y, half in () if is_curve else one.points:
            px, py = at_x(x) + shift, at_y(y)
            if half is not None and not (one.band and len(known) > 1):
                marks.append(element("line", x1=px, x2=px, y1=at_y(y - half), y2=at_y(y + half), class_="whisker"))
            at = _plain(x) if names is None else names[int(x)]
            words = f"{one.label}, {x_label} {at}: {y:.4g}" + (f" \u00b1 {half:.2g}" if half is not None else "")
            radius, class_ = (4, "hollow") if one.hollow else (3.2, "dot")
            marks.append(element("circle", tip(words), cx=px, cy=py, r=radius, class_=class_))
        out.append(element("g", "".join(marks), class_=one.class_, data_series=one.label))
    return document(height, title, out)


@dataclass
class Change:
    """A change in its unit with its interval; `clear` if that excludes zero, `hollow` if it was published.

    `words` are a pointer's, where it is another value than a change.
    """

    label: str
    class_: str
    value: float
    low: float | None
    high: float | None
    clear: bool
    hollow: bool = False
    words: str = ""
    unit: str = "%"


def _reach(values: Sequence[float], ends: Sequence[float] = ()) -> float:
    """Give how far an axis of changes reaches to either side: small ones stay readable beside a few large ones.

    Examples
    --------
    >>> _reach([3.0, -2.5, 4.0]), _reach([3.0, -2.0, 3.0, 400.0]), _reach([0.1]), _reach([3.0], [-50.0, 60.0])
    (5.0, 36.0, 1.0, 9.0)
    >>> _reach([0.0, 0.0, 0.0, 3.0, 10.0])
    12.5
    """
    # What does not change takes no room.
    sizes = sorted(abs(value) for value in values if value) or [0.0]
    usual, most = max(sizes[len(sizes) // 2], 0.5), sizes[-1]
    widest = max(map(abs, ends), default=0.0)
    return max(1.0, min(max(1.25 * most, 1.05 * widest), 3 * most, 12 * usual))


def axis_of(groups: Sequence[tuple[str, Sequence[Change]]]) -> tuple[float, float]:
    """Give the ends of an axis that suits these changes."""
    ends = [end for _, own in groups for one in own for end in (one.value, one.low, one.high) if end is not None]
    known = [one.value for _, own in groups for one in own if math.isfinite(one.value)] or [0.0]
    reach = _reach(known, [end for end in ends if math.isfinite(end)])
    # One side is enough where nothing goes to the other.
    low = -reach if min(ends) < -0.02 * reach else -0.1 * reach
    return low, reach if max(ends) > 0.02 * reach else 0.1 * reach


def changes(
    title: str,
    groups: Sequence[tuple[str, Sequence[Change]]],
    x_label: str,
    axis: tuple[float, float] | None = None,
) -> str:
    """Draw changes with intervals below each other around zero; what is beyond the axis has an arrow and its number.

    Pictures that are compared share an `axis`.
    """
    head = headroom(name for name, _ in groups)
    left = 26.0 if head else max(130.0, 8 + LETTER * max(len(name) for name, _ in groups))
    low, high = axis or axis_of(groups)
    # Fewer numbers where they are long.
    marks, fewer = ([tick for tick in ticks(low, high, about) if low <= tick <= high] for about in (5, 3))
    right = max(14.0, TINY * len(_plain(marks[-1])) / 2)
    if TINY * sum(len(_plain(tick)) + 1 for tick in marks) > WIDTH - left - right:
        marks = fewer
    top, thick, gap = 6, 13, 6

    def at(value: float) -> float:
        return left + (min(max(value, low), high) - low) / (high - low) * (WIDTH - left - right)

    out, body = [], []
    y: float = top
    for number, (name, own) in enumerate(groups):
        size = head + thick * len(own) + gap
        if number % 2:
            out.append(box(0, y, WIDTH, size, "row"))
        body.append(named(4, y + (head or size / 2 + 4), name))
        y += head + gap / 2
        for one in own:
            body.append(_change(one, name, at, (low, high), y + thick / 2))
            y += thick
        y += gap / 2
    for tick in marks:
        strong = " zero" if tick == 0 else ""
        out.append(element("line", x1=at(tick), x2=at(tick), y1=top, y2=y, class_="grid" + strong))
        body.append(text(at(tick), y + 15, _plain(tick), "middle", "tiny"))
    body.append(text((left + WIDTH - right) / 2, y + 31, x_label, "middle"))
    return document(y + 38, title, [*out, *body])


def _change(one: Change, name: str, at: Callable[[float], float], axis: tuple[float, float], y: float) -> str:
    change = "from 0" if math.isinf(one.value) else change_text(one.value, one.low, one.high, one.unit, 2)
    # Of one load the variant names the row, too.
    words = one.words or f"{', '.join(dict.fromkeys((one.label, name)))}: {change}"
    marks = []
    if one.low is not None and one.high is not None:
        marks.append(element("line", x1=at(one.low), x2=at(one.high), y1=y, y2=y, class_="whisker"))
        for end, edge, side in ((one.low, axis[0], 1), (one.high, axis[1], -1)):
            if (end - edge) * side < 0:
                back, tip_x = at(edge) + 5 * side, at(edge)
                arrow = f"M{back:.1f} {y - 3:.1f}L{tip_x:.1f} {y:.1f}L{back:.1f} {y + 3:.1f}"
                marks.append(element("path", d=arrow, class_="line"))
    x, beyond = at(one.value), 0 if axis[0] <= one.value <= axis[1] else math.copysign(1, one.value)
    if beyond:
        arrow = f"M{x:.1f} {y - 4:.1f}L{x + 6 * beyond:.1f} {y:.1f}L{x:.1f} {y + 4:.1f}Z"
        marks.append(element("path", d=arrow, class_="box"))
        number = change if math.isinf(one.value) else change_text(one.value, unit=one.unit, digits=0)
        marks.append(text(x - 6 * beyond, y + 3.5, number, "end" if beyond > 0 else "start", "tiny"))
    elif one.hollow:
        marks.append(element("circle", cx=x, cy=y, r=4, class_="hollow"))
    else:
        marks.append(element("rect", x=x - 3.5, y=y - 3.5, width=7, height=7, class_="box"))
    class_ = one.class_ if one.clear or one.hollow else f"{one.class_} faint"
    return element("g", tip(words) + "".join(marks), class_=class_, data_series=one.label)


def plane(title: str, series: Sequence[tuple[Series, str]], x_label: str, y_label: str) -> str:
    """Draw points in a plane, each with words; dashed lines through 0 join what has an equal y for an x."""
    xs = [x for one, _ in series for x, _, _ in one.points] + [1.0]
    ys = [y for one, _ in series for _, y, _ in one.points] + [1.0]
    x_ticks = ticks(min(xs) - 0.05, max(xs) + 0.05, 5)
    y_ticks = ticks(min(ys) - 0.05, max(ys) + 0.05, 5)
    left, right, top, bottom, height = _room(y_ticks), 14, 12, 44, 320
    x_low, x_high, y_low, y_high = max(x_ticks[0], 0.0), x_ticks[-1], max(y_ticks[0], 0.0), y_ticks[-1]

    def at_x(x: float) -> float:
        return left + (x - x_low) / (x_high - x_low) * (WIDTH - left - right)

    def at_y(y: float) -> float:
        return height - bottom - (y - y_low) / (y_high - y_low) * (height - top - bottom)

    out = []
    for tick in y_ticks:
        if tick >= y_low:
            out.append(element("line", x1=left, x2=WIDTH - right, y1=at_y(tick), y2=at_y(tick), class_="grid"))
            out.append(text(left - 6, at_y(tick) + 4, _plain(tick), "end"))
    for tick in x_ticks:
        if tick >= x_low:
            out.append(element("line", x1=at_x(tick), x2=at_x(tick), y1=top, y2=height - bottom, class_="grid"))
            out.append(text(at_x(tick), height - bottom + 17, _plain(tick), "middle"))
    slopes = [y_high / x_low if x_low else math.inf, y_low / x_high]
    for slope in (0.25, 0.5, 0.67, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 4.0):
        start, end = max(x_low, y_low / slope), min(x_high, y_high / slope)
        if not slopes[1] < slope < slopes[0] or end - start < 0.12 * (x_high - x_low):
            continue
        out.append(
            element("line", x1=at_x(start), x2=at_x(end), y1=at_y(slope * start), y2=at_y(slope * end), class_="iso")
        )
        out.append(text(at_x(end) - 3, at_y(slope * end) + 11, f"\u00d7{slope:g}", "end", "tiny"))
    out.append(text((left + WIDTH - right) / 2, height - 8, x_label, "middle"))
    out.append(upright(y_label, top, height - bottom))
    for one, words in series:
        marks = [element("circle", tip(words), cx=at_x(x), cy=at_y(y), r=4.5, class_="dot") for x, y, _ in one.points]
        out.append(element("g", "".join(marks), class_=one.class_, data_series=one.label))
    return document(height, title, out)


@dataclass
class Bar:
    """One horizontal bar of parts that sum to 100."""

    label: str
    class_: str
    parts: list[tuple[str, str, float]]
    """Name, CSS class and percent of each part."""


def stacked(title: str, groups: Sequence[tuple[str, Sequence[Bar]]]) -> str:
    """Draw groups of stacked horizontal bars, 0 to 100 %."""
    names = [bar.label for _, bars in groups for bar in bars]
    head = headroom(names, 14)
    labels = 0 if head else max(map(len, names), default=0)
    most = 12 if any(names) else 20
    # Names of groups, then of bars, then bars.
    left = 18 + LETTER * max(len(short(name, most)) for name, _ in groups) + TINY * labels
    right, top, thick, gap = 12, 4, 14, 9
    out = []
    y: float = top
    scale = (WIDTH - left - right) / 100
    body = []
    for name, bars in groups:
        body.append(named(2, y + (head + thick) * len(bars) / 2 + 4, name, most=most))
        for bar in bars:
            y += head
            x, anchor = (left, "start") if head else (left - 5, "end")
            body.append(named(x, y + (-4 if head else thick - 3.2), bar.label, anchor, f"tiny {bar.class_}"))
            x = left
            marks = []
            for part, class_, percent in bar.parts:
                if percent < 0.05:
                    continue
                told = f"{', '.join(filter(None, (bar.label, name)))}: {part} {percent:.1f} %"
                marks.append(box(x, y, percent * scale, thick - 1.5, class_, told))
                x += percent * scale
            body.append(element("g", "".join(marks), data_series=bar.label))
            y += thick
        y += gap
    bottom = y - gap + 2
    for percent in (0, 25, 50, 75, 100):
        x = left + percent * scale
        out.append(element("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid"))
        ends = ("end" if percent == 100 else "middle", "tiny")
        body.append(text(x, bottom + 14, f"{percent} %" if percent == 100 else str(percent), *ends))
    return document(bottom + 20, title, [*out, *body])


@dataclass
class Lane:
    """What one CPU did: slices of (start, end, task, words), in ms."""

    label: str
    slices: list[tuple[float, float, int, str]]


@dataclass
class Clock:
    """The clock of a cluster: steps of (start in ms, MHz), and its range."""

    label: str
    steps: list[tuple[float, float]]
    low: float
    high: float


def held(changes: Sequence[tuple[int, int]], start: int, end: int) -> list[tuple[int, int, int]]:
    """Give (begin, end, value) of what holds between two times, of times with the value from then on.

    Examples
    --------
    >>> held([(0, 7), (10, 8), (20, 9)], 12, 40), held([], 12, 40)
    ([(12, 20, 8), (20, 40, 9)], [])
    """
    first = max(bisect_right(changes, start, key=itemgetter(0)) - 1, 0)
    inside = changes[first : bisect_left(changes, end, key=itemgetter(0))]
    begins = [max(time, start) for time, _ in inside]
    return list(zip(begins, [*begins, end][1:], (value for _, value in inside), strict=True))


def timeline(
    title: str,
    start_ms: float,
    end_ms: float,
    rows: Sequence[Lane | Clock],
    color: Callable[[int], str],
) -> str:
    """Draw what ran where and at which clock between two times."""
    right, top = 6, 4
    left = 8 + TINY * max(len("time, ms"), *(len(row.label) for row in rows))
    scale = (WIDTH - left - right) / (end_ms - start_ms)

    def at(ms: float) -> float:
        return left + (min(max(ms, start_ms), end_ms) - start_ms) * scale

    out = []
    y: float = top
    for row in rows:
        if isinstance(row, Lane):
            out.append(text(left - 6, y + 11, row.label, "end", "tiny"))
            out.append(box(left, y, WIDTH - left - right, 14, "lane"))
            for begin, end, task, words in row.slices:
                width, style = max(at(end) - at(begin), 0.4), f"fill:{color(task)}"
                out.append(element("rect", tip(words), x=at(begin), y=y + 0.5, width=width, height=13, style=style))
            y += 17
            continue
        span = (row.high - row.low) or 1

        def level(mhz: float, row: Clock = row, y: float = y, span: float = span) -> float:
            return y + CLOCK_HEIGHT - 3 - (mhz - row.low) / span * (CLOCK_HEIGHT - 6)

        # The band ends at the lowest and at the highest clock.
        band = level(row.high) - 1.5
        out.append(box(left, band, WIDTH - left - right, level(row.low) + 1.5 - band, "lane"))
        points = []
        for number, (begin, mhz) in enumerate(row.steps):
            end = row.steps[number + 1][0] if number + 1 < len(row.steps) else end_ms
            points.append(f"{at(begin):.1f} {level(mhz):.1f}L{at(end):.1f} {level(mhz):.1f}")
        out.append(text(left - 6, y + 13, row.label, "end", "tiny"))
        told = f"{row.label}: {row.low:g} to {row.high:g} MHz"
        out.append(element("path", tip(told), d="M" + "L".join(points), class_="clock"))
        y += CLOCK_HEIGHT + 4
    for tick in ticks(start_ms, end_ms, 6):
        if start_ms <= tick <= end_ms:
            out.append(element("line", x1=at(tick), x2=at(tick), y1=y, y2=y + 4, class_="axis"))
            anchor = "end" if at(tick) > WIDTH - 24 else "start" if at(tick) < left + 12 else "middle"
            out.append(text(at(tick), y + 15, _plain(tick), anchor, "tiny"))
    out.append(text(2, y + 15, "time, ms", "start", "tiny"))
    return document(y + 20, title, out)

"""A machine's topology as a page: packages, NUMA nodes, last-level caches, cores and CPUs as nested boxes.

Inline SVG without script or request; colours are CSS classes, one a cluster, so that light, dark and print work alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from opplab.report.svg import element, tip

CELL_WIDTH, CELL_HEIGHT, PAD, TITLE = 26, 18, 4, 14
WIDE = 520


@dataclass(frozen=True)
class _Box:
    """Something drawn: its size, and how to draw it at a place."""

    width: float
    height: float
    draw: Callable[[float, float], str]


def _grid(boxes: Sequence[_Box], columns: int) -> _Box:
    """Lay boxes out in rows of some columns."""
    rows = [boxes[start : start + columns] for start in range(0, len(boxes), columns)]
    heights = [max(box.height for box in row) for row in rows]
    widths = [sum(box.width + PAD for box in row) - PAD for row in rows]

    def draw(x: float, y: float) -> str:
        parts = []
        for row, height in zip(rows, heights, strict=True):
            at = x
            for box in row:
                parts.append(box.draw(at, y))
                at += box.width + PAD
            y += height + PAD
        return "".join(parts)

    return _Box(max(widths), sum(heights) + PAD * (len(rows) - 1), draw)


def _frame(inner: _Box, class_: str, title: str = "", tooltip: str = "") -> _Box:
    """Put a frame with a title around a box."""
    head = TITLE if title else 0
    width = max(inner.width + 2 * PAD, 6.2 * len(title) + 2 * PAD)
    height = inner.height + 2 * PAD + head

    def draw(x: float, y: float) -> str:
        shown = tip(tooltip) if tooltip else ""
        frame = element("rect", shown, x=x, y=y, width=width, height=height, rx=3, class_=class_)
        words = element("text", escape(title), x=x + PAD, y=y + PAD + 9, class_="title") if title else ""
        return frame + words + inner.draw(x + PAD, y + PAD + head)

    return _Box(width, height, draw)


def _cpu(cpu: dict[str, Any], clusters: list[dict[str, Any]]) -> _Box:
    cluster = clusters[cpu["cluster"]]
    top = cluster["opps"][-1]["khz"] / 1000
    words = f"CPU {cpu['cpu']}: {cluster['name']}, capacity {cluster['capacity']}, up to {top:g} MHz"

    def draw(x: float, y: float) -> str:
        size = {"width": CELL_WIDTH, "height": CELL_HEIGHT}
        cell = element("rect", tip(words), x=x, y=y, **size, rx=2, class_=f"cpu c{cpu['cluster'] % 6}")
        number = element(
            "text", str(cpu["cpu"]), x=x + CELL_WIDTH / 2, y=y + CELL_HEIGHT - 5, text_anchor="middle", class_="number"
        )
        return cell + number

    return _Box(CELL_WIDTH, CELL_HEIGHT, draw)


def _groups(cpus: list[dict[str, Any]], key: str) -> list[tuple[int, list[dict[str, Any]]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for cpu in cpus:
        found.setdefault(cpu[key], []).append(cpu)
    return list(found.items())


def _columns(count: int, most: int) -> int:
    """Give a number of columns that fills its rows: the largest divisor up to the most, or the most."""
    divisors = [number for number in range(2, most + 1) if count % number == 0]
    return count if count <= 2 else (divisors[-1] if divisors else most)


def _cores(cpus: list[dict[str, Any]], clusters: list[dict[str, Any]]) -> list[_Box]:
    boxes = []
    for core, threads in _groups(cpus, "core"):
        cells = _grid([_cpu(cpu, clusters) for cpu in threads], len(threads))
        boxes.append(_frame(cells, "core", tooltip=f"core {core}") if len(threads) > 1 else cells)
    return boxes


def picture(facts: dict[str, Any]) -> str:
    """Give the topology of a described machine as one SVG.

    Examples
    --------
    >>> from opplab import Machine
    >>> picture(Machine.load("juno-r2").describe()).startswith("<svg")
    True
    """
    clusters = facts["clusters"]
    several_nodes = len({cpu["node"] for cpu in facts["cpus"]}) > 1
    packages = []
    for package, in_package in _groups(facts["cpus"], "package"):
        nodes = []
        for node, in_node in _groups(in_package, "node"):
            caches = []
            for llc, in_llc in _groups(in_node, "llc"):
                cores = _cores(in_llc, clusters)
                grid = _grid(cores, _columns(len(cores), 8))
                caches.append(_frame(grid, "llc", f"L{llc}", f"last-level cache {llc}: {len(in_llc)} CPUs"))
            inner = _grid(caches, _columns(len(caches), 4))
            nodes.append(_frame(inner, "node", f"node {node}") if several_nodes else inner)
        packages.append(_frame(_grid(nodes, 2), "package", f"package {package}"))
    # Wide packages go below each other, so that a page of usual width shows their numbers.
    whole = _grid(packages, 2 if len(packages) > 1 and packages[0].width < WIDE else 1)
    label = element("title", escape(f"Topology of {facts['name']}"))
    return element(
        "svg",
        label + whole.draw(PAD, PAD),
        viewBox=f"0 0 {whole.width + 2 * PAD:.0f} {whole.height + 2 * PAD:.0f}",
        width=f"{whole.width + 2 * PAD:.0f}",
        role="img",
        aria_label=f"Topology of {facts['name']}",
        xmlns="http://www.w3.org/2000/svg",
    )


STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #667; --paper: #fff; --line: #b8c0cc; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #9aa4b2; --paper: #14171b; --line: #454d59; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 72rem; padding: 0 1rem; }
.scroll { overflow-x: auto; } svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; margin: 1rem 0; } td, th { text-align: left; padding: .2rem .8rem .2rem 0;
  border-bottom: 1px solid var(--line); vertical-align: top; } .soft { color: var(--soft); }
rect { fill: none; stroke: var(--line); } rect.core { stroke: var(--soft); } rect.node { stroke-dasharray: 4 3; }
text { fill: var(--ink); font: 11px system-ui, sans-serif; } text.title { fill: var(--soft); }
text.number { fill: #fff; font-size: 10px; } rect.cpu { stroke: none; }
.c0 { fill: #2563a8; background: #2563a8; } .c1 { fill: #b3541e; background: #b3541e; }
.c2 { fill: #3d7a43; background: #3d7a43; } .c3 { fill: #84489c; background: #84489c; }
.c4 { fill: #8a6d1a; background: #8a6d1a; } .c5 { fill: #a33355; background: #a33355; }
@media (max-width: 60rem) { body { margin-top: 1rem; } svg { max-width: none; }
  td:last-child { min-width: 10em; overflow-wrap: anywhere; } }
.swatch { display: inline-block; width: .8em; height: .8em; border-radius: 2px; }
"""


def _clusters(facts: dict[str, Any]) -> str:
    rows = [
        "<tr><th>cluster</th><th>CPUs</th><th>capacity</th><th>MHz</th><th>turbo MHz by cores</th><th>idle</th></tr>"
    ]
    for number, cluster in enumerate(facts["clusters"]):
        low, high = cluster["opps"][0]["khz"] / 1000, cluster["opps"][-1]["khz"] / 1000
        base = f", base {cluster['base_khz'] / 1000:g}" if cluster["base_khz"] else ""
        turbo = ", ".join(f"{cores}: {khz / 1000:g}" for cores, khz in cluster["turbo"]) or "-"
        idle = ", ".join(state["name"] for state in cluster["idle"]) or "-"
        rows.append(
            f'<tr><td><span class="swatch c{number % 6}"></span> {escape(cluster["name"])}</td>'
            f"<td>{escape(cluster['cpus'])}</td><td>{cluster['capacity']}</td><td>{low:g}-{high:g}{base}</td>"
            f"<td>{turbo}</td><td>{escape(idle)}</td></tr>"
        )
    return f"<table>{''.join(rows)}</table>"


def page(facts: dict[str, Any]) -> str:
    """Give a self-contained page about a described machine."""
    title = escape(facts["name"])
    sources = "".join(
        f"<tr><td>{escape(what)}</td><td>{escape(source)}</td></tr>" for what, source in facts["sources"].items()
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n'
        f'<p class="soft">{escape(facts["provenance"])}</p>\n<div class="scroll">{picture(facts)}</div>\n'
        f'<div class="scroll">{_clusters(facts)}</div>\n<h2>Sources</h2>\n'
        f'<div class="scroll"><table>{sources}</table></div>\n</body></html>\n'
    )

"""The pages in a real browser: sorted by keyboard and click, variants toggled, at phone, laptop and print size."""

import base64
import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import opplab
from opplab.summary import publish
from opplab.summary.answer import answer_of
from opplab.summary.compared import report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
GIVEN = Path(__file__).parents[1] / "data" / "mmtests-golden" / "given" / "results"
SIZES = {"phone": (390, 844), "laptop": (1366, 768)}

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="skipped: there is no chromium to open the pages in")


class Browser:
    """Chromium's own debugging protocol over a pair of pipes."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        ours_in, self.out = os.pipe()
        self.into, ours_out = os.pipe()
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
        ]
        # The protocol is spoken on file descriptors 3 and 4.
        shell = f'exec "$0" "$@" 3<&{ours_in} 4>&{ours_out}'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, CHROMIUM, *flags, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(ours_in, ours_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(ours_in)
        os.close(ours_out)
        self.rest = b""
        self.number = 0
        self.session: str | None = None
        self.errors: list[str] = []
        self.requests: list[str] = []
        page = next(one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.call(f"{domain}.enable")

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            part = os.read(self.into, 1 << 16)
            if not part:
                raise EOFError("the browser is gone")
            self.rest += part
        line, _, self.rest = self.rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(message["params"]))
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        return message

    def call(self, method: str, **params: Any) -> Any:
        self.number += 1
        whole = {"id": self.number, "method": method, "params": params}
        if self.session:
            whole["sessionId"] = self.session
        os.write(self.out, json.dumps(whole).encode() + b"\0")
        while (answer := self._read()).get("id") != self.number:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, page: Path) -> None:
        self.requests.clear()
        self.call("Page.navigate", url=page.as_uri())
        while self._read().get("method") != "Page.loadEventFired":
            pass

    def size(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )

    def value(self, expression: str) -> Any:
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            own = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **own)

    def click(self, expression: str) -> None:
        """Click where an element is, as a pointer does."""
        box = self.value(
            f"(e => {{ e.scrollIntoView({{block: 'center', inline: 'center'}}); const b = e.getBoundingClientRect();"
            f" return [b.x + b.width / 2, b.y + b.height / 2]; }})({expression})"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def close(self) -> None:
        with contextlib.suppress(OSError, EOFError, AssertionError):
            self.session = None
            self.call("Browser.close")
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.into)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    made = Browser(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    report(GIVEN, benchmarks=["kernbench:Elapsed", "tbench:tput"]).write(folder / "compare.html")
    experiment = opplab.Experiment.load("juno-eas", iterations=2, seconds=0.1)
    table = experiment.run()
    blocks = publish.blocks_of(experiment, table)
    publish.write_report(experiment, table, blocks, folder / "sweep.html", None, answer_of(experiment, table))
    # One load, and more variants than colours, whose names differ at their ends.
    task = {"instance": 3, "loop": -1, "run": 800, "timer": {"ref": "unique", "period": 16000}}
    load = {"global": {"duration": 1, "calibration": "CPU0"}, "tasks": {"t": task}}
    (folder / "load.json").write_text(json.dumps(load))
    limits = (1000, 2000, 4000, 10000, 20000)
    policies = [("schedutil", ""), ("performance", "")]
    policies[1:1] = [(f"schedutil rate_limit_us={us}", f"tunables = {{ rate_limit_us = {us} }}\n") for us in limits]
    text = 'format = 1\nname = "named"\nmachine = "juno-r2"\nbaseline = "schedutil"\nseed = 1\niterations = 2\n'
    text += 'duration = "100ms"\n[[workload]]\nlabel = "load"\nrtapp = "load.json"\n'
    for name, more in policies:
        text += f'[[policy]]\nlabel = "{name}"\ngovernor = "{name.split()[0]}"\n{more}'
    (folder / "named.toml").write_text(text)
    experiment = opplab.Experiment.load(folder / "named.toml")
    table = experiment.run()
    blocks = publish.blocks_of(experiment, table)
    publish.write_report(experiment, table, blocks, folder / "named.html", None, answer_of(experiment, table))
    return {name: folder / f"{name}.html" for name in ("compare", "sweep", "named")}


COLUMN = "[...document.querySelector('#cells tbody').rows].map(row => row.cells[{0}].dataset.value)"
HEADS = "document.querySelectorAll('#cells th[aria-sort]')"


@pytest.mark.parametrize("name", ["compare", "sweep"])
def test_table_sorts(browser: Browser, pages: dict[str, Path], name: str) -> None:
    browser.size(*SIZES["laptop"])
    browser.open(pages[name])
    heads = browser.value(f"[...{HEADS}].map(head => head.textContent)")
    column = heads.index("mean" if name == "compare" else "simulated")
    before = browser.value(COLUMN.format(column))
    ordered = sorted(map(float, before))
    assert [*map(float, before)] != ordered, "it must not be sorted already"
    browser.click(f"{HEADS}[{column}].querySelector('button')")
    assert [*map(float, browser.value(COLUMN.format(column)))] == ordered
    assert browser.value(f"{HEADS}[{column}].getAttribute('aria-sort')") == "ascending"
    # The same by keyboard: Tab leads from the heading before to this one.
    browser.value(f"{HEADS}[{column - 1}].querySelector('button').focus()")
    browser.press("Tab", 9)
    assert browser.value("document.activeElement.textContent") == heads[column]
    browser.press("Enter", 13, "\r")
    assert [*map(float, browser.value(COLUMN.format(column)))] == ordered[::-1]
    assert browser.value(f"[...{HEADS}].filter(head => head.ariaSort !== 'none').length") == 1
    browser.click(f"{HEADS}[0].querySelector('button')")
    words = browser.value(COLUMN.format(0))
    assert words == sorted(words)
    assert not browser.errors


@pytest.mark.parametrize("name", ["compare", "sweep"])
def test_variant_is_hidden_and_shown(browser: Browser, pages: dict[str, Path], name: str) -> None:
    browser.size(*SIZES["phone"])
    browser.open(pages[name])
    button = "document.querySelectorAll('[data-toggle]')[1]"
    variant = browser.value(f"{button}.dataset.toggle")
    own = f"[...document.querySelectorAll('[data-series]')].filter(e => e.dataset.series === {json.dumps(variant)})"
    others = f"[...document.querySelectorAll('[data-series]')].filter(e => e.dataset.series !== {json.dumps(variant)})"
    shown = "{0}.filter(e => e.getBoundingClientRect().width > 0).length"
    before, beside = browser.value(shown.format(own)), browser.value(shown.format(others))
    assert before > 3
    browser.click(button)
    assert browser.value(f"{button}.getAttribute('aria-pressed')") == "false"
    assert browser.value(shown.format(own)) == 0
    assert browser.value(shown.format(others)) == beside
    browser.click(button)
    assert browser.value(shown.format(own)) == before
    assert not browser.errors


# Pairs of texts of one picture, of which one hides a part of the other.
OVER = """[...document.querySelectorAll('svg')].flatMap(s => {
  const all = [...s.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
  return all.flatMap(([a, p], n) => all.slice(n + 1).filter(([, q]) =>
    Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1.5 &&
    Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 4).map(([b]) => [a, b]));
})"""


@pytest.mark.parametrize("name", ["compare", "sweep", "named"])
@pytest.mark.parametrize("size", list(SIZES))
def test_page_fits(browser: Browser, pages: dict[str, Path], name: str, size: str) -> None:
    """Nothing but the table scrolls sideways, all text is on the page, and nothing is fetched."""
    browser.size(*SIZES[size])
    browser.open(pages[name])
    width = SIZES[size][0]
    assert browser.value("document.documentElement.scrollWidth") <= width
    outside = "[...document.querySelectorAll('svg text')].filter(t => { const b = t.getBoundingClientRect(), s = t.ownerSVGElement.getBoundingClientRect(); return b.left < s.left - 1 || b.right > s.right + 1; }).map(t => t.textContent)"  # noqa: E501
    assert browser.value(outside) == []
    assert browser.value(OVER) == []
    columns = "new Set([...document.querySelectorAll('.panels figure')].map(f => Math.round(f.getBoundingClientRect().x))).size"  # noqa: E501
    assert browser.value(columns) == (1 if size == "phone" else 2)
    assert browser.requests == [pages[name].as_uri()]
    colours = [browser.value("getComputedStyle(document.body).backgroundColor")]
    browser.click("document.getElementById('theme')")
    colours.append(browser.value("getComputedStyle(document.body).backgroundColor"))
    assert colours[0] != colours[1]


@pytest.mark.parametrize("name", ["compare", "sweep"])
def test_prints_on_a4(browser: Browser, pages: dict[str, Path], name: str) -> None:
    browser.open(pages[name])
    pdf = base64.b64decode(browser.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"])
    boxes = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", pdf)
    assert 1 < len(boxes) < 12
    assert {(round(float(x)), round(float(y))) for x, y in boxes} == {(595, 842)}
    browser.call("Emulation.setEmulatedMedia", media="print")
    browser.size(688, 1000)
    # The table is not cut off at the edge of the paper (A4 less its margins, in CSS pixels).
    assert browser.value("document.querySelector('#cells').getBoundingClientRect().right") <= 688
    assert browser.value("getComputedStyle(document.getElementById('theme')).display") == "none"
    browser.call("Emulation.setEmulatedMedia", media="")


def test_variants_beyond_the_colours_have_dashed_keys(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["named"])
    looks = browser.value(
        "[...document.querySelectorAll('[data-toggle]')].map(b => getComputedStyle(b).color"
        " + getComputedStyle(b, '::before').width)"
    )
    assert len(looks) == len(set(looks)) == 7


def test_trace_view_zooms_to_microseconds(browser: Browser, tmp_path: Path) -> None:
    run = opplab.simulate(
        opplab.Machine.load("juno-r2"),
        opplab.Workload.periodic(4, run_us=800, period_us=16000),
        opplab.Policy(),
        seconds=0.2,
    )
    browser.size(*SIZES["laptop"])
    browser.open(run.view(tmp_path / "view.html"))
    # The data are unpacked after the page has loaded.
    loaded = "new Promise(done => { const ask = () => cpus.length ? done(cpus.length) : setTimeout(ask, 5); ask(); })"
    found = browser.call("Runtime.evaluate", expression=loaded, awaitPromise=True, returnByValue=True)
    assert found["result"]["value"] == 6
    rows = browser.value("[...document.querySelectorAll('#tasks tbody tr')].map(row => row.cells[0].textContent)")
    assert {"periodic0-0", "periodic3-3"} <= set(rows)
    span = browser.value("to - from")
    browser.value("canvas.focus()")
    for _ in range(20):
        browser.press("w", 87, "w")
    assert browser.value("to - from") < span / 1000
    browser.value("show(1e6, 1.005e6)")
    assert browser.value("to - from") == pytest.approx(5000)
    browser.press("0", 48, "0")
    assert browser.value("to - from") == span
    # A click on a task in the table marks it; n goes to its next slice.
    browser.click("document.querySelector('#tasks tbody tr')")
    assert browser.value("marked") > 0
    browser.value("show(0, 1e5)")
    browser.press("n", 78, "n")
    middle = browser.value("(from + to) / 2")
    assert middle > 1e5
    assert middle in browser.value(
        "cpus.flatMap(({series: {run}}) => [...run.t].filter((_, i) => run.v[i] === marked))"
    )
    assert not browser.errors
    assert browser.requests == [(tmp_path / "view.html").as_uri()]

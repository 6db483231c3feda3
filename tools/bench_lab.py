"""Measures the pages that compute in the browser: ``python tools/bench_lab.py [FOLDER]``.

Needs Chromium, Rust's target for the browser and ``make dev tools``. Prints what docs/performance.md has: the module's
size, time to the first picture, pictures a second while a slider moves, speed of the engine beside the native one
(interleaved), and a trace.dat of 100 MB.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "unit"), str(ROOT / "tools")]
import make_pages  # noqa: E402
from test_browser import Browser  # noqa: E402

import opplab  # noqa: E402

ROUNDS = 7
BENCH = "bench#machine=juno-r2&length_ms=10000&seeds=4"
TRACE_BYTES = 100_000_000
# Sets the first slider to another value before each picture; gives pictures, seconds, and the median ms for one.
DRAG = """new Promise((done) => {
  const slider = document.querySelector("input[type=range]"), took = [], show = lab.show.bind(lab);
  lab.show = (answer) => { const from = performance.now(); show(answer); took.push(performance.now() - from); };
  const ask = lab.engine.ask.bind(lab.engine), asked = [];
  lab.engine.ask = (...words) => {
    const from = performance.now(), answer = ask(...words);
    asked.push(performance.now() - from);
    return answer;
  };
  let frames = 0, began = 0;
  const frame = (now) => {
    if (!frames) began = now;
    if (++frames > 180) {
      const middle = (list) => list.sort((a, b) => a - b)[list.length >> 1];
      done([took.length, (now - began) / 1000, middle(asked), middle(took)]);
      return;
    }
    slider.value = +slider.min + (frames * 7) % (slider.max - slider.min);
    slider.dispatchEvent(new Event("input"));
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
})"""
# Frames and seconds of a page that does nothing.
STILL = """new Promise((done) => {
  let frames = 0, began = 0;
  const frame = (now) => {
    if (!frames) began = now;
    if (++frames > 180) done([frames - 1, (now - began) / 1000]); else requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
})"""
ENGINE = """(() => {
  const [page, query] = QUESTION.split("#"), engine = lab.engine, from = performance.now();
  let answer = engine.ask(1, page, query);
  while (answer.progress && answer.progress[0] < answer.progress[1]) answer = engine.ask(3);
  return performance.now() - from;
})()"""
# When the first answer with facts of the trace was shown.
WATCH = """(() => { const show = lab.show.bind(lab), from = performance.now(); window.infoAt = 0;
  lab.show = (answer) => {
    show(answer);
    if (!window.infoAt && answer.facts && answer.facts.length) window.infoAt = performance.now() - from;
  };
})()"""


def wait(browser: Browser, expression: str) -> Any:
    """Give the expression's value once it has one."""
    for _ in range(6000):
        if found := browser.value(expression):
            return found
        time.sleep(0.01)
    raise SystemExit(f"bench_lab: {expression} stays empty")


def show(browser: Browser, folder: Path, page: str, link: str = "") -> None:
    """Open a page and wait for its first answer."""
    browser.call("Page.navigate", url="about:blank")
    browser.call("Page.navigate", url=f"file://{folder}/{page}.html#{link}")
    wait(browser, "document.documentElement?.dataset.first && window.lab !== undefined")


def run(browser: Browser, script: str) -> Any:
    """Give what a script's promise gives."""
    done = browser.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
    return done["result"]["value"]


def big_trace(path: Path) -> None:
    """Write a run of about 100 MB as trace.dat."""
    machine, work = opplab.Machine.load("juno-r2"), opplab.Workload.periodic(40, run_us=300, period_us=4000)
    opplab.simulate(machine, work, opplab.Policy(), seconds=1).to_trace(path)
    seconds = TRACE_BYTES / path.stat().st_size
    opplab.simulate(machine, work, opplab.Policy(), seconds=round(seconds, 1)).to_trace(path)


def peak_mb(browser: Browser) -> float:
    """Give the most that one of the browser's renderers held, MB."""
    parents, peaks = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            facts = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
            parents[int(folder.name)] = int(facts["PPid"])
            if b"--type=renderer" in (folder / "cmdline").read_bytes():
                peaks[int(folder.name)] = int(facts["VmHWM"].split()[0])

    def is_ours(pid: int) -> bool:
        return pid == browser.process.pid or (pid in parents and is_ours(parents[pid]))

    return max((peak for pid, peak in peaks.items() if is_ours(pid)), default=0) / 1024


def main() -> int:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="opplab-lab-") as scratch:
        folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else Path(scratch) / "lab"
        size = make_pages.make(folder, "../index.html")
        print(f"module, compressed: {size:,} bytes; load average {os.getloadavg()[0]:.0f} on {os.cpu_count()} CPUs")
        profile = Path(scratch) / "profile"
        browser = Browser(profile)
        try:
            for page in make_pages.pages():
                name = str(page["name"])
                firsts = []
                for _ in range(ROUNDS):
                    show(browser, folder, name)
                    firsts.append(int(browser.value("document.documentElement.dataset.first")))
                line = (
                    f"{name}: first picture after {statistics.median(firsts):.0f} ms ({min(firsts)} to {max(firsts)})"
                )
                if not page["worker"]:
                    pictures, seconds, asked, drawn = run(browser, DRAG)
                    frames, rest = run(browser, STILL)
                    line += f"; {pictures / seconds:.1f} pictures a second of {frames / rest:.1f} with nothing to draw"
                    line += f", {asked:.1f} ms to compute one, {drawn:.1f} ms to draw it"
                print(line, flush=True)
            show(browser, folder, "load-tracking")
            program, times = ROOT / "target" / "release" / "opplab-page", []
            for _ in range(ROUNDS):
                began = time.perf_counter()
                subprocess.run([program], input=BENCH, text=True, check=True, capture_output=True)
                native = (time.perf_counter() - began) * 1e3
                times.append((native, run(browser, ENGINE.replace("QUESTION", repr(BENCH)))))
            ratio = statistics.median(native / wasm for native, wasm in times)
            native, wasm = (statistics.median(each) for each in zip(*times, strict=True))
            print(f"engine: {native:.0f} ms native, {wasm:.0f} ms in the browser, speed {ratio:.2f} of native")
            trace = Path(scratch) / "big.dat"
            big_trace(trace)
            infos, wholes = [], []
            for _ in range(3):
                show(browser, folder, "trace")
                wait(browser, "document.documentElement.dataset.took")
                browser.value("delete document.documentElement.dataset.took; " + WATCH)
                root = browser.call("DOM.getDocument")["root"]["nodeId"]
                field = browser.call("DOM.querySelector", nodeId=root, selector="input[type=file]")["nodeId"]
                browser.call("DOM.setFileInputFiles", nodeId=field, files=[str(trace)])
                wholes.append(int(wait(browser, "document.documentElement.dataset.took")))
                infos.append(browser.value("window.infoAt"))
            memory = int(browser.value("document.documentElement.dataset.memory")) / 1e6
            print(
                f"trace.dat of {trace.stat().st_size / 1e6:.0f} MB: info after {statistics.median(infos):.0f} ms,"
                f" all after {statistics.median(wholes):.0f} ms; {memory:.0f} MB of the module's memory,"
                f" {peak_mb(browser):.0f} MB at most of the renderer's process"
            )
        finally:
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

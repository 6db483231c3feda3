"""Runs the notebooks of the documentation and keeps what they show: ``python -m lab.studies.notebooks``.

A notebook's cells are written here as text, so that they can be read in a diff; the ``.ipynb`` files are made of them.
Tests run every cell.  Needs the extra ``docs``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lab.studies import pages

# Name -> cells: Markdown begins with "#" or with a word after a line of its own "%%".
NOTEBOOKS: dict[str, list[tuple[str, str]]] = {
    "first-run": [
        ("markdown", "# A first run\n\nA machine, a workload, a policy: what happens, and what does it cost?"),
        ("code", 'import opplab\n\njuno = opplab.Machine.load("juno-r2")\njuno'),
        (
            "markdown",
            "Two clusters of different capacity. The load: ten tasks that work 800 us every 16 ms, counted on the"
            " biggest CPU at its highest clock.",
        ),
        ("code", "work = opplab.Workload.periodic(10, run_us=800, period_us=16000)\nwork"),
        (
            "code",
            'run = opplab.simulate(juno, work, opplab.Policy(kernel="6.12"), seconds=2)\nrun',
        ),
        ("markdown", "What ran where, and the clocks, in 20 ms from the middle:"),
        ("code", "run.plot(seconds=0.02)"),
        ("markdown", "All that was measured is a polars table; its text has the units."),
        ("code", 'print(run.metrics.head(12))\nrun.metrics.filter(metric="energy")["value"].item()'),
    ],
    "governors": [
        ("markdown", "# Governors against each other\n\nOne workload under several governors, with several seeds."),
        (
            "code",
            "import opplab\nimport polars as pl\n\nwork = opplab.Workload.periodic(6, run_us=2500, period_us=16000)\n"
            'runs = [\n    opplab.simulate("juno-r2", work, governor, seconds=1, seed=seed).metrics\n'
            '    for governor in ("schedutil", "ondemand", "performance", "powersave")\n'
            "    for seed in (1, 2, 3)\n]\nresults = pl.concat([pl.DataFrame(run) for run in runs])",
        ),
        (
            "code",
            'wanted = ["energy", "missed_activations", "freq_changes:policy0"]\n'
            'table = (\n    results.filter(pl.col("metric").is_in(wanted))\n'
            '    .group_by("policy", "metric", maintain_order=True)\n    .agg(pl.col("value").mean().round(3))\n'
            '    .pivot(on="metric", index="policy", values="value")\n)\ntable',
        ),
        (
            "markdown",
            "Each row has its energy and its missed activations. Benchmarks work the same way:",
        ),
        (
            "code",
            'hackbench = opplab.Workload.benchmark("hackbench", groups=1)\n'
            'for governor in ("schedutil", "performance"):\n'
            '    run = opplab.simulate("juno-r2", hackbench, governor, seconds=10)\n'
            '    print(governor, run.metrics.filter(metric="elapsed")["value"].to_list(), "s")',
        ),
    ],
    "python-governor": [
        (
            "markdown",
            "# A governor of your own\n\nA class of Python that sees plain facts, in place of the kernel's.",
        ),
        (
            "code",
            "import opplab\n\n\nclass Steps(opplab.Governor):\n"
            '    """One step up when the policy is nearly full, one step down when it is not."""\n\n'
            "    def update(self, facts):\n"
            "        util = max(cpu.util_cfs_boost / cpu.capacity for cpu in facts.cpus)\n"
            "        share = facts.cur_khz / facts.max_khz\n"
            "        table = facts.table_khz\n"
            "        place = max((i for i, khz in enumerate(table) if khz <= facts.cur_khz), default=0)\n"
            "        if util > 0.8 * share:\n            place += 1\n"
            "        elif util < 0.5 * share:\n            place -= 1\n"
            "        return table[min(max(place, 0), len(table) - 1)]",
        ),
        (
            "code",
            "work = opplab.Workload.periodic(4, run_us=3000, period_us=16000)\nrows = []\n"
            'for name, governor in (("schedutil", None), ("steps", Steps())):\n'
            '    run = opplab.simulate("juno-r2", work, seconds=1, governor=governor)\n'
            '    values = dict(run.metrics.select("metric", "value").iter_rows())\n'
            '    rows.append((name, round(values["energy"], 4), values["missed_activations"]))\nrows',
        ),
        ("code", "run.plot(start=0.0, seconds=0.06)"),
        (
            "markdown",
            "[Governors and placement in Python](../python-policies.md) has more; "
            "the reference of `opplab.policies` lists all facts.",
        ),
    ],
    "load-tracking": [
        ("markdown", "# Load tracking\n\nThe kernel's algorithms by their names, in integers, from Python."),
        (
            "code",
            "import numpy as np\n\nfrom opplab import kernel\n\ntimes_ns = np.arange(1, 401) * 1_000_000\n"
            "running = np.arange(400) % 16 < 8\nfor half_life in (8, 16, 32):\n"
            "    util = kernel.pelt(times_ns, running, half_life=half_life).util_avg\n"
            '    print(f"half-life {half_life:>2} ms: {util[-16:].min():>4} to {util[-16:].max():>4} of 1024")',
        ),
        (
            "markdown",
            "A short half-life follows the task at once and swings; a long one smooths, and is late. `util_avg` of"
            " a task that starts, with 8 ms of work every 16 ms, and sleeps from 200 ms on:",
        ),
        (
            "code",
            "burst = running & (np.arange(400) < 200)\nkernel.plot_signals(\n    times_ns,\n    {\n"
            '        f"half-life {ms} ms": kernel.pelt(times_ns, burst, half_life=ms).util_avg\n'
            "        for ms in (8, 16, 32)\n    },\n)",
        ),
        ("markdown", "At half the clock, an invariant signal counts half of the time:"),
        ("code", "int(kernel.pelt(times_ns, running, freq_scale=512).util_avg[-1])"),
        ("markdown", "How long does a task that begins to run need to fill a CPU?"),
        ("code", "{util: kernel.ramp_up_periods(util) for util in (256, 512, 819, 1000)}"),
        ("markdown", "And what does schedutil ask for?"),
        ("code", "[(util, kernel.map_util_freq(util, 3_000_000)) for util in (200, 500, 819, 1000)]"),
    ],
    "recordings": [
        (
            "markdown",
            "# Read and explain a recording\n\nA simulated run stands for it here; any `trace.dat`, ftrace text,"
            " Perfetto or systrace file is read the same way.",
        ),
        (
            "code",
            "import opplab\n\nwork = opplab.Workload.periodic(6, run_us=4000, period_us=16000)\n"
            'opplab.simulate("juno-r2", work, seconds=0.5).to_trace("recorded.dat")\n'
            'trace = opplab.read_trace("recorded.dat")\ntrace',
        ),
        ("code", 'trace.events("sched_switch").select("time_ns", "cpu", "prev_comm", "next_comm").head()'),
        ("markdown", "The kernel's signals, rebuilt from the events:"),
        (
            "code",
            'signals = trace.signals(opplab.Machine.load("juno-r2"))\n'
            'signals.task_summary().select("comm", "running_ns", "util_avg_mean", "missed")',
        ),
        ("code", "trace.plot(seconds=0.02)"),
        (
            "code",
            'print(opplab.explain("recorded.dat", machine=opplab.Machine.load("juno-r2"), cpu=1, at=0.2))',
        ),
    ],
}


def plain(name: str) -> dict[str, Any]:
    """Give a notebook as its JSON, without what it shows."""
    cells: list[dict[str, Any]] = []
    for number, (kind, text) in enumerate(NOTEBOOKS[name]):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"{name}-{number}", "metadata": {}}
        cell["source"] = text.splitlines(keepends=True)
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        cells.append(cell)
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def run(name: str) -> str:
    """Run a notebook in a folder of its own; give it as text with what it shows."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.reads(json.dumps(plain(name)), as_version=4)  # type: ignore[no-untyped-call, unused-ignore]
    with TemporaryDirectory() as folder:
        os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
        where = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=300, resources=where, coalesce_streams=True).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    notebook.metadata.pop("language_info", None)
    text: str = nbformat.writes(notebook)  # type: ignore[no-untyped-call, unused-ignore]
    return text.rstrip() + "\n"


def texts(docs: Path) -> dict[Path, str]:
    """Make the notebooks anew."""
    return {docs / "notebooks" / f"{name}.ipynb": run(name) for name in NOTEBOOKS}


if __name__ == "__main__":
    sys.exit(pages.main("notebooks", __doc__, texts))

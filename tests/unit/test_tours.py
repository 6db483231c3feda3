"""The tours and the page on policies in Python show what really happens."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import opplab
from lab.studies import tours

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", tours.TOURS)
def test_tours_are_true(name: str) -> None:
    text = (DOCS / name).read_text()
    assert text.count("$ opplab explain") >= 3
    assert tours.render(text, DOCS) == text, "`make docs` writes the tours anew"


def test_a_tour_that_is_not_true_is_seen() -> None:
    text = (DOCS / tours.TOURS[0]).read_text()
    assert tours.render(text.replace("util_avg ", "util_avg 1", 1), DOCS) == text


def test_policies_in_python_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Every block of the page runs, one after the other, and prints what the page says."""
    text = (DOCS / "python-policies.md").read_text()
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(code, "python-policies.md", "exec"), names)
    shown = "".join(re.findall(r"```text\n(.*?)```", text, re.DOTALL))
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize("machine", ["epyc-7502-2s", "juno-r2"], ids=["a policy a CPU", "shared policies"])
def test_the_pages_schedutil_is_the_kernels_with_deadline_tasks_and_clamps(machine: str) -> None:
    """It held the clock of a busy CPU where deadline bandwidth grew, which sugov_update_single_freq() does not.

    Clamps of tasks had no effect on it.
    """
    (code, *_) = re.findall(r"```python\n(.*?)\nours = ", (DOCS / "python-policies.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "python-policies.md", "exec"), names)
    timer = {"ref": "unique", "period": 10000}
    deadline = {"policy": "SCHED_DEADLINE", "dl-runtime": 3000, "dl-deadline": 10000, "dl-period": 10000}
    tasks = {
        "web": {"instance": 6, "run": 1500, "timer": timer | {"period": 8000}},
        "control": {**deadline, "run": 1200, "timer": timer},
        "batch": {"instance": 4, "run": 20000, "sleep": 3000},
    }
    policy = opplab.Policy(driver="acpi-cpufreq" if machine.startswith("epyc") else "")
    clamps: list[dict[str, Any]] = [{}, {"web": {"util_min": 700}, "batch": {"util_max": 300}}]
    seen = []
    for clamp in clamps:
        clamped = {name: task | clamp.get(name, {}) for name, task in tasks.items()}
        work = opplab.Workload.parse(json.dumps({"tasks": clamped}))
        ours, yours = (
            opplab.simulate(machine, work, policy, seconds=0.5, governor=governor).events("cpu_frequency")
            for governor in (None, names["Schedutil"]())
        )
        assert ours.height > 20
        assert yours.equals(ours)
        seen.append(ours)
    assert not seen[0].equals(seen[1])

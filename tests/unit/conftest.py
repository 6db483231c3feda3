"""Cases that several tests run."""

import json

import pytest

from opplab import _opplab, catalog


def rtapp(tasks: int = 4, run_us: int = 800, period_us: int = 16000) -> str:
    """Give an rt-app file of equal periodic tasks."""
    timer = {"ref": "unique", "period": period_us}
    return json.dumps({"tasks": {f"task{number}": {"run": run_us, "timer": timer} for number in range(tasks)}})


@pytest.fixture(scope="session")
def juno() -> _opplab.Machine:
    path = catalog.find("machine", "juno-r2")
    return _opplab.Machine.parse(str(path), path.read_text())


@pytest.fixture
def small_case(juno: _opplab.Machine) -> _opplab.Case:
    workload = _opplab.Workload.parse("four", "four.json", rtapp(), "workgen")
    return _opplab.Case.build(juno, workload, 'kernel = "5.18"', 1, 200_000_000)

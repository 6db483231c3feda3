"""The notebooks run, hold what they are made of, and objects show themselves."""

import json
from pathlib import Path

import pytest

import opplab
from lab.studies import notebooks

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"


@pytest.mark.parametrize("name", notebooks.NOTEBOOKS)
def test_a_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = json.loads((FOLDER / f"{name}.ipynb").read_text())
    made = notebooks.plain(name)
    assert [cell["source"] for cell in kept["cells"]] == [cell["source"] for cell in made["cells"]], "make docs"
    assert not any(output["output_type"] == "error" for cell in kept["cells"] for output in cell.get("outputs", ()))
    assert any(cell.get("outputs") for cell in kept["cells"])
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for cell in made["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{name}.ipynb", "exec"), names)


def test_objects_show_themselves(tmp_path: Path) -> None:
    work = opplab.Workload.periodic(2, run_us=800, period_us=16000)
    run = opplab.simulate("juno-r2", work, seconds=0.1)
    run.to_trace(tmp_path / "run.dat")
    trace = opplab.read_trace(tmp_path / "run.dat")
    picture = run.plot(seconds=0.02)
    shown = [opplab.Machine.load("juno-r2"), work, run, trace, picture, trace.plot(), run.metrics]
    shown.append(opplab.Experiment.load("juno-eas"))
    for one in shown:
        html = one._repr_html_()  # type: ignore[attr-defined]
        assert html.startswith("<div class=opplab>") and html.count("<table") == html.count("</table>")
    assert "periodic0" in picture._repr_html_()
    assert picture.write(tmp_path / "run.svg").read_text().startswith("<svg")
    assert str(run.metrics).splitlines()[0].split() == ["metric", "value", "unit", "better"]
    with pytest.raises(opplab.InputError, match="not within the run"):
        run.plot(start=5)


def test_names_stand_for_objects() -> None:
    run = opplab.simulate("juno-r2", "hackbench", "performance", seconds=0.05)
    assert run.metrics.filter(metric="energy").height == 1
    with pytest.raises(opplab.InputError, match="no benchmark is called `hackbenhc`; did you mean `hackbench`"):
        opplab.simulate("juno-r2", "hackbenhc")
    with pytest.raises(opplab.InputError, match="has no parameter `grups`; did you mean `groups`"):
        opplab.Workload.benchmark("hackbench", grups=1)
    with pytest.raises(opplab.InputError, match="has no parameter `steps`"):
        opplab.Workload.benchmark("nas-mpi", steps=100)


def test_parameters_may_be_words() -> None:
    """Steps of the kernel `lu` are shorter and less even than those of `cg`: more of the time is waited for."""
    elapsed = {
        kernel: opplab.simulate(
            "skylake-8x-uma", opplab.Workload.benchmark("nas-mpi", kernel=kernel, ranks=4), "performance", seconds=1
        )
        .metrics.filter(metric="elapsed")["value"]
        .item()
        for kernel in ("cg", "lu")
    }
    assert elapsed["lu"] > 1.05 * elapsed["cg"]
    with pytest.raises(opplab.InputError, match="kernel"):
        opplab.simulate("skylake-8x-uma", opplab.Workload.benchmark("nas-mpi", kernel="c g"), "performance", seconds=1)

"""The notebooks run, hold what they are made of, and objects show themselves."""

import ast
import json
import re
from pathlib import Path

import numpy as np
import pytest

import opplab
from lab.studies import notebooks
from opplab import kernel
from opplab.report import svg

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "notebooks"


def shown(source: str, names: dict[str, object], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What a cell prints, and the text of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if isinstance(last, ast.Expr) else None
    return list(filter(None, (capsys.readouterr().out, "" if value is None else repr(value))))


@pytest.mark.parametrize("name", notebooks.NOTEBOOKS)
def test_a_notebook_runs_and_shows_what_it_holds(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = json.loads((FOLDER / f"{name}.ipynb").read_text())
    made = notebooks.plain(name)
    assert [cell["source"] for cell in kept["cells"]] == [cell["source"] for cell in made["cells"]], "make docs"
    assert not any(output["output_type"] == "error" for cell in kept["cells"] for output in cell.get("outputs", ()))
    assert any(cell.get("outputs") for cell in kept["cells"])
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for cell in kept["cells"]:
        if cell["cell_type"] == "code":
            held = ["".join(output.get("text") or output["data"]["text/plain"]) for output in cell["outputs"]]
            assert shown("".join(cell["source"]), names, capsys) == held, "make docs"


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
    alone = picture.write(tmp_path / "run.svg").read_text()
    assert alone.startswith("<svg") and ".clock{" in alone, "it has its colours"
    assert str(run.metrics).splitlines()[0].split() == ["metric", "value", "unit", "better"]
    with pytest.raises(opplab.InputError, match="not within the run"):
        run.plot(start=5)


def test_the_curve_of_a_signal_is_its_values() -> None:
    times_ns = np.arange(1, 201) * 1_000_000
    util = kernel.pelt(times_ns, np.ones(200, dtype=bool)).util_avg
    picture = kernel.plot_signals(times_ns, {"util_avg": util, "half": util // 2})
    path, half = re.findall(r'<path d="M([^"]*)"', picture.image)
    ys = [float(point.split()[1]) for point in path.split("L")]
    assert len(ys) == 200
    assert "<circle" not in picture.image, "so many points are a curve"
    # Height is linear in the value, and half of it is half as high.
    bottom = ys[0] + (ys[0] - ys[-1]) * float(util[0]) / float(util[-1] - util[0])
    for y, value in zip(ys, util, strict=True):
        assert bottom - y == pytest.approx((bottom - ys[-1]) * float(value) / float(util[-1]), abs=0.3)
    assert bottom - float(half.split("L")[-1].split()[1]) == pytest.approx((bottom - ys[-1]) / 2, abs=0.5)
    for name in ("util_avg", "half", "time, ms"):
        assert f">{name}</text>" in picture._repr_html_()
    with pytest.raises(opplab.InputError, match="`short` has 1 values for 200 times"):
        kernel.plot_signals(times_ns, {"short": [1]})
    with pytest.raises(opplab.InputError, match="nothing to draw"):
        kernel.plot_signals([], {})


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


def test_figures_of_the_docs_are_for_dark_schemes_too() -> None:
    figures = sorted((ROOT / "docs/figures").glob("*.svg"))
    assert figures
    assert not [file.name for file in figures if svg.ALONE not in file.read_text(encoding="utf-8")]

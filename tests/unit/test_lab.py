"""The pages that compute in the browser: the same bytes as natively, and no script runs from a link."""

import base64
import functools
import gzip
import json
import random
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
import pytest
from test_browser import CHROMIUM, Browser

import opplab
from opplab import kernel

import forked

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import make_pages  # noqa: E402

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="skipped: there is no chromium to open the pages in"),
    pytest.mark.skipif(not make_pages.has_target(), reason=f"skipped: Rust cannot compile for {make_pages.TARGET}"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("lab")
    # What visitors load, and the aim for it.
    assert make_pages.make(made, "../index.html") < 2_500_000
    return made


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.process.terminate()
    opened.process.wait()


def run(browser: Browser, script: str) -> Any:
    done = browser.call("Runtime.evaluate", expression=script, returnByValue=True)
    assert "exceptionDetails" not in done, done
    return done["result"].get("value")


def show(browser: Browser, folder: Path, page: str, link: str) -> str:
    """Open a page and give its state once it has one: `ready` or `error`."""
    browser.call("Page.navigate", url="about:blank")
    browser.call("Page.navigate", url=f"file://{folder}/{page}.html#{link}")
    for _ in range(600):
        if state := run(browser, "document.documentElement?.dataset.state || ''"):
            return str(state)
        time.sleep(0.05)
    raise AssertionError(f"{page} shows nothing")


@functools.cache
def native_program() -> Path:
    make_pages.pages()
    return ROOT / "target" / "release" / "opplab-page"


def native(links: list[str], dropped: Path | None = None) -> list[str]:
    program = [native_program(), *([dropped] if dropped else [])]
    text = "\n".join(links) + "\n"
    return subprocess.run(program, input=text, check=True, capture_output=True, text=True).stdout.splitlines()


def drawn(random_: random.Random, page: dict[str, Any]) -> str:
    """Give a link with random values of a page's controls."""
    values = []
    for control in page["controls"]:
        if control["kind"] == "range":
            most = (
                control["max"] if random_.random() < 0.5 else control["min"] + (control["max"] - control["min"]) // 20
            )
            values.append((control["name"], str(random_.randint(control["min"], most))))
        elif control["kind"] == "choice":
            values.append((control["name"], random_.choice(control["of"])))
    return page["name"] + "#" + "&".join(f"{name}={quote(value)}" for name, value in values)


def test_browser_and_native_answers_are_the_same_bytes(browser: Browser, folder: Path) -> None:
    """200 random links and the pages' own examples; refusals are compared, too."""
    assert show(browser, folder, "load-tracking", "") == "ready"
    found = make_pages.pages()
    random_ = random.Random(40)
    quick = [page for page in found if not page["worker"]]
    links = [f"{page['name']}#{link}" for page in quick for _, link in page["examples"]]
    links += [drawn(random_, page) for page in quick for _ in range(200 // len(quick))]
    # Each machine, kernels of every generation: the engine's events have the same fingerprints.
    bench = next(page for page in found if page["name"] == "bench")
    kernels = ("4.19", "5.4", "5.18", "6.1", "6.6", "6.12", "6.18")
    for at, machine in enumerate(next(c["of"] for c in bench["controls"] if c["name"] == "machine")):
        two = f"kernel={kernels[at % 7]}\ngovernor=performance kernel={kernels[(at + 3) % 7]}"
        links.append(f"bench#machine={machine}&length_ms=100&seeds=3&policies={quote(two)}")
    script = f"""{json.dumps(links)}.map((whole) => {{
      const [page, query] = whole.split("#"), e = lab.engine;
      e.put(0, new TextEncoder().encode(page)); e.put(1, new TextEncoder().encode(query));
      const answer = (kind) => {{
        const length = e.exports.ask(kind);
        return new TextDecoder().decode(new Uint8Array(e.exports.memory.buffer, e.exports.output(), length));
      }};
      let text = answer(1);
      for (let steps; (steps = JSON.parse(text).progress) && steps[0] < steps[1];) text = answer(3);
      return text;
    }}).join("\\n")"""
    theirs, ours = run(browser, script).splitlines(), native(links)
    assert len(ours) == len(links)
    for link, one, other in zip(links, theirs, ours, strict=True):
        assert one == other, link
        assert not (link.startswith("bench#") and other.startswith('{"error"')), other
    refused = [link for link, answer in zip(links, ours, strict=True) if answer.startswith('{"error"')]
    assert len(refused) < len(links) // 2, refused[:3]


def test_the_bench_has_the_command_lines_energies(tmp_path: Path) -> None:
    """The command that the page shows gives the table that it shows, with the same changes and intervals."""
    answer = json.loads(native(["bench#length_ms=300&seeds=4"])[0])
    (tmp_path / "workload.json").write_text(answer["values"]["workload"])
    command = [*forked.words(), *shlex.split(answer["command"])[1:]]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    for label, energy, change, *_ in answer["tables"][0]["rows"]:
        row = next(line for line in done.stdout.splitlines() if line.split()[0] == label.split("=")[1])
        assert row.split()[1] == energy.removesuffix(" mJ")
        ends = re.findall(r"[-+][0-9.]+", change)
        assert all(end in done.stdout for end in ends) and len(ends) == (0 if label == "governor=schedutil" else 3)


def drop(browser: Browser, path: Path) -> dict[str, Any]:
    """Give a file to the open page's file field, and what the page shows of it in the end.

    A page may still be at its own example: its end would pass for that of the file.
    """
    for _ in range(1200):
        if not run(browser, "document.documentElement.dataset.busy || ''"):
            break
        time.sleep(0.05)
    run(browser, "delete document.documentElement.dataset.took")
    root = browser.call("DOM.getDocument")["root"]["nodeId"]
    field = browser.call("DOM.querySelector", nodeId=root, selector="input[type=file]")["nodeId"]
    browser.call("DOM.setFileInputFiles", nodeId=field, files=[str(path)])
    for _ in range(1200):
        if run(browser, "document.documentElement.dataset.took || ''"):
            break
        time.sleep(0.05)
    script = """({error: document.getElementById("error").textContent,
      facts: [...document.querySelectorAll("#facts > div")].map((row) =>
        [...row.children].map((cell) => cell.firstChild.data)),
      rows: [...document.querySelectorAll("#tables tbody tr")].map((row) =>
        [...row.cells].map((cell) => cell.textContent))})"""
    return dict(run(browser, script))


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "run.dat"
    work = opplab.Workload.periodic(6, run_us=4000, period_us=16000)
    policy = opplab.Policy(tunables={"rate_limit_us": 10000})
    opplab.simulate(opplab.Machine.load("juno-r2"), work, policy, seconds=0.5).to_trace(path)
    return path


def test_a_dropped_trace_has_the_command_lines_numbers(browser: Browser, folder: Path, recording: Path) -> None:
    """As `trace signals`, `trace energy` and `explain --why-slow` have them; the browser as natively."""
    link = "machine=juno-r2&why_slow=yes"
    answer = json.loads(native(["trace#" + link], recording)[0])
    tables = {table["title"]: table["rows"] for table in answer["tables"]}

    def of_cli(*words: str) -> Any:
        command = [*forked.words(), *words, "-m", "juno-r2", "--format", "json"]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    def ms(ns: int) -> str:
        return f"{(ns + 500) // 1000 / 1000:.3f} ms"

    def is_mj(text: str, joules: float) -> bool:
        return float(text.removesuffix(" mJ")) == pytest.approx(joules * 1e3, rel=6e-4)

    theirs = of_cli("trace", "signals", str(recording))
    assert len(tables["Tasks"]) == len(theirs["tasks"]) > 5
    for row, task in zip(tables["Tasks"], theirs["tasks"], strict=True):
        waits = [ms(task[f"latency_ns_{name}"]) for name in ("p50", "p99", "max")]
        expected = [str(task["pid"]), task["comm"], ms(task["running_ns"])]
        expected += [f"{task['util_avg_mean']:.1f}", str(task["util_avg_max"]), str(task["wakeups"]), *waits]
        assert row[:9] == expected
        # A task without a period has no deadline to miss; the command says 0 there.
        if row[9] == "-":
            assert not task["missed"]
        else:
            assert row[9] == f"{task['missed']} of {task['activations']}"
        assert is_mj(row[10], task["energy_j"])
    for row, cpu in zip(tables["CPUs"], theirs["cpus"], strict=True):
        assert row[:3] == [f"CPU {cpu['cpu']}", ms(cpu["running_ns"]), ms(cpu["idle_ns"])]
        assert round(float(row[3].split()[0]) * 1e3) == cpu["khz_mean"] and is_mj(row[4], cpu["cpu_j"])
    facts = {fact["name"]: fact["value"] for fact in answer["facts"]}
    for cluster in theirs["clusters"]:
        assert is_mj(facts[f"energy of {cluster['cluster']}"], cluster["energy_j"])
    slow = of_cli("explain", str(recording), "--why-slow")["findings"][1:]
    reasons = tables["What held CPUs below the speed that was needed"]
    assert [(row[0], row[1], row[3]) for row in reasons] == [
        (one["data"]["reason"], ms(one["data"]["slow_ns"]), ms(one["data"]["lost_ns"]))
        for one in slow
        if "reason" in one["data"]
    ]
    assert slow

    assert show(browser, folder, "trace", link) == "ready"
    shown = drop(browser, recording)
    assert not shown["error"]
    assert shown["rows"] == [row for table in answer["tables"] for row in table["rows"]]
    assert dict(shown["facts"]) == facts


def test_hostile_files_end_in_a_message(browser: Browser, folder: Path, recording: Path, tmp_path: Path) -> None:
    """Whatever is dropped: an answer or a message, no script, and the page takes the next file."""
    good, random_ = recording.read_bytes(), random.Random(7)
    script = b"<img src=x onerror=window.hit=1>"
    text = (
        b"# tracer: nop\n " + script[:15] + b"-7 [000] 1.000000: sched_switch: prev_comm=%s prev_pid=0 prev_prio=120 "
    )
    text += b"prev_state=R ==> next_comm=%s next_pid=7 next_prio=120\n"
    files = {
        "empty.dat": b"",
        "cut.dat": good[: len(good) // 3],
        "noise.dat": random_.randbytes(100_000),
        "bomb.gz": gzip.compress(bytes(64 << 20), 9),
        "script.txt": text.replace(b"%s", script),
        "<img src=x onerror=window.hit=1>.dat": script,
        "packed.xz": b"\xfd7zXZ\0" + random_.randbytes(200),
        "packed.zst": b"\x28\xb5\x2f\xfd" + random_.randbytes(200),
    }
    for nth in range(12):
        damaged = bytearray(good)
        for _ in range(40):
            damaged[random_.randrange(len(damaged))] = random_.randrange(256)
        files[f"damaged{nth}.dat"] = bytes(damaged)
    assert show(browser, folder, "trace", "machine=juno-r2&why_slow=yes") == "ready"
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        shown = drop(browser, tmp_path / name)
        assert shown["error"] or shown["rows"], name
        assert "internal error" not in shown["error"] and len(shown["error"]) < 1000, (name, shown["error"])
        assert run(browser, "window.hit === undefined"), name
        if name in ("empty.dat", "noise.dat", "bomb.gz", "packed.xz", "packed.zst"):
            assert shown["error"], name
    assert not drop(browser, recording)["error"]


def test_reading_is_cancelled(browser: Browser, folder: Path) -> None:
    """Cancel ends the worker at once; what is known stays, and Run begins anew."""
    assert show(browser, folder, "bench", "seeds=40&length_ms=10000") == "ready"
    run(browser, "lab.stop.click()")
    assert run(browser, "lab.worker === null && document.getElementById('error').textContent.startsWith('Cancelled')")
    run(browser, "lab.go.click()")
    assert run(browser, "lab.worker !== null")
    run(browser, "lab.stop.click()")


def test_the_benchs_runs_go_to_perfetto(browser: Browser, folder: Path, tmp_path: Path) -> None:
    """A file a policy; what the command line reads of it is the run."""
    assert show(browser, folder, "bench", "seeds=1&length_ms=100") == "ready"
    for _ in range(600):
        if run(browser, "document.querySelectorAll('#files a').length"):
            break
        time.sleep(0.05)
    script = """(async () => { const all = [];
      for (const link of document.querySelectorAll("#files a")) {
        const bytes = new Uint8Array(await lab.blobs[all.length].arrayBuffer());
        all.push([link.download, Array.from(bytes, (one) => String.fromCharCode(one)).join("")]);
      } return all; })()"""
    done = browser.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
    files = done["result"]["value"]
    assert [name for name, _ in files] == [
        f"governor-{name}.pftrace" for name in ("schedutil", "performance", "powersave")
    ]
    for name, content in files:
        (tmp_path / name).write_bytes(content.encode("latin-1"))
        info = opplab.read_trace(tmp_path / name).info
        assert info["format"] == "perfetto" and info["cpus"] == 6 and info["events"]["sched_switch"] > 50


@pytest.mark.parametrize("form", ["toml", "dts", "debugfs", "wattson"])
def test_a_dropped_machine_becomes_the_table(browser: Browser, folder: Path, tmp_path: Path, form: str) -> None:
    """Each form that `machine export` writes has the energy model of the machine; the link then holds it."""
    machine = [*forked.words(), "machine"]
    if form == "toml":
        path = ROOT / "python" / "opplab" / "data" / "machines" / "juno-r2.toml"
    else:
        path = tmp_path / {"dts": "juno.dts", "debugfs": "energy_model", "wattson": "juno.csv"}[form]
        subprocess.run([*machine, "export", "juno-r2", "--format", form, "-o", path], check=True, capture_output=True)
    if path.is_dir():
        grep = ["grep", "-r", "", "energy_model"]
        text = subprocess.run(grep, check=True, cwd=tmp_path, capture_output=True, text=True).stdout
        path = tmp_path / "em.txt"
        path.write_text(text)
    answer = json.loads(native(["placement#"], path)[0])
    assert "error" not in answer, answer
    machine_file = ROOT / "python" / "opplab" / "data" / "machines" / "juno-r2.toml"
    ours = json.loads(native(["placement#"], machine_file)[0])

    def points(answer: dict[str, Any]) -> list[str]:
        return [line.split()[2] for line in answer["values"]["model"].splitlines()]

    if form == "wattson":
        # Measured powers, and neither capacities nor all CPUs.
        clocks = [re.findall(r"([\d.]+):", line) for line in points(answer)]
        assert clocks == [re.findall(r"([\d.]+):", line) for line in points(ours)]
        assert "one capacity" in answer["words"][1]
    else:
        assert points(answer) == points(ours)
        capacities = [line.split()[0] for line in answer["values"]["model"].splitlines()]
        assert capacities == ["383", "1024"]
    if form == "dts" and shutil.which("dtc"):
        blob = tmp_path / "juno.dtb"
        subprocess.run(["dtc", "-q", "-I", "dts", "-O", "dtb", "-o", blob, path], check=True)
        assert json.loads(native(["placement#"], blob)[0])["values"] == answer["values"]
    if form in ("toml", "debugfs"):
        whole = json.loads(native(["placement#machine=juno-r2&util=0,0,0,0,0,0"])[0])
        assert answer["tables"] == whole["tables"]
    again = json.loads(native(["placement#" + answer["link"]])[0])
    assert again == answer
    assert show(browser, folder, "placement", "task_util=200") == "ready"
    drop(browser, path)
    assert run(browser, "lab.fields.find((one) => one.control.name === 'model').get()") == answer["values"]["model"]


def test_hostile_machines_end_in_a_message(browser: Browser, folder: Path, tmp_path: Path) -> None:
    """A damaged or odd description of a machine: a message with file and place, no script, and the table stays."""
    script = "<img src=x onerror=window.hit=1>"
    files = {
        "empty.dts": (b"", "not a kind of source"),
        "noise.dtb": (b"\xd0\x0d\xfe\xed" + random.Random(3).randbytes(500), "noise.dtb"),
        "include.dts": (b"/dts-v1/;\n#include <x.dtsi>\n", "include.dts:2: it needs the preprocessor"),
        "deep.dts": (b"/dts-v1/;\n/ {" + b"a {" * 500, "nested more than"),
        "cut.dts": (b"/dts-v1/;\n/ { cpus { cpu@0 { reg = <0", "cut.dts:2"),
        "label.dts": (b"/dts-v1/;\n/ { x = <&none>; };", "no node has the label `none`"),
        "last.dts": (b"/dts-v1/;\n/ { a: a { phandle = <0xffffffff>; }; b: b { }; c { d = <&b>; }; };", "last.dts"),
        "wide.dts": (b"/dts-v1/;\n/ { " + b"".join(b"p%d; " % n for n in range(100_000)) + b"};", "wide.dts"),
        f"{script}.toml": (f"name = {script!r}".encode(), "1:"),
        "em.txt": (b"energy_model/cpu0/cpus:0-3\nrubbish\n", "em.txt:2"),
        "big.dts": (b" " * (9 << 20), "larger than"),
    }
    assert show(browser, folder, "placement", "") == "ready"
    table = run(browser, "document.getElementById('f-model').value")
    for name, (content, expected) in files.items():
        (tmp_path / name).write_bytes(content)
        shown = drop(browser, tmp_path / name)
        assert expected in shown["error"] and len(shown["error"]) < 1000, (name, shown["error"])
        assert "internal error" not in shown["error"]
        assert run(browser, "window.hit === undefined && !document.querySelector('#error *')"), name
        assert run(browser, "document.getElementById('f-model').value") == table


def test_a_quota_is_the_command_lines(tmp_path: Path) -> None:
    """The files that the page shows give the page's numbers."""
    answer = json.loads(native(["quota#burst_us=30000&length_ms=800"])[0])
    for name, content in answer["sources"]:
        (tmp_path / name).write_text(content)
    command = [*forked.words(), *shlex.split(answer["command"])[1:], "-o", "out"]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    results = pl.read_parquet(tmp_path / "out" / "results.parquet")
    found = {
        (policy, metric): value for policy, metric, value in results.select("policy", "metric", "value").iter_rows()
    }
    rows = answer["tables"][0]["rows"]
    assert len(rows) == 6
    for label, throttled, _, late, _, used in rows:
        some, of = map(int, throttled.split(" of "))
        assert found.get((label, "group_periods:/group"), 0) == of
        if of:
            assert found[label, "group_throttled_periods:/group"] == pytest.approx(100 * some / of)
        missed, activations = map(int, late.split(" of "))
        assert found[label, "activations"] == activations
        assert found[label, "missed_activations"] == pytest.approx(100 * missed / activations)
        assert found[label, "group_usage:/group"] / 0.8 == pytest.approx(float(used.split()[0]), abs=0.006)
    facts = {fact["name"]: fact["value"] for fact in answer["facts"]}
    assert int(facts["usage_usec"]) == pytest.approx(found[rows[0][0], "group_usage:/group"] * 1e6, abs=1)


def test_choices_of_f_max_are_the_command_lines(tmp_path: Path) -> None:
    """`opplab fmax` has the ratios and what kernels take, `opplab run` of the page's files what is missed."""
    answer = json.loads(native(["invariance#machine=epyc-7742-2s&run_us=15000&length_ms=300"])[0])
    command = [*forked.words(), "fmax", "epyc-7742-2s", "--format", "json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    report = report[0] if isinstance(report, list) else report
    ratios = {one["name"]: one["ratio"] for one in report["candidates"]}
    rows = {row[0]: row for row in answer["tables"][0]["rows"]}
    assert set(rows) == {"max_P", "mid", "max_boost"}
    assert all(int(row[2]) == ratios[name] for name, row in rows.items())
    own = next(kernel for kernel in report["kernels"] if kernel["kernel"] == "6.12")
    assert answer["tables"][0]["rows"][answer["tables"][0]["chosen"]][0] == own["candidate"]
    for name, content in answer["sources"]:
        (tmp_path / name).write_text(content)
    command = [*forked.words(), *shlex.split(answer["command"])[1:], "-o", "out"]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    results = pl.read_parquet(tmp_path / "out" / "results.parquet").filter(pl.col("metric") == "missed_activations")
    for policy, value in results.select("policy", "value").iter_rows():
        missed, activations = map(int, rows[policy][8].split(" of "))
        assert value == pytest.approx(100 * missed / activations)


def test_idle_states_are_those_of_the_governor_in_python() -> None:
    """The loop over sleeps, written again over `opplab.kernel.Menu`: timers that hit, no tick in the way."""
    sleeps = [150, 700, 150, 90, 2000, 30, 30, 30, 30, 30, 30, 30, 30, 150, 900, 900, 900, 5, 1500]
    listed = quote(",".join(map(str, sleeps)))
    answer = json.loads(native([f"idle#list_us={listed}&sleeps=20&hz=100&work_us=10"])[0])
    table = answer["tables"][0]["rows"]
    states = [
        (int(exit_us) * 1000, int(residency_us) * 1000, name == "POLL") for name, exit_us, residency_us, *_ in table
    ]
    now, tick = 1_000_000, 10_000_000
    menu = kernel.Menu(states, tick_ns=tick)
    for row, length in zip(answer["tables"][1]["rows"], sleeps, strict=False):
        now += 10_000
        wake, path, stopped = now + length * 1000, [], False
        while now < wake:
            to_tick = (now // tick + 1) * tick - now
            left = wake - now
            soonest = left if stopped else min(left, to_tick)
            index, stops = menu.select(now, sleep_length_ns=left, delta_tick_ns=soonest, tick_stopped=stopped)
            stopped = stopped or stops
            ends = wake if stopped else min(wake, now + to_tick)
            if index == 0:
                ends = min(ends, now + 20_000)
            until = ends + states[index][0]
            got_tick = not stopped and now + to_tick <= until
            limited = index == 0 and ends == now + 20_000
            menu.reflect(until, index=index, residency_ns=until - now, got_tick=got_tick, poll_time_limit=limited)
            path.append(table[index][0])
            now = until
        assert row[3] == " ".join(path), row


def test_all_vectors_of_the_kernel_are_equal_in_the_browser(browser: Browser, folder: Path) -> None:
    """Each family, replayed by the page from a dropped file and natively."""
    assert show(browser, folder, "vectors", "") == "ready"
    files = sorted(path for path in (ROOT / "crates" / "verify" / "vectors").iterdir() if path.suffix != ".md")
    assert len(files) > 60
    cases = 0
    for path in files:
        shown = drop(browser, path)
        assert not shown["error"], (path.name, shown)
        facts = dict(shown["facts"])
        assert facts["different"] == "0" and not shown["rows"], (path.name, shown)
        answer = json.loads(native(["vectors#"], path)[0])
        assert {fact["name"]: fact["value"] for fact in answer["facts"]} == facts
        cases += int(facts["cases"])
    assert cases > 300_000


def test_exercises_show_what_they_say() -> None:
    """Each link of the teachers' page has the figure beside it, and its text the numbers."""
    text = (ROOT / "crates" / "wasm" / "web" / "exercises.md").read_text()
    rows = re.findall(
        r'^\| <a href="\.\./lab/([\w-]+)\.html#?([^"]*)">.*?</a> \| (.*?) \| (.*?) \|$', text, re.MULTILINE
    )
    assert len(rows) >= 10 and len(re.findall("^## ", text, re.MULTILINE)) == 5
    for page, link, name, value in rows:
        answer = json.loads(native([f"{page}#{link}"])[0])
        assert "error" not in answer, (page, link, answer)
        assert answer["link"] == link, "what is a default is not in the link"
        facts = {fact["name"]: fact["value"] for fact in answer["facts"]}
        assert facts.get(name) == value, (page, link, name, facts)


def test_only_schedutils_gates_are_listed(folder: Path) -> None:
    answer = json.loads(native(["schedutil#kernel=6.12.117&than=4.17"])[0])
    gates = {row[0] for row in answer["tables"][0]["rows"]}
    assert {"headroom", "sugov_util", "rate_limit"} <= gates and not gates & {"menu_iowait", "teo_util", "feec_margin"}


def test_the_placement_examples_do_what_they_are_called() -> None:
    answer = json.loads(native(["placement#task_util=380"])[0])
    assert answer["facts"][0]["value"] in ("4", "5")


def test_extremes_are_answered(browser: Browser, folder: Path) -> None:
    """Sliders at their ends, in all directions at once: an answer or a refusal, and the page goes on."""
    quick = [page for page in make_pages.pages() if not page["worker"]]
    links = []
    for page in quick:
        for end in ("min", "max"):
            ends = {one["name"]: one[end] for one in page["controls"] if one["kind"] == "range"}
            links.append((page["name"], ends))
            links += [
                (page["name"], {**ends, one["name"]: one["min"]}) for one in page["controls"] if one["kind"] == "range"
            ]
    links += [
        ("idle", {"list_us": "10000000", "sleeps": 2000, "hz": 1000, "governor": name}) for name in ("haltpoll", "menu")
    ]
    assert show(browser, folder, "load-tracking", "") == "ready"
    for name, values in links:
        query = "&".join(f"{key}={value}" for key, value in values.items())
        answer = run(
            browser, f"(({{ error, charts }}) => error || charts.length)(lab.engine.ask(1, {name!r}, {query!r}))"
        )
        assert answer and "internal error" not in str(answer), (name, query, answer)


HOSTILE = (
    "run_us=<img src=x onerror=window.hit=1>",
    "kernel=%3Cscript%3Ewindow.hit=1%3C/script%3E",
    "%3Cimg%20src=x%20onerror=window.hit=1%3E=1",
    "run_us=99999999999999999999999999",
    "length_ms=-1",
    "__proto__=1",
    "run_us=%FF%FE",
    "a" * 20_000,
)


@pytest.mark.parametrize("link", HOSTILE)
def test_hostile_links_are_refused_and_run_no_script(browser: Browser, folder: Path, link: str) -> None:
    assert show(browser, folder, "load-tracking", link) == "error"
    assert run(browser, "window.hit === undefined && !document.querySelector('#error *') && lab.fields.length > 5")
    assert 0 < len(run(browser, "document.getElementById('error').textContent")) < 400


def test_slider_keyboard_link_and_sizes(browser: Browser, folder: Path) -> None:
    """A key on a slider moves picture and link; the link gives the same picture; nothing is asked of a network."""
    for page in (one["name"] for one in make_pages.pages()):
        for width in (390, 1280):
            browser.call(
                "Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width < 500
            )
            assert show(browser, folder, str(page), "") == "ready"
            for _ in range(600 if page in ("bench", "trace", "vectors") else 0):
                if run(browser, "document.documentElement.dataset.took"):
                    break
                time.sleep(0.05)
            assert run(browser, f"document.documentElement.scrollWidth <= {width}"), (page, width)
            assert run(browser, "document.querySelectorAll('#facts dd').length > 0")
            assert run(browser, "lab.pictures.length > 0") == (page != "vectors")
    assert show(browser, folder, "load-tracking", "") == "ready"
    before = run(browser, "document.getElementById('facts').innerText")
    run(browser, "document.querySelector('input[type=range]').focus()")
    for _ in range(20):
        for kind in ("keyDown", "keyUp"):
            browser.call("Input.dispatchKeyEvent", type=kind, key="ArrowRight", windowsVirtualKeyCode=39)
    time.sleep(0.5)
    after = run(browser, "document.getElementById('facts').innerText")
    link = run(browser, "document.getElementById('link').value.split('#')[1]")
    assert after != before and link.startswith("run_us=")
    browser.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
    assert show(browser, folder, "load-tracking", link) == "ready"
    assert run(browser, "document.getElementById('facts').innerText") == after
    browser.call(
        "Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1
    )
    assert not browser.errors
    assert [url for url in browser.requests if not url.startswith(("file:", "about:", "data:", "blob:"))] == []


def test_the_module_reaches_for_nothing(folder: Path) -> None:
    """No imports: whatever a file makes it do stays in its own memory."""
    text = (folder / "lab.wasm.js").read_text().split('"')[1]
    module, at = gzip.decompress(base64.b64decode(text)), 8
    sections = []
    while at < len(module):
        sections.append(module[at])
        at, size, shift = at + 1, 0, 0
        while True:
            byte, at = module[at], at + 1
            size, shift = size | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        at += size
    assert 2 not in sections

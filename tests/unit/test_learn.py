"""`opplab learn`: models from recordings."""

import json
import re
import tomllib
from pathlib import Path

import polars as pl
import pytest

from opplab import Experiment, Policy, Workload, read_trace, simulate
from opplab.errors import InputError
from opplab.trace.learn import Group, Model, learn, left_out, read, to_rtapp, to_toml
from opplab.trace.recording import Trace

from calls import answered, called

ROUNDS = 40
CLIENT_US, SERVER_US = 60, 40


def ping_pong(path: Path) -> Path:
    """Write a trace of a client on CPU 0 and a server on CPU 1 that answer each other.

    A fifth of either's work comes after its wake-up of the other.
    """
    lines = ["# tracer: nop", "#"]

    def line(us: int, cpu: int, who: tuple[str, int], event: str) -> None:
        name, pid = who
        lines.append(f"{name:>16}-{pid:<5} [{cpu:03}] d..2. {us // 10**6}.{us % 10**6:06}: {event}")

    client, server, idle = ("client", 10), ("server", 20), ("<idle>", 0)
    switch = (
        "sched_switch: prev_comm={} prev_pid={} prev_prio={} prev_state={} ==> next_comm={} next_pid={} next_prio=120"
    )

    def goes(us: int, cpu: int, who: tuple[str, int], on: bool) -> None:
        swapper = (f"swapper/{cpu}", 0)
        first, then = (swapper, who) if on else (who, swapper)
        line(us, cpu, idle if on else who, switch.format(*first, 120, "R" if on else "S", *then))

    now = 1_000_000
    goes(now, 0, client, on=True)
    for _ in range(ROUNDS):
        for waker, woken, work_us in ((client, server, CLIENT_US), (server, client, SERVER_US)):
            end = now + work_us
            wake = end - work_us // 5
            cpu, other = (0, 1) if waker is client else (1, 0)
            line(wake, cpu, waker, f"sched_waking: comm={woken[0]} pid={woken[1]} prio=120 target_cpu=00{other}")
            goes(end, cpu, waker, on=False)
            goes(end, other, woken, on=True)
            now = end
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return learn(Trace(ping_pong(tmp_path / "pair.txt")))


def test_who_wakes_whom_and_how_long_each_runs(model: Model) -> None:
    client, server = model.groups
    assert (client.name, client.partner, server.name, server.partner) == ("client", "server", "server", "client")
    assert set(client.run_us) == {CLIENT_US} and set(server.run_us) == {SERVER_US}
    assert client.after == server.after == 0.2
    assert (client.threads, client.iowait) == (1, 0.0)


def test_a_thread_of_a_pool_is_refused_with_the_name_of_the_pool(tmp_path: Path) -> None:
    """`t5`, as every listing has it, was no thread of the recording, without a reason."""
    path = ping_pong(tmp_path / "pair.txt")
    path.write_text(path.read_text().replace("client", "t5"))
    with pytest.raises(
        InputError, match="called `t5`; it is one of the threads that are learnt together as `t`: --task t"
    ):
        learn(Trace(path), ["t5"])
    assert [group.name for group in learn(Trace(path), ["t"]).groups] == ["t"]


@pytest.mark.parametrize(("server_us", "unlike"), [(100, False), (300, True)])
def test_threads_that_are_learnt_together_and_unlike_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server_us: int, unlike: bool
) -> None:
    """Names that differ in digits alone are no proof that threads do the same."""
    monkeypatch.setitem(globals(), "SERVER_US", server_us)
    path = ping_pong(tmp_path / "pair.txt")
    path.write_text(path.read_text().replace("client", "worker1").replace("server", "worker12"))
    trace = Trace(path)
    model = learn(trace)
    assert [(one.name, one.threads) for one in model.groups] == [("worker", 2)]
    notes = [note for note in left_out(trace, model) if "unlike" in note]
    assert len(notes) == unlike
    if unlike:
        # The client runs for 60 us, the server for 300.
        assert "2 threads are learnt together as `worker`" in notes[0]
        assert "runs of worker1 take 0.06 ms in the mean, of worker12 0.3 ms" in notes[0]


def test_the_file_is_read_again(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "model.toml"
    path.write_text(to_toml(model), encoding="utf-8")
    assert read(path) == model
    path.write_text(to_toml(model).replace("after = 0.2", "aftr = 0.2"), encoding="utf-8")
    with pytest.raises(InputError, match="group 1 has no after"):
        read(path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("threads = 1.5", "integers"),
        ("threads = 0", "needs a thread"),
        ("run_us = 3", "lists"),
        ("wait_us = []", "lists"),
        ("wait_us = [1.0, nan]", "nan in wait_us"),
        ("run_us = [inf]", "inf in run_us"),
        ("run_us = [-1.0]", "-1.0 in run_us"),
        ("after = true", "True in after"),
        ("iowait = 1.5", "a share above 1"),
        ("woken_by = 1", "woken_by"),
        ("woken_by = { x = nan }", "nan in woken_by"),
    ],
)
def test_values_that_are_none_are_named(model: Model, tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "model.toml"
    key = line.split(" ", maxsplit=1)[0]
    path.write_text(re.sub(rf"^{key} = .*$", line, to_toml(model), count=1, flags=re.MULTILINE), encoding="utf-8")
    with pytest.raises(InputError, match=f"group 1 .*{words}"):
        read(path)


def test_it_runs_as_threads_that_post_and_wait(model: Model) -> None:
    events = Workload.parse(to_rtapp(model, seconds=1)).events()
    client = events.filter(events["task"] == "client-0")["event"].to_list()[:4]
    server = events.filter(events["task"] == "server-0")["event"].to_list()[:4]
    assert [one.split()[0] for one in client] == ["run", "sem_post", "run", "sem_wait"]
    assert [one.split()[0] for one in server] == ["sem_wait", "run", "sem_post", "run"]


def test_a_recording_without_wake_ups_is_refused(tmp_path: Path) -> None:
    path = ping_pong(tmp_path / "pair.txt")
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "sched_waking" not in line]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="sched_waking"):
        learn(Trace(path))


def test_a_damaged_event_costs_that_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Switches and wake-ups that lack a pid, a name or a state are as if they had not been recorded."""
    path = ping_pong(tmp_path / "pair.txt")
    whole = learn(Trace(path))
    events = Trace.events

    def damaged(trace: Trace, *names: str) -> pl.DataFrame:
        table = events(trace, *names)
        fields = [name for name in table.columns if name.startswith(("prev_", "next_", "pid", "comm"))]
        lost = [table[-1:].with_columns(pl.lit(None).cast(table[name].dtype).alias(name)) for name in fields]
        return pl.concat([table, *lost])

    monkeypatch.setattr(Trace, "events", damaged)
    assert learn(Trace(path)) == whole
    monkeypatch.setattr(Trace, "events", lambda trace, *names: events(trace, *names).drop("prev_pid", strict=False))
    with pytest.raises(InputError, match="sched_switch has no prev_pid"):
        learn(Trace(path))


def test_what_a_model_lacks_of_its_recording_is_named(tmp_path: Path) -> None:
    """Clocks and classes are those of the recorded run; a pair of fair threads without clocks lacks nothing."""
    pair = Trace(ping_pong(tmp_path / "pair.txt"))
    assert left_out(pair, learn(pair)) == []
    tasks = {
        "fair": {"loop": -1, "run": 2000, "timer": {"ref": "f", "period": 10000}},
        "urgent": {"policy": "SCHED_FIFO", "loop": -1, "run": 300, "timer": {"ref": "u", "period": 8000}},
    }
    work = Workload.parse(json.dumps({"tasks": tasks}))
    run = simulate("juno-r2", work, Policy(), seconds=1)
    run.to_trace(tmp_path / "run.dat")
    trace, khz = Trace(tmp_path / "run.dat"), run.events("cpu_frequency")["khz"]
    clocks, classes = left_out(trace, learn(trace))
    assert f"clocks were {khz.min() / 1000:g} to {khz.max() / 1000:g} MHz" in clocks
    assert classes.startswith("real-time or deadline threads in the recording: urgent, sugov.")
    assert len(left_out(trace, learn(trace, ["fair"]))) == 1


def test_constants_with_a_source_are_those_of_models() -> None:
    from opplab.agreement.calibration import show

    rows = [row for row in show() if row["how"] in ("learnt", "published") or row["learnt"] or row["range"]]
    names = {(row["where"], row["constant"]) for row in rows}
    data = Path(show.__code__.co_filename).parents[1] / "data" / "constants.toml"
    entries = tomllib.loads(data.read_text(encoding="utf-8"))["constant"]
    assert names == {(entry["benchmark"], entry["name"]) for entry in entries}


def test_a_timer_is_not_the_work_of_who_runs_there(tmp_path: Path) -> None:
    """Tasks of timers came out as woken by who ran on their CPUs, and a recovered workload had semaphores between them.

    Method: the workload's own graph: `a` wakes `b`, timers wake the others.
    """
    timer = {"timer": {"ref": "unique", "period": 8000}}
    tasks = {
        "a": {"loop": -1, "run": 2000, "sem_post": "s", **timer},
        "b": {"loop": -1, "sem_wait": "s", "run": 1500},
        "busy": {"instance": 3, "loop": -1, "run": 5000, **timer},
    }
    of = {"tasks": tasks, "global": {"calibration": "CPU1"}}
    work = Workload.parse(json.dumps(of), name="w", file="<w>")
    run = simulate("juno-r2", work, Policy(), seconds=2.0)
    for form in ("txt", "pftrace"):
        trace = tmp_path / f"run.{form}"
        run.to_trace(trace)
        model = learn(read_trace(trace))
        wakers = {group.name: dict(group.woken_by) for group in model.groups}
        assert wakers["b"]["a"] > 0.95, wakers
        assert wakers["a"] == wakers["busy"] == {"other": 1.0}, wakers
        assert not any("hrtimer" in note for note in left_out(read_trace(trace), model))
        out = tmp_path / f"{form}.json"
        answered("trace", "to-rtapp", trace, "-m", "juno-r2", "-o", out)
        # What a task waits for when the trace ends does not come.
        found = json.loads(out.read_text())["tasks"].items()
        waits = {name for name, task in found if "sem_wait" in str(list(task["phases"].values())[:-1])}
        assert {name.split("-")[0] for name in waits} == {"b"}
    # Without the timers' events nobody can know, and the note names who it is about.
    bare = tmp_path / "bare.txt"
    lines = (tmp_path / "run.txt").read_text().splitlines()
    bare.write_text("\n".join(line for line in lines if "hrtimer" not in line) + "\n")
    recording = read_trace(bare)
    model = learn(recording)
    mixed = {group.name for group in model.groups if 0.1 <= group.woken_by.get("other", 0) <= 0.9}
    (note,) = [note for note in left_out(recording, model) if "hrtimer_expire_entry" in note]
    assert mixed and mixed == set(note.split("wake-ups of ")[1].split(" count")[0].split(", "))


X86_SLEEPER, X86_TICK = 0xFFFF_C900_00AB_CDE0, 0xFFFF_8886_27C1_C6F8
"""Where x86 has a sleeper's timer, on its kernel stack, and the tick's, in the memory of a CPU."""


def _hog_and_sleeper(path: Path, *, flags: bool, timers: bool) -> Path:
    """Write a trace of a busy thread on whose CPU a timer wakes another every 4 ms, right after a tick.

    The busy thread's own work wakes a third, which runs on another CPU. Timers' functions are numbers, as in trace.dat.
    """
    lines = ["# tracer: nop", "#"]

    def line(us: int, who: str, context: str, event: str, cpu: int = 0) -> None:
        words = f" {context}" if flags else ""
        lines.append(f"{who:>16} [{cpu:03}]{words} {us // 10**6}.{us % 10**6:06}: {event}")

    def wakes(us: int, who: str, context: str, woken: str, cpu: int) -> None:
        name, pid = woken.rsplit("-", 1)
        line(us, who, context, f"sched_waking: comm={name} pid={pid} prio=120 target_cpu={cpu:03}")

    def switch(us: int, cpu: int, prev: str, state: str, following: str) -> None:
        (name, pid), (to, to_pid) = prev.rsplit("-", 1), following.rsplit("-", 1)
        line(
            us,
            prev,
            "d..2.",
            f"sched_switch: prev_comm={name} prev_pid={pid} prev_prio=120 prev_state={state} ==> next_comm={to} "
            f"next_pid={to_pid} next_prio=120",
            cpu,
        )

    def expires(us: int, timer: int) -> None:
        if timers:
            line(us, "hog-10", "d.h1.", f"hrtimer_expire_entry: hrtimer=0x{timer:x} function=0xffffffff814352e0 now=1")

    for turn in range(40):
        us = 1_000_000 + 4000 * turn
        expires(us, X86_TICK)
        expires(us + 30, X86_SLEEPER)
        wakes(us + 31, "hog-10", "d.h3.", "sleeper-20", 0)
        switch(us + 33, 0, "hog-10", "R", "sleeper-20")
        switch(us + 133, 0, "sleeper-20", "S", "hog-10")
        wakes(us + 1000, "hog-10", "d..2.", "helper-30", 1)
        switch(us + 1010, 1, "swapper/1-0", "R", "helper-30")
        switch(us + 1110, 1, "helper-30", "S", "swapper/1-0")
        switch(us + 3000, 0, "hog-10", "S", "swapper/0-0")
        wakes(us + 3900, "swapper/0-0", "d.h3.", "hog-10", 0)
        switch(us + 3910, 0, "swapper/0-0", "R", "hog-10")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(("flags", "timers"), [(True, False), (False, True), (True, True)])
def test_interrupts_wake_for_nobody_on_x86(tmp_path: Path, flags: bool, timers: bool) -> None:
    """Timers of sleepers counted as ticks: their addresses on x86 are above those of a run's ticks.

    Method: the timers wake the sleeper, the hog the helper; contexts alone show it, and so do timers alone.
    """
    trace = Trace(_hog_and_sleeper(tmp_path / "hog.txt", flags=flags, timers=timers))
    model = learn(trace)
    wakers = {group.name: group.woken_by for group in model.groups}
    assert wakers == {"hog": {"other": 1.0}, "sleeper": {"other": 1.0}, "helper": {"hog": 1.0}}
    assert left_out(trace, model) == []


def test_threads_that_hardly_sleep_are_named_with_their_share(tmp_path: Path) -> None:
    """A thread that never slept was left out of the model without a word, with most of the CPU time.

    Method: by hand. Of each 4000 us the sleeper and the helper run 100 us each, the others' CPU runs the hog but for
    100 us, and at last it runs from the sleeper's end to the helper's, the last event.
    """
    path = _hog_and_sleeper(tmp_path / "hog.txt", flags=True, timers=False)
    never = [line for line in path.read_text(encoding="utf-8").splitlines() if "swapper/0" not in line]
    path.write_text("\n".join(never) + "\n", encoding="utf-8")
    trace = Trace(path)
    (note,) = left_out(trace, learn(trace))
    hog_ms, learnt_ms = 39 * 3.9 + 1.110 - 0.133, 40 * 0.2
    assert f"lacks {100 * hog_ms / (hog_ms + learnt_ms):.0f} % of the CPU time" in note
    assert f"(hog {hog_ms:g} ms)" in note
    # Who names the threads has chosen.
    assert left_out(trace, learn(trace, ["sleeper"])) == []


def test_all_time_on_cpus_is_learnt_or_named(tmp_path: Path) -> None:
    """A thread that never left its CPU was in no sum, so that a model lacked half of the CPU time without a word.

    Method: the run's own meter of time on CPUs, whose whole is that of the groups and of the note.
    """
    tasks = {
        "often": {"loop": -1, "run": 1000, "timer": {"ref": "f", "period": 10000}},
        "always": {"loop": -1, "run": 10_000_000},
    }
    run = simulate(
        "epyc-zen1-1s", Workload.parse(json.dumps({"tasks": tasks})), Policy(governor="performance"), seconds=1
    )
    run.to_trace(tmp_path / "run.dat")
    trace = Trace(tmp_path / "run.dat")
    model = learn(trace)
    on_cpus = {row["metric"]: row["value"] for row in run.metrics.to_dicts()}["task_time:pkg0"]
    learnt_ms, always_ms = sum(group.cpu_ms for group in model.groups), model.without_ms["always"]
    assert learnt_ms + always_ms == pytest.approx(1000 * on_cpus, rel=1e-3)
    assert f"always {always_ms:g} ms" in left_out(trace, model)[0]


def test_a_thread_that_sleeps_seldom_is_no_part_of_its_group(tmp_path: Path) -> None:
    """Rests of seldom threads were dealt to the few that the model has, which then woke a tenth as often.

    Method: by hand. One thread wakes 400 times a second for 100 us, nine of its name 36 times each.
    """
    lines = ["# tracer: nop", "#"]
    rounds = [(1_000_000 + 2500 * turn, 100) for turn in range(400)]
    rounds += [(1_000_200 + 200 * other + 27_500 * turn, 110 + other) for other in range(9) for turn in range(36)]
    for start_us, pid in sorted(rounds):
        for us, event in (
            (start_us, f"sched_waking: comm=w{pid} pid={pid} prio=120 target_cpu=000"),
            (start_us + 1, ("swapper/0", 0, "R", f"w{pid}", pid)),
            (start_us + 101, (f"w{pid}", pid, "S", "swapper/0", 0)),
        ):
            text = event
            if isinstance(event, tuple):
                prev, prev_pid, state, to, to_pid = event
                text = (
                    f"sched_switch: prev_comm={prev} prev_pid={prev_pid} prev_prio=120 prev_state={state} ==> "
                    f"next_comm={to} next_pid={to_pid} next_prio=120"
                )
            who = "<idle>-0" if us != start_us + 101 else f"w{pid}-{pid}"
            lines.append(f"{who:>16} [000] d..2. {us // 10**6}.{us % 10**6:06}: {text}")
    path = tmp_path / "few.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    trace = Trace(path)
    model = learn(trace)
    (group,) = model.groups
    assert (group.name, group.threads, group.activations) == ("w", 1, 399)
    wakes_a_second = 1e6 / (sum(group.run_us) / 16 + sum(group.wait_us) / 16)
    assert wakes_a_second == pytest.approx(400, rel=0.01)
    assert model.without_ms == {"w": pytest.approx(9 * 36 * 0.1)}
    assert "(w 32.4 ms)" in left_out(trace, model)[0]


@pytest.mark.parametrize(("pool", "shares"), [(1, 1), (3, 1), (3, 3)])
def test_one_thread_and_its_pool_wake_as_often_as_recorded(tmp_path: Path, pool: int, shares: int) -> None:
    """One that woke the threads of a pool by turns woke all of them each time, and was woken by the first only.

    Method: by arithmetic. In a closed loop `one` has as many activations as the pool has together, or, where it wakes
    all and the first of them answers, a part of them. Time on CPUs has them: an activation of the pool is twice as
    long, and who is woken before it sleeps has two at once.
    """
    one = Group("one", 1, 1000, 100.0, run_us=[100.0] * 16, wait_us=[10.0] * 16, woken_by={"pool": 1.0}, after=0.2)
    runs = [200.0] * 16
    own = Group("pool", pool, shares * 1000, 200.0, run_us=runs, wait_us=[10.0] * 16, woken_by={"one": 1.0}, after=0.0)
    model = Model("by hand", 1.0, 4, [own, one])
    run = simulate("epyc-zen1-1s", Workload.parse(to_rtapp(model, 1)), Policy(governor="performance"), seconds=1)
    run.to_trace(tmp_path / "again.dat")
    again = learn(Trace(tmp_path / "again.dat"))
    assert not again.without_ms
    on_cpus_ms = {name: sum(g.cpu_ms for g in again.groups if g.name.startswith(name)) for name in ("one", "pool")}
    assert on_cpus_ms["one"] > 50
    assert on_cpus_ms["pool"] == pytest.approx(2 * shares * on_cpus_ms["one"], rel=0.1)


def test_wake_ups_that_a_model_does_not_have_are_named(tmp_path: Path) -> None:
    """A sender that woke ten receivers in each run woke one in the model, which lacked nine tenths without a word."""
    pair = Trace(ping_pong(tmp_path / "pair.txt"))
    model = learn(pair)
    client, server = sorted(model.groups, key=lambda group: group.name)
    client.activations = server.activations // 13
    (note,) = left_out(pair, model)
    assert "13 of server in an activation of client (1 in the model)" in note


def test_every_command_that_runs_a_workload_takes_a_model(model: Model, tmp_path: Path) -> None:
    """Only `run` took one; `meter` read it as JSON, and `choose` as a trace."""
    path = tmp_path / "pair.toml"
    path.write_text(to_toml(model), encoding="utf-8")
    loaded, parsed = Workload.load(path), Workload.parse(to_rtapp(model))
    assert loaded.events().equals(parsed.events())
    for words in (
        ["meter", "rails", "-m", "juno-r2", "-w", str(path), "--seconds", "0.2", "--every", "0.1"],
        ["choose", str(path), "-m", "juno-r2", "--governor", "schedutil,performance", "--seconds", "0.2", "-j", "1"],
        ["kernels", "diff", "6.6", "6.12", "-m", "juno-r2", "-w", str(path), "--seconds", "0.1", "--seeds", "1"],
    ):
        answered(*words)
    other = tmp_path / "other.toml"
    other.write_text("format = 1\n", encoding="utf-8")
    with pytest.raises(InputError, match="is no model of `opplab learn`"):
        Workload.load(other)


def test_a_meter_reads_a_benchmark_as_a_run_does() -> None:
    """`meter` took rt-app files only. Its watts after the warm-up are the run's power, by the constants of its fit."""
    words = ["meter", "rapl", "-m", "epyc-7742-2s", "-w", "tbench", "--seconds", "1", "--every", "0.5"]
    _, last = json.loads(answered(*words, "--format", "json").stdout)
    run = simulate("epyc-7742-2s", Workload.benchmark("tbench"), seconds=1)
    power = {row["metric"]: row["value"] for row in run.metrics.to_dicts()}["power"]
    assert last["package0_w"] + last["package1_w"] == pytest.approx(power, rel=1e-3)


def _by_hand(**partners: str) -> Model:
    groups = [
        Group(name, 2, 1000, 100.0, run_us=[100.0] * 16, wait_us=[900.0] * 16, woken_by={waker: 1.0}, after=0.2)
        for name, waker in partners.items()
    ]
    return Model("by hand", 1.0, 4, groups)


@pytest.mark.parametrize("partners", [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "b", "b": "c", "c": "a"}, {"a": "z"}])
def test_no_model_waits_for_itself(partners: dict[str, str]) -> None:
    """Threads that wake others of their name, and circles of three, all waited for each other: no work was done.

    Method: by arithmetic. All work is the same, so that who sleeps works a tenth of the time, and of a circle two are
    at work at any time.
    """
    run = simulate("epyc-zen1-1s", Workload.parse(to_rtapp(_by_hand(**partners), 1)), Policy(), seconds=1)
    work_s = {row["metric"]: row["value"] for row in run.metrics.to_dicts()}["work_done"]
    at_work = 2 * 0.1 if len(partners) == 1 else 2
    assert work_s == pytest.approx(at_work, rel=0.35)


def test_threads_that_wake_each_other_are_named(tmp_path: Path) -> None:
    path = ping_pong(tmp_path / "pair.txt")
    path.write_text(path.read_text(encoding="utf-8").replace("client", "sh").replace("server", "sh"), encoding="utf-8")
    trace = Trace(path)
    (note,) = left_out(trace, learn(trace))
    assert note.startswith("threads of one name wake each other: sh. The model's sleep as long")


def test_an_experiment_has_a_model_as_its_workload(model: Model, tmp_path: Path) -> None:
    """`experiment new` wrote a file that no command could read.

    Method: the metrics of `simulate`.
    """
    (tmp_path / "pair.toml").write_text(to_toml(model), encoding="utf-8")
    path = tmp_path / "mine.toml"
    words = ["experiment", "new", "mine", "-m", "juno-r2", "-w", str(tmp_path / "pair.toml"), "-o", str(path)]
    answered(*words, "--governor", "schedutil", "--seconds", "0.2", "--iterations", "1")
    table = Experiment.load(path).run(tmp_path / "out", jobs=1)
    alone = simulate("juno-r2", Workload.load(tmp_path / "pair.toml"), Policy(), seconds=0.2, seed=1)
    switches = {row["metric"]: row["value"] for row in alone.metrics.to_dicts()}["switches"]
    assert table.filter(pl.col("metric") == "switches")["value"].to_list() == [switches]


def test_a_model_is_shown_as_the_workload_that_it_makes(model: Model, tmp_path: Path) -> None:
    """`workload show` of a model was an error of JSON. Second way: the tree of the loaded workload."""
    path = tmp_path / "model.toml"
    path.write_text(to_toml(model), encoding="utf-8")
    shown = called("workload", "show", path)
    assert shown.output == Workload.load(path).describe()

"""A governor in Python is recorded under its own name, in schedutil's place."""

import pytest

import opplab

from calls import answered, called


class Highest(opplab.Governor):
    def update(self, facts):
        return facts.max_khz


WORK = opplab.Workload.periodic(2, run_us=800, period_us=16000)


def test_results_have_the_name_of_the_class():
    run = opplab.simulate("juno-r2", WORK, opplab.Policy(), seconds=0.1, governor=Highest())
    assert run.metrics["policy"].unique().to_list() == ["Highest (Python)"]
    named = opplab.simulate("juno-r2", WORK, opplab.Policy(label="mine"), seconds=0.1, governor=Highest())
    assert named.metrics["policy"].unique().to_list() == ["mine"]


def test_the_place_of_another_governor_is_refused():
    with pytest.raises(opplab.InputError, match="takes schedutil's place"):
        opplab.simulate("juno-r2", WORK, "performance", seconds=0.1, governor=Highest())


def test_a_change_of_governor_is_refused():
    """It did nothing: the class went on, and `explain` had its answers as those of powersave."""
    policy = opplab.Policy(changes=[{"at_ms": 50, "governor": "powersave"}])
    with pytest.raises(opplab.InputError, match="leave `governor` out of the policy's changes"):
        opplab.simulate("juno-r2", WORK, policy, seconds=0.1, governor=Highest())


def test_explain_names_the_class():
    run = opplab.simulate("juno-r2", WORK, opplab.Policy(), seconds=0.1, governor=Highest())
    assert "reported to Highest (Python)" in str(opplab.explain(run, cpu=0, at=0.05))
    assert opplab.explain(run, cpu=0, at=0.05).about["governor"] == "Highest (Python)"


class Lazy(opplab.Governor):
    """Without headroom, and so slow; it changes the clock all the same."""

    def update(self, facts):
        busiest = max(cpu.util_cfs_boost for cpu in facts.cpus)
        return facts.freq_ref_khz * busiest // facts.cpus[0].capacity


def test_slow_cpus_under_a_governor_in_python_are_its_own():
    """No reason of schedutil's holds, nor that of a governor which never changes the clock."""
    work = opplab.Workload.periodic(6, run_us=5000, period_us=16000)
    run = opplab.simulate("juno-r2", work, opplab.Policy(), seconds=0.3, governor=Lazy())
    assert len(run.events("cpu_frequency")) > 10
    slow = [one for one in opplab.explain(run, why_slow=True) if one.kind == "slow"]
    reasons = {one.data["reason"] for one in slow}
    assert "custom-governor" in reasons
    assert reasons <= {"custom-governor", "transition"}
    assert "the governor in Python asked for no more" in str(opplab.explain(run, why_slow=True))


class Half(opplab.Governor):
    """Half of schedutil's headroom."""

    def update(self, facts):
        most = max(cpu.util_cfs_boost for cpu in facts.cpus)
        capacity = facts.cpus[0].capacity
        self.decided_by = (most, capacity)
        return facts.freq_ref_khz * (most + most // 8) // capacity


class First(opplab.Placement):
    """The first CPU that is allowed."""

    def select(self, facts):
        return next(cpu.cpu for cpu in facts.cpus if cpu.allowed)


HEAVY = opplab.Workload.periodic(6, run_us=3000, period_us=16000)


def test_the_frequency_that_was_requested_is_named():
    """It was in the data alone; without a formula nothing in the text shows it."""
    run = opplab.simulate("juno-r2", HEAVY, seconds=1, governor=Half())
    found = [one for one in opplab.explain(run, cpu=1, at=0.5) if one.kind == "frequency"]
    assert found and found[0].data["outcome"] == "requested"
    next_mhz, prev_mhz = (found[0].data[name] // 1000 for name in ("next_khz", "prev_khz"))
    assert f"Requested {next_mhz} MHz (OPP " in found[0].text
    assert f" instead of {prev_mhz} MHz." in found[0].text


def test_a_trace_names_the_governor_and_no_replay_stands_in_for_it(tmp_path):
    """Its clocks were explained by schedutil's formula, and its replay was measured against schedutil's."""
    trace = tmp_path / "half.dat"
    opplab.simulate("juno-r2", HEAVY, seconds=1, governor=Half()).to_trace(trace)
    clock = opplab.explain(trace, cpu=0, at=0.5, machine="juno-r2")
    assert clock.about["governor"] == "Half (Python)"
    assert "No decision of Half (Python) is known for this clock" in str(clock)
    assert "headroom" not in str(clock) and "schedutil, which serves" not in str(clock)
    refused = called("replay", trace, "--machine", "juno-r2")
    assert "Half (Python) decided in the recording, which a replay does not have" in str(refused.exception)
    given = answered("replay", trace, "--machine", "juno-r2", "--recorded-governor", "schedutil")
    assert "Half (Python) decided in the recording; here schedutil has its place" in " ".join(given.stdout.split())
    with pytest.raises(opplab.InputError, match=r"Half \(Python\) decided in the recording"):
        opplab.explain(trace, why_slow=True, machine="juno-r2")
    # What does not ask a governor is answered.
    energy = answered("trace", "energy", trace, "-m", "juno-r2")
    assert "periodic0" in energy.stdout


def test_a_choice_on_a_trace_takes_the_recorded_governor(tmp_path):
    """Its refusal named an option that `choose` did not have.

    Second way: `replay` with the same governor has the same self-check.
    """
    trace = tmp_path / "half.dat"
    opplab.simulate("juno-r2", HEAVY, seconds=1, governor=Half()).to_trace(trace)
    short = ["choose", trace, "-m", "juno-r2", "--governor", "schedutil,performance", "--iterations", "2"]
    short += ["--uncertainty", "0"]
    assert "Half (Python) decided in the recording" in str(called(*short).exception)
    checks = {}
    for governor in ("schedutil", "powersave"):
        given = ["--recorded-governor", governor]
        choice = answered(*short, *given, columns=400).stdout
        replayed = answered("replay", trace, "-m", "juno-r2", "--mode", "closed", *given, columns=400).stdout
        checks[governor] = next(line for line in choice.splitlines() if line.startswith("self-check: "))
        assert checks[governor] in replayed
    assert checks["schedutil"] != checks["powersave"]
    load = tmp_path / "load.json"
    load.write_text('{"tasks": {"t": {"run": 1000, "timer": {"ref": "t", "period": 16000}}}}')
    refused = called("choose", load, "-m", "juno-r2", "--recorded-governor", "schedutil")
    assert "load.json is no recorded trace" in str(refused.exception)


def test_a_trace_names_the_placement_policy(tmp_path):
    trace = tmp_path / "first.dat"
    opplab.simulate("juno-r2", HEAVY, seconds=0.5, placement=First()).to_trace(trace)
    told = " ".join(answered("replay", trace, "--machine", "juno-r2", "--mode", "closed").stdout.split())
    assert "First (Python) placed tasks in the recording" in told
    plain = tmp_path / "plain.dat"
    opplab.simulate("juno-r2", HEAVY, seconds=0.5).to_trace(plain)
    told = answered("replay", plain, "--machine", "juno-r2", "--mode", "closed").stdout
    assert "placed tasks" not in told and "decided in the recording" not in told


@pytest.mark.parametrize("driver", ["amd-pstate-epp", "intel_pstate"])
def test_drivers_without_governors_run_none_in_python(driver):
    """amd-pstate-epp sets policies (`setpolicy`), as intel_pstate does: no governor exists there."""
    machine = "epyc-7742-2s" if driver.startswith("amd") else "skylake-8x-uma"
    with pytest.raises(opplab.CaseError, match=f"driver {driver} has the governors performance and powersave"):
        opplab.simulate(machine, WORK, opplab.Policy(driver=driver), seconds=0.1, governor=Half())
    with pytest.raises(opplab.CaseError, match=f"driver {driver} has the governors performance and powersave"):
        opplab.simulate(machine, WORK, opplab.Policy(driver=driver), seconds=0.1)


def test_true_is_no_frequency():
    class Wrong(opplab.Governor):
        def update(self, facts):
            return True

    with pytest.raises(opplab.CaseError, match="a frequency in kHz or None, not True"):
        opplab.simulate("juno-r2", WORK, seconds=0.1, governor=Wrong())

"""Names of kernels, what differs between two, and `opplab kernels diff`."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

import opplab
from opplab.certainty import certainty
from opplab.choice.cases import program_of
from opplab.cli.kernels import _attribution_words, _Measure, _rows
from opplab.errors import InputError
from opplab.kernel import KernelProfile, kernel_diff, kernel_gates, kernel_note, kernel_profiles
from opplab.kernel.profiles import halves, together
from opplab.summary.answer import Change

from calls import answered, called

# The state of each gate that was once given to the wrong release, with the release before and the first with it.
BROUGHT_BY = [
    ("amd_min_freq", "6.12", "6.13", "lowest-nonlinear"),
    ("amd_epp_default", "6.13", "6.14", "balanced"),
    ("need_freq_update", "6.13", "6.14", "driver-once"),
    ("need_freq_update", "6.14", "6.15", "once-again"),
    ("need_freq_update", "6.6.87", "6.6.88", "once-again"),
    ("newidle_skip", "6.18", "6.19", "cost-and-chance"),
    ("menu_iowait", "6.12", "6.13", "ignored"),
    ("menu_polling", "6.18", "6.19", "threshold"),
    ("menu_timers", "6.19", "7.0", "no-tick"),
    ("base_slice", "6.14", "6.15", "0.70ms"),
    ("util_est", "6.7", "6.8", "single"),
    ("single_state_tick", "6.19", "7.0", "retained"),
    ("newidle_skip", "6.12.64", "6.12.65", "cost-and-chance"),
    ("menu_iowait", "6.12.43", "6.12.44", "ignored"),
    ("menu_polling", "6.12.63", "6.12.64", "threshold"),
    ("base_slice", "6.12.30", "6.12.31", "0.70ms"),
    ("need_freq_update", "6.1.128", "6.1.129", "driver-once"),
    ("sugov_util", "6.6.88", "6.6.89", "bounded"),
    ("freq_ref", "6.6.102", "6.6.103", "arch"),
]


@pytest.mark.parametrize(("gate", "before", "first", "value"), BROUGHT_BY)
def test_releases_bring_their_own_changes(gate: str, before: str, first: str, value: str) -> None:
    assert KernelProfile(before).show(gate) != value
    assert KernelProfile(first).show(gate) == value
    assert (gate, value) in [(change.gate, change.after) for change in kernel_diff(before, first)]


def test_no_mainline_release_has_util_est_with_two_values_on_runnable_averages() -> None:
    since = {row.value: row.since for row in kernel_gates() if row.gate == "util_est"}
    assert since["filtered-runnable"] is None


def test_every_release_from_4_17_on_has_a_profile() -> None:
    known = set(kernel_profiles())
    releases = [(4, range(17, 21)), (5, range(20)), (6, range(20)), (7, range(2))]
    assert {f"{major}.{minor}" for major, minors in releases for minor in minors} <= known


def test_an_unknown_point_release_is_the_nearest_known_one() -> None:
    newer = KernelProfile("6.12.400")
    assert (newer.version, newer.point) == ((6, 12), 117)
    assert "6.12.400 is taken as 6.12.117" in (kernel_note("6.12.400") or "")
    assert kernel_note("6.12.117") is None


def test_policies_take_names_of_distributions() -> None:
    work = opplab.Workload.periodic(4, period_us=16_000, run_us=4_000)
    debian, stable = (
        opplab.simulate("pixel6", work, opplab.Policy(kernel=kernel), seconds=0.2)
        for kernel in ("6.1.0-56-amd64", "6.1.192")
    )
    assert debian.fingerprint == stable.fingerprint


def test_diff_of_the_schedutil_change_of_6_6_89() -> None:
    found = answered("kernels", "diff", "6.6.88", "6.6.99")
    assert "6.6.88 to 6.6.99: 6 gates differ" in found.output
    assert "headroom: in-clamped-util -> in-effective-perf" in found.output
    assert max(map(len, found.stdout.splitlines())) <= 80
    rows = json.loads(called("kernels", "diff", "6.6.88", "6.6.99", "--format", "json").stdout)
    rework = ["sugov_util", "headroom", "noninvariant_headroom", "feec_energy"]
    assert [row["gate"] for row in rows] == [*rework, "base_slice", "menu_typical"]
    limits = called("kernels", "diff", "6.6.87", "6.6.88")
    assert "need_freq_update: driver-once -> once-again" in limits.output
    same = called("kernels", "diff", "6.6.90", "6.6.92")
    assert "no gates differ" in same.output


def test_diff_runs_both_kernels() -> None:
    args = ["kernels", "diff", "6.6.88", "6.6.99", "--machine", "pixel6", "--seconds", "0.3", "--seeds", "1"]
    found = answered(*args, "--format", "json")
    rows = {row["metric"]: row for row in json.loads(found.stdout)}
    policy = opplab.Policy(kernel="6.6.99")
    work = opplab.Workload.periodic(4, run_us=4_000, period_us=16_000)
    metrics = opplab.simulate("pixel6", work, policy, seconds=0.3, seed=1).metrics
    (energy,) = metrics.filter(metrics["metric"] == "energy")["value"].to_list()
    assert rows["energy"]["6.6.99"] == pytest.approx(energy, abs=5e-5)
    assert rows["energy"]["certainty"] == "needs 2 iterations, has 1"
    several = called(*args[:-1], "3", "--format", "json")
    (energy_change,) = [row for row in json.loads(several.stdout) if row["metric"] == "energy"]
    pairs = [
        opplab.simulate("pixel6", work, opplab.Policy(kernel=kernel), seconds=0.3, seed=seed)
        .metrics.filter(metric="energy")["value"]
        .item()
        for kernel in ("6.6.88", "6.6.99")
        for seed in (1, 2, 3)
    ]
    ratio = opplab.stats.compare(pairs[:3], pairs[3:], paired=True, resamples=0)
    assert energy_change["change"] == pytest.approx(100 * (ratio["ratio"] - 1), abs=0.005)
    if energy_change["low"] is not None:
        assert energy_change["low"] == pytest.approx(100 * (ratio["low"] - 1), abs=0.005)
        digits = [str(energy_change[key]).partition(".")[2] for key in ("change", "low", "high")]
        assert max(map(len, digits)) <= 2, "the interval has the digits of the change"
        assert energy_change["low"] <= energy_change["change"] <= energy_change["high"]
    else:
        assert energy_change["certainty"] == "equal in all runs"


def test_diff_leaves_no_certainty_blank_and_has_arithmetic_means_of_counts() -> None:
    args = ["kernels", "diff", "5.10", "6.12", "--machine", "pixel6", "--seconds", "0.5", "--format", "json"]
    rows = {row["metric"]: row for row in json.loads(called(*args).stdout)}
    assert all(row["certainty"] for row in rows.values())
    assert rows["missed_activations"]["in"] == "points"
    work = opplab.Workload.periodic(4, run_us=4_000, period_us=16_000)
    found = [
        opplab.simulate("pixel6", work, opplab.Policy(kernel="6.12"), seconds=0.5, seed=seed)
        .metrics.filter(metric="work_done")["value"]
        .item()
        for seed in (1, 2, 3)
    ]
    assert rows["work_done"]["6.12"] == pytest.approx(sum(found) / 3, abs=5e-5)


def test_diff_names_the_driver_that_runs_and_why_there_is_no_energy() -> None:
    args = ["kernels", "diff", "6.1", "6.12", "--machine", "kaby-lake-i7-7500u", "--seconds", "0.2", "--seeds", "1"]
    told = " ".join(answered(*args).stdout.split())
    # intel_pstate, the machine's own, has no schedutil.
    assert "under schedutil with intel_cpufreq, means of 1 run" in told
    assert "energy is unknown: the machine has no power." in told
    known = answered("kernels", "diff", "6.1", "6.12", "--machine", "pixel6", "--seconds", "0.2", "--seeds", "1")
    assert "unknown" not in known.stdout


def test_wrong_kernels_are_told_the_nearest() -> None:
    found = called("kernels", "diff", "6.12", "7.9")
    assert found.exit_code == 2
    assert "did you mean `7.3`?" in found.output


def test_both_kernels_run_the_benchmark_of_opplab_run() -> None:
    """The constants are those calibrated on the machine: of `kernels diff`, `choose` and `simulate` as of `run`."""
    args = ["kernels", "diff", "6.6", "6.6", "-m", "skylake-sp-2s", "--workload", "dbench", "--seconds", "1.2"]
    done = answered(*args, "--seeds", "1", "--format", "json")
    assert "dbench uses the constants calibrated on skylake-sp-2s" in done.stderr
    found = {row["metric"]: row["6.6"] for row in json.loads(done.stdout)}
    file = Path(opplab.__file__).parent / "data" / "calibration" / "dbench@skylake-sp-2s.toml"
    fit = tomllib.loads(file.read_text(encoding="utf-8"))["values"]
    work = opplab.Workload.benchmark("dbench", **fit)
    for load in ("dbench", work):
        run = opplab.simulate("skylake-sp-2s", load, opplab.Policy(kernel="6.6"), seconds=1.2)
        (latency,) = run.metrics.filter(metric="latency")["value"].to_list()
        assert found["latency"] == pytest.approx(latency, abs=1e-4)
    (chosen,), (own,) = (
        program_of("skylake-sp-2s", load, seconds=1.2, seeds=[1], keys={}).bases for load in ("dbench", work)
    )
    assert chosen == own | {"param": ""}


def test_a_change_is_attributed_to_the_gates_that_reproduce_it_alone(tmp_path: Path) -> None:
    """Goal: a row a gate has what the first kernel does with that gate alone. Method: one of them by hand."""
    file = tmp_path / "capped.json"
    file.write_text('{"tasks": {"t": {"instance": 3, "util_max": 512, "loop": -1, "run": 200000, "sleep": 50000}}}')
    on = ["--machine", "pixel6", "--workload", str(file), "--seconds", "0.6"]
    args = ["kernels", "diff", "6.6.88", "6.6.99", *on, "--attribute"]
    found = answered(*args)
    one = "sugov_util + headroom + feec_energy"
    assert f"energy -24.3 %: {one} alone reproduces it." in " ".join(found.stdout.split())
    whole = json.loads(called(*args, "--format", "json").stdout)
    # The table of both kernels is that without gates, and the sentences are those of the text.
    plain = json.loads(called(*args[:-1], "--format", "json").stdout)
    assert whole["metrics"] == plain and any(row["certainty"] == "clear" for row in plain)
    assert f"energy -24.3 %: {one} alone reproduces it." in whole["findings"]
    rows = {row["gate"]: row for row in whole["gates"]}
    assert list(rows) == [
        " + ".join(change.gate for change in part) for part in together(kernel_diff("6.6.88", "6.6.99"))
    ]
    none = rows["noninvariant_headroom"]
    assert none["runs"] == "as 6.6.88" and none["energy"] == 0
    work = opplab.Workload.load(file)
    values = [
        opplab.simulate("pixel6", work, opplab.Policy(kernel="6.6.88", gates=gates), seconds=0.6, seed=seed)
        .metrics.filter(metric="energy")["value"]
        .item()
        for gates in ({}, {"sugov_util": "bounded", "headroom": "in-effective-perf", "feec_energy": "bounded"})
        for seed in (1, 2, 3)
    ]
    ratio = opplab.stats.compare(values[:3], values[3:], paired=True, resamples=0)["ratio"]
    assert rows[one]["energy"] == pytest.approx(100 * (ratio - 1), abs=0.005)
    alone = called("kernels", "diff", "6.6.88", "6.6.99", "--attribute")
    assert alone.exit_code == 2 and "--attribute needs --machine" in alone.output


def test_the_preference_that_a_kernel_has_for_a_processor_is_attributed(tmp_path: Path) -> None:
    """No gate has it, so that its effect was denied: `nothing alone reproduces it`."""
    file = tmp_path / "load.json"
    file.write_text('{"tasks": {"t": {"instance": 4, "loop": -1, "run": 3000, "timer": {"ref": "t", "period": 9000}}}}')
    on = ["-m", "alder-lake-i7-1260p", "-w", str(file), "--governor", "powersave", "--seconds", "0.5"]
    found = answered("kernels", "diff", "5.16", "5.17", *on, "--attribute")
    words = " ".join(found.stdout.split())
    assert "energy preference: 128 -> 102 the kernel's own for the processor" in words
    assert "energy preference alone reproduces it." in words

    def p50(kernel: str, epp: str = "") -> list[float]:
        policy = opplab.Policy(governor="powersave", kernel=kernel, epp=epp)
        load = opplab.Workload.load(file)
        runs = [opplab.simulate("alder-lake-i7-1260p", load, policy, seconds=0.5, seed=seed) for seed in (1, 2, 3)]
        return [run.metrics.filter(metric="response_p50")["value"].item() for run in runs]

    whole, own = p50("5.17"), p50("5.16")
    assert whole == pytest.approx(p50("5.16", "102"), rel=2e-3)
    assert own == pytest.approx(p50("5.17", "128"), rel=2e-3)
    assert sum(whole) < 0.99 * sum(own)
    # Where both have the same, and where schedutil asks for a level, there is no such row.
    for others in (("5.15", "5.16", *on), ("5.16", "5.17", *on[:4], "--governor", "schedutil", "--seconds", "0.1")):
        assert "energy preference" not in answered("kernels", "diff", *others).stdout


def test_a_change_that_is_the_same_in_all_runs_is_called_so_and_attributed() -> None:
    measure = _Measure("pixel6", None, 0.1, 3)
    measure.units = {"latency_max": ("s", "lower"), "activations": ("", "higher")}
    before = {"latency_max": {1: 0.012, 2: 0.012, 3: 0.012}, "activations": {1: 7.0, 2: 7.0, 3: 7.0}}
    after = {**before, "latency_max": {1: 0.009, 2: 0.009, 3: 0.009}}
    changed, equal = _rows(("6.1", "6.12"), measure, before, after)
    assert (changed["change"], changed["low"], changed["certainty"]) == (-25, None, "same change in all runs")
    assert (equal["change"], equal["certainty"]) == (0, "equal in all runs")
    same = measure.change("latency_max", after, before)
    assert same is not None
    gates = {("teo", "latency_max"): same}
    assert _attribution_words([changed, equal], gates) == ["latency_max -25.0 %: teo alone reproduces it."]
    # As far by chance: the gate's own runs leave its sign open.
    by_chance = Change(-25.0, certainty(-60.0, 10.0, n=3))
    assert _attribution_words([changed, equal], {("teo", "latency_max"): by_chance}) == [
        "latency_max -25.00 %: nothing alone reproduces it; nearest is teo with -25.00 % [-60.00, +10.00], which is "
        "not clear."
    ]
    # Near and not near enough: the digits show why.
    small, off = {**changed, "change": -0.17}, Change(-0.2, same.certainty)
    assert _attribution_words([small], {("teo", "latency_max"): off}) == [
        "latency_max -0.17 %: nothing alone reproduces it; nearest is teo with -0.20 %."
    ]
    # How far both may be off stands beside them.
    sure, half = {**changed, "low": -31.4, "high": -18.6}, Change(-50.7, certainty(-55.5, -45.9, n=3))
    assert _attribution_words([sure], {("teo", "latency_max"): half}) == [
        "latency_max -25.0 % [-31.4, -18.6]: nothing alone reproduces it; nearest is teo with -50.7 % [-55.5, -45.9]."
    ]


def test_a_rate_limit_of_an_unknown_driver_is_refused() -> None:
    """`scpi` gave the limit of no driver, as if it were known."""
    profile = KernelProfile("6.12")
    assert profile.rate_limit_us(driver="scmi") and profile.rate_limit_us() == profile.rate_limit_us(driver="")
    with pytest.raises(InputError, match="unknown driver `acpi_cpufreq`; did you mean `acpi-cpufreq`"):
        profile.rate_limit_us(driver="acpi_cpufreq")


def test_gates_of_one_commit_are_attributed_as_one_and_a_half_of_it_is_named(tmp_path: Path) -> None:
    """Halves of 9c0b4bb7f630 gave +20.2 % and -13.8 % where the commit gives -0.1 %: headroom twice, or none."""
    (part,) = [part for part in together(kernel_diff("6.6.88", "6.6.99")) if len(part) > 1]
    assert {change.gate for change in part} == {"sugov_util", "headroom", "feec_energy"}
    work = tmp_path / "work.json"
    work.write_text('{"tasks": {"t": {"loop": -1, "run": 2000, "timer": {"ref": "t", "period": 10000}}}}')
    how = ["run", str(work), "-m", "pixel6", "--kernel", "5.10", "--seconds", "0.1", "--iterations", "1"]
    halves_of = ("sugov_util=bounded", "headroom=in-effective-perf", "teo=tick-hits teo_util=dropped")
    done = answered(*how, *(word for half in halves_of for word in ("--vs", half)), "-o", tmp_path / "o", columns=300)
    said = " ".join(done.stdout.split())
    together_words = "commit 9c0b4bb7f630 changed sugov_util, headroom, feec_energy together"
    assert (
        "sugov_util=bounded: no kernel has sugov_util=bounded with headroom=in-frequency feec_energy=all-domains: "
        + together_words
    ) in said
    assert "no kernel has headroom=in-effective-perf with sugov_util=clamped feec_energy=all-domains" in said
    assert "no kernel has teo" not in said


def test_no_kernel_s_own_gates_are_halves() -> None:
    for name in kernel_profiles():
        own = dict(KernelProfile(name).gates())
        for other in ("5.10", "7.3"):
            assert halves(other, own) == [], name


def test_meanings_stand_by_themselves() -> None:
    """ "The same, but" was of a value between the two kernels, which nobody saw."""
    changes = {one.gate: one for one in kernel_diff("5.15", "6.6")}
    fit = changes["uclamp_fit"]
    assert "the same" not in fit.after_meaning
    assert "48d5e9daa8b7" in fit.source
    assert "the same" not in changes["teo_util"].after_meaning
    # Of neighbours it is short.
    near = {one.gate: one for one in kernel_diff("6.2", "6.3")}["uclamp_fit"]
    assert near.after_meaning.startswith("the same, but")


def test_the_changes_that_chance_makes_clear_are_counted() -> None:
    """Of many metrics some are clear by chance; `compare` counts them. Second way: the rows with an interval."""
    words = ("kernels", "diff", "6.6", "6.12", "-m", "juno-r2", "--seconds", "0.1")
    text = answered(*words).stdout
    rows = json.loads(answered(*words, "--format", "json").stdout)
    tested = sum(row["low"] is not None for row in rows)
    assert tested > 1
    assert f"clear by chance: {tested / 20:.2g} of {tested} changes with an interval" in text

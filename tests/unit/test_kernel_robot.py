"""Comparisons of the kernel's test robot: what is read of them, in what forms they come, and what is refused."""

import base64
import json
import math
import quopri
import re
import tomllib
from collections.abc import Callable
from functools import reduce
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import opplab
from opplab.agreement.predict import half_width, known_errors, sign_probability
from opplab.agreement.robot import policy_of
from opplab.comparison.gate import check
from opplab.comparison.robot import better_of, tables
from opplab.errors import InputError
from opplab.formats import kernel_robot

from calls import answered, called

FOLDER = Path(__file__).parent / "robot"
STDDEV = (FOLDER / "stddev.txt").read_text(encoding="utf-8")


def compare(*arguments: str) -> str:
    result = answered("compare", *arguments)
    return result.stdout


def rows_of(text: str) -> list[tuple[str, tuple[object, ...]]]:
    return [(row.metric, row.entries) for report in kernel_robot.parse(text) for row in report.rows]


def test_a_mail_is_read_with_its_commits_parameters_and_every_row() -> None:
    hackbench, unixbench = kernel_robot.read_file(FOLDER / "stddev.txt")
    assert hackbench.axes["tbox_group"] == "lkp-example-2sp1"
    assert (hackbench.machine[:11], unixbench.machine[:10]) == ("128 threads", "16 threads")
    assert hackbench.axes["nr_threads"] == "100%"
    assert hackbench.commits == ["89abcdef01", "0123456789"]
    assert hackbench.subjects[1] == "sched/fair: An example of a patch"
    assert hackbench.runs == 6
    warning = "dmesg.WARNING:at_kernel/example.c:#example"
    assert hackbench.failures == [kernel_robot.Failure(warning, ((0, 6), (1, 6)), ("", "17%"))]
    assert [row.metric for row in unixbench.rows] == ["unixbench.score"]
    rows = {row.metric: row.entries for row in hackbench.rows}
    assert len(rows) == 7
    base, patched = rows["hackbench.throughput"]
    assert base is not None
    assert patched is not None
    assert (base.value, base.spread, patched.value, patched.spread, patched.change) == (123456, 2, 113675, None, -7.9)
    idle = rows["mpstat.cpu.all.idle%"][1]
    assert idle is not None
    assert (idle.change, idle.is_points) == (-10.4, True)
    noisy = rows["perf-sched.sch_delay.avg.ms.__cond_resched.[unknown].[unknown]"]
    assert noisy[0] is not None
    assert noisy[1] is not None
    assert (noisy[0].spread, noisy[1].spread, noisy[1].change) == (None, 142, 12000)
    assert kernel_robot.disagreements(hackbench) == {}


def test_quoted_mails_of_several_commits_are_read() -> None:
    (report,) = kernel_robot.read_file(FOLDER / "commits.txt")
    assert report.commits == ["v6.8-rc1", "1111111111", "2222222222"]
    assert report.subjects[1] == "sched: One with a subject that a mailer has broken in two"
    rows = {row.metric: [entry and entry.change for entry in row.entries] for row in report.rows}
    assert rows["will-it-scale.per_process_ops"] == [None, -8.1, -0.2]
    assert rows["turbostat.PkgWatt"] == [None, -1.0, 0.0]


@pytest.mark.parametrize(
    "form",
    [
        lambda text: text.replace("±", "Â±"),
        lambda text: text.replace(" ±", "\u00a0±"),
        lambda text: text.replace("±", "+-"),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "".join(f"> {line}\n" for line in text.splitlines()),
        lambda text: quopri.encodestring(text.encode()).decode(),
        lambda text: (
            "From: a@example.org\nMIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\n"
            "Content-Transfer-Encoding: quoted-printable\n\n" + quopri.encodestring(text.encode()).decode()
        ),
        lambda text: (
            "From: a@example.org\nMIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\n"
            "Content-Transfer-Encoding: base64\n\n" + base64.encodebytes(text.encode()).decode()
        ),
        lambda text: (
            "From: a@example.org\nMIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\n"
            "Content-Transfer-Encoding: 8bit\n\n" + text
        ),
    ],
    ids=["mojibake", "no-break space", "ascii", "crlf", "quoted", "bare quoted-printable", "qp", "base64", "8bit"],
)
def test_a_mail_s_form_changes_nothing(form: Callable[[str], str], tmp_path: Path) -> None:
    file = tmp_path / "mail.txt"
    file.write_bytes(form(STDDEV).encode())
    found = [(row.metric, row.entries) for report in kernel_robot.read_file(file) for row in report.rows]
    assert found == rows_of(STDDEV)
    assert kernel_robot.is_file(file)


def test_latin_1_is_read(tmp_path: Path) -> None:
    file = tmp_path / "mail.txt"
    file.write_bytes(STDDEV.encode("latin-1"))
    assert [(row.metric, row.entries) for report in kernel_robot.read_file(file) for row in report.rows] == rows_of(
        STDDEV
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("119020            -8.0%     109498 ±  3%", "119020            -8.0%     many   ±  3%", "119020 -8.0% many"),
        ("  412.30            +0.4%     413.95  ", "  412.30            +0.4%  ", "is no row of 2 commits"),
        ("hackbench.throughput_avg", "hackbench.throughput", "twice"),
    ],
)
def test_a_line_that_is_no_row_is_refused_with_its_number(old: str, new: str, words: str) -> None:
    line = next(at for at, line in enumerate(STDDEV.splitlines(), 1) if old in line)
    with pytest.raises(InputError, match=rf"mail:{line}:1: .*{words}"):
        kernel_robot.parse(STDDEV.replace(old, new), "mail")


def test_columns_may_be_governors() -> None:
    text = STDDEV.replace("commit: ", "cpufreq_governor:").replace(
        '89abcdef01 ("sched/fair: The commit before it")', "schedutil"
    )
    text = text.replace('0123456789 ("sched/fair: An example of a patch")', "performance")
    (first, _) = kernel_robot.parse(text)
    assert first.commits == ["schedutil", "performance"]


def test_a_text_without_a_table_is_refused() -> None:
    with pytest.raises(InputError, match="no comparison of commits"):
        kernel_robot.parse(STDDEV.split("=======")[0])


def test_a_change_that_does_not_follow_from_its_means_is_named() -> None:
    (wrong, _) = kernel_robot.parse(STDDEV.replace("-7.9%     113675", "-9.7%     113675"))
    (crash, _) = kernel_robot.parse(STDDEV.replace("17%           1:6", "17%           4:6"))
    (failed,) = kernel_robot.disagreements(crash).values()
    assert "17% of dmesg.WARNING:at_kernel/example.c:#example does not follow from 0:6 and 4:6" in failed
    (found,) = kernel_robot.disagreements(wrong).values()
    assert "-9.7% of hackbench.throughput does not follow from 123456 and 113675" in found


def test_compare_prints_the_layout_and_reads_its_own_print(tmp_path: Path) -> None:
    for name in ("stddev.txt", "commits.txt", "plain.txt"):
        text = compare(str(FOLDER / name))
        again = tmp_path / name
        again.write_text(text, encoding="utf-8")
        read = [(row.metric, row.entries) for report in kernel_robot.read_file(FOLDER / name) for row in report.rows]
        assert rows_of(text) == rows_of(compare(str(again))) == read


def test_numbers_of_the_json_table_are_those_of_the_mail() -> None:
    table = json.loads(compare(str(FOLDER / "stddev.txt"), "-b", "hackbench", "--format", "json"))
    cells = {(cell["operation"], cell["run"]): cell for cell in table["cells"]}
    cell = cells["hackbench.throughput", "0123456789"]
    assert cell["ratio"] == pytest.approx(113675 / 123456)
    assert cell["change_pct"] == -7.9
    assert cells["turbostat.PkgWatt", "0123456789"]["change_pct"] == -0.4


def predict(*arguments: str, results: Path) -> tuple[int, str, str]:
    done = called("predict", *arguments, "--results", results, "--iterations", "2")
    return done.exit_code, done.stdout, done.stderr if done.exit_code == 0 else str(done.exception) + done.output


@pytest.mark.parametrize("rule", ["hackbench < -10%", "any < -10% clear", "any < -10% significant"])
def test_runs_that_crash_fail_a_gate(rule: str, tmp_path: Path) -> None:
    file = tmp_path / "mail.txt"
    file.write_text(STDDEV.replace("17%           1:6", "83%           5:6"))
    (crash,) = (one for one in check(tables([file]), [rule]) if "dmesg.WARNING" in one.message)
    assert crash.failed
    assert "-83.33 pp" in crash.message


def test_a_mail_without_regressions_passes_a_rule_that_asks_for_clear_ones() -> None:
    assert not [
        one for one in check(tables([FOLDER / "stddev.txt"]), ["hackbench.throughput < -8% clear"]) if one.failed
    ]


def gate(text: str, rule: str, tmp_path: Path) -> list[str]:
    file = tmp_path / "gated.txt"
    file.write_text(text, encoding="utf-8")
    return [one.message for one in check(tables([file]), [rule]) if one.failed]


def mail(testcase: str, *rows: str) -> str:
    """Give a comparison of two commits."""
    axes = f"nr_task/tbox_group/testcase:\n  100%/lkp-a-box/{testcase}\n\n" if testcase else ""
    commits = 'commit:\n  v6.1\n  0123456789 ("sched: some patch")\n\n            v6.1 0123456789abcdef01234567890\n'
    return f"{axes}{commits}---------------- ---------------------------\n" + "".join(f"{row}\n" for row in rows)


@pytest.mark.parametrize(
    ("row", "testcase", "side"),
    [
        # Names as lkp-tests prints them; what each measures is their own word.
        ("kbuild.real_time_per_iteration", "kbuild", "lower"),
        ("kbuild.buildtime_per_iteration", "kbuild", "lower"),
        ("stress-ng.switch.nanosecs_per_context_switch_pipe_method", "stress-ng", "lower"),
        ("stress-ng.switch.ops_per_sec", "stress-ng", "higher"),
        ("will-it-scale.per_process_ops", "will-it-scale", "higher"),
        ("aim7.jobs-per-min", "aim7", "higher"),
        ("fio.read_clat_mean_us", "fio-basic", "lower"),
        ("fio.read_iops", "fio-basic", "higher"),
        ("hackbench.time.elapsed_time.max", "hackbench", "lower"),
        ("turbostat.PkgWatt", "hackbench", "lower"),
        ("power.Package", "hackbench", "lower"),
        ("perf-sched.sch_delay.avg.ms.pipe_read", "hackbench", "lower"),
        # As `etc/index-perf-all.yaml` of lkp-tests (07aef77) has them.
        ("pft.faults_per_sec_per_cpu", "pft", "higher"),
        ("filebench.sum_operations/s", "filebench", "higher"),
        ("fio.read_bw_MBps", "fio-basic", "higher"),
        ("fxmark.ssd_xfs_MWCM_18_bufferedio.works/sec", "fxmark", "higher"),
        ("glbenchmark.fps", "glbenchmark", "higher"),
        ("iozone.average_KBps", "iozone", "higher"),
        ("iperf.tcp.receiver.bps", "iperf", "higher"),
        ("perf-bench-numa-mem.GB_sec_total", "perf-bench-numa-mem", "higher"),
        ("postmark.transactions", "postmark", "higher"),
        ("qperf.tcp_bw", "qperf", "higher"),
        ("vm-scalability.median", "vm-scalability", "higher"),
        ("will-it-scale.scalability", "will-it-scale", "higher"),
        ("exit-free.duration", "exit-free", "lower"),
        ("fsmark.app_overhead", "fsmark", "lower"),
        ("thrulay.RTT", "thrulay", "lower"),
        # Neither more nor less of these is better.
        ("vm-scalability.median_stddev%", "vm-scalability", ""),
        ("fio.latency_1000us%", "fio-basic", ""),
        ("hackbench.time.percent_of_cpu_this_job_got", "hackbench", ""),
        ("hackbench.time.involuntary_context_switches", "hackbench", ""),
        ("cpuidle..time", "hackbench", ""),
        ("perf-profile.children.cycles-pp.ktime_get", "hackbench", ""),
        ("perf-stat.i.ops_per_cycle", "hackbench", ""),
        ("slabinfo.request_sock_TCP.active_objs", "hackbench", ""),
    ],
)
def test_only_metrics_of_the_test_its_power_and_its_delays_have_a_better_side(
    row: str, testcase: str, side: str
) -> None:
    assert better_of(row, testcase) == side


def test_a_slower_build_fails_a_gate_and_a_faster_one_passes(tmp_path: Path) -> None:
    row = "     {}            {}     {}        kbuild.real_time_per_iteration"
    for testcase in ("kbuild", ""):
        slower, faster = (
            mail(testcase, "      5.00            +6.0       11.00        mpstat.cpu.all.idle%", row.format(*cells))
            for cells in (("100.00", "+9.0%", "109.00"), ("100.00", "-9.0%", "91.00"))
        )
        for rule in ("kbuild < -5%", "any < -5%"):
            (failure,) = gate(slower, rule, tmp_path)
            assert "-9.00%" in failure
            assert gate(faster, rule, tmp_path) == []


def test_a_rule_of_the_test_leaves_monitors_out_but_no_metric_without_a_side(tmp_path: Path) -> None:
    monitors = (
        "    100000           +10.0%     110000        vm-scalability.throughput",
        "      1.10 ±  3%      +9.5       10.60 ±  2%  perf-profile.children.cycles-pp.hrtimer_interrupt",
        " 1.000e+09           +50.0%  1.500e+09        cpuidle..time",
        "      9000           +10.0%       9900        vm-scalability.time.percent_of_cpu_this_job_got",
    )
    for rule in ("vm-scalability < -5%", "any < -5%"):
        assert gate(mail("vm-scalability", *monitors), rule, tmp_path) == []
    unknown = "    100000           -30.0%      70000        vm-scalability.free_memory"
    (failure,) = gate(mail("vm-scalability", *monitors, unknown), "vm-scalability < -5%", tmp_path)
    assert "vm-scalability.free_memory" in failure
    assert "neither more nor less" in failure


def test_a_change_in_points_is_judged_and_written_in_points(tmp_path: Path) -> None:
    text = mail("a", "      1.10 ±  3%      +9.5       10.60 ±  2%  perf-sched.sch_delay.avg.ms.x")
    (failure,) = gate(text, "any < -9%", tmp_path)
    assert "-9.50 pp" in failure
    assert gate(text, "any < -10%", tmp_path) == []
    file = tmp_path / "gated.txt"
    cell = json.loads(compare(str(file), "--format", "json"))["cells"][1]
    assert (cell["change_points"], cell["change_pct"], cell["ratio"]) == (-9.5, None, None)


def test_runs_that_failed_change_by_points_in_every_format(tmp_path: Path) -> None:
    """The text had the change of `fail:runs`, and CSV and JSON had none."""
    rows = (
        "     17:24          -42%           7:24    dmesg.WARNING:x",
        "       :6           33%           2:6     stderr.y",
    )
    (tmp_path / "mail.txt").write_text(mail("tbench", *rows), encoding="utf-8")
    cells = json.loads(compare(str(tmp_path / "mail.txt"), "--format", "json"))["cells"]
    changes = [cell["change_points"] for cell in cells if cell["run"] == cells[1]["run"]]
    assert changes == pytest.approx([100 * (17 - 7) / 24, -100 * 2 / 6])


def test_a_change_that_contradicts_its_means_is_not_judged(tmp_path: Path) -> None:
    row = "    100000           +10.0%      90000        tbench.throughput"
    (failure,) = gate(mail("tbench", row), "tbench < -5%", tmp_path)
    assert "+10.0% of tbench.throughput does not follow from 100000 and 90000" in failure


def test_runs_of_a_mail_are_chosen_and_others_refused(tmp_path: Path) -> None:
    file = str(FOLDER / "commits.txt")
    two = json.loads(compare(file, "--runs", "v6.8-rc1,2222222222", "--format", "json"))
    (whole,) = tables([file])
    assert two["runs"] == ["v6.8-rc1", "2222222222"]
    changes = {cell["operation"]: cell["change_pct"] for cell in two["cells"] if cell["run"] == "2222222222"}
    expected = {row.metric: cell.change for row in whole.rows if (cell := row.cells[2])}
    assert changes == expected
    for arguments, words in (
        (("--runs", "v6.8-rc1,nobody"), "no run named 'nobody'"),
        (("--baseline", "nobody"), "no run named 'nobody'"),
        (("--baseline", "2222222222"), "changes are against v6.8-rc1"),
        (("--runs", "1111111111,v6.8-rc1"), "changes are against v6.8-rc1"),
        (("--table", "overview"), "--table needs the values of runs"),
    ):
        result = called("compare", file, *arguments)
        assert result.exit_code != 0
        assert words in str(result.exception) + result.output


def test_a_mail_is_answered_from_its_base_alone(tmp_path: Path) -> None:
    with_other_patch = tmp_path / "other.txt"
    with_other_patch.write_text(STDDEV.replace("-7.9%     113675", "+9.9%     135678"), encoding="utf-8")
    how = ("-m", "skylake-8x-uma", "--vs", "governor=powersave", "--format", "json")
    code, text, said = predict(str(FOLDER / "stddev.txt"), *how, results=tmp_path / "a")
    assert code == 0
    assert re.search(r"^(\d+)/\1 cases, ", said, re.MULTILINE)
    assert predict(str(with_other_patch), *how, results=tmp_path / "b")[1] == text
    found = {one["metric"]: one for one in json.loads(text)["predictions"]}
    assert list(found) == ["hackbench.throughput", "hackbench.throughput_avg", "turbostat.PkgWatt", "unixbench.score"]
    one = found["hackbench.throughput"]
    assert one["predicted"] == pytest.approx(one["base"] * (1 + one["change_pct"] / 100))
    assert one["low_pct"] < one["change_pct"] < one["high_pct"]
    assert 0.5 <= one["sign_probability"] < 1


def test_a_mail_is_answered_without_the_rows_that_a_machine_has_no_power_for(tmp_path: Path) -> None:
    mail = tmp_path / "mail.txt"
    mail.write_text(STDDEV.replace("/100%/", "/6%/"), encoding="utf-8")
    how = (str(mail), "-m", "kaby-lake-i7-7500u", "--vs", "governor=powersave")
    code, text, _ = predict(*how, results=tmp_path / "a")
    assert code == 0
    assert "hackbench.throughput  (" in text
    assert "turbostat.PkgWatt  (" not in text
    assert "(turbostat.PkgWatt: power of powersave hackbench is not known: " in text
    assert "note: 1 group of 40 tasks" in text


def test_a_mail_runs_as_long_as_its_model_or_as_asked(tmp_path: Path) -> None:
    """netperf's 24 streams ran for 10 s each, six times what the model's errors were learnt with."""
    mail = tmp_path / "mail.txt"
    of = ("hackbench.throughput", "netperf.Throughput_Mbps")
    shape = ("ipc/iterations/kconfig/mode", "ip/kconfig"), ("pipe/4/x86_64-rhel-8.3/process/100%", "ipv4/x/25%")
    test = ("tbox_group/testcase", "tbox_group/test/testcase"), ("/hackbench\n", "/TCP_STREAM/netperf\n")
    mail.write_text(reduce(lambda text, one: text.replace(*one), (of, *shape, *test), STDDEV))
    how = (str(mail), "-m", "juno-r2", "--vs", "governor=powersave")
    for more, length_ns in (((), 1_500_000_000), (("--seconds", "0.6"), 600_000_000)):
        folder = tmp_path / str(length_ns)
        assert predict(*how, *more, results=folder)[0] == 0
        assert json.loads((folder / "mail-1/manifest.json").read_text())["duration_ns"] == length_ns


def test_threads_of_the_robots_hackbench_are_groups(tmp_path: Path) -> None:
    """A mail with nr_threads 50 % of 96 CPUs, 9125 % of a CPU, was answered with 40 tasks: +0.0 %."""
    mail = tmp_path / "mail.txt"
    mail.write_text(STDDEV.replace("/100%/", "/50%/").split("*****")[0], encoding="utf-8")
    how = (str(mail), "-m", "juno-r2", "--vs", "hz=1000")
    code, own = predict(*how, results=tmp_path / "a")[:2]
    assert code == 0
    # It ends by itself: a longer limit changes nothing, and the answer says so.
    text = predict(*how, "--seconds", "90", results=tmp_path / "b")[1]
    note = "note: --seconds 90 is the most that a run takes: hackbench ends when its work is done\n"
    assert note in text
    assert text.replace(note, "") == own
    made = tomllib.loads((tmp_path / "a/mail-1/experiment.toml").read_text())
    (load,) = made["workload"]
    assert (load["groups"], load["loops_total"]) == (3, 60_000)


def test_watts_of_hackbench_are_those_of_its_loops(tmp_path: Path) -> None:
    """A mail's watts over 331 s were predicted by the mean of 0.4 s, of which half was the start of the tasks: +5.4 %.

    Method: what four times as many loops take and use more is loops alone.
    """
    found: dict[int, dict[str, float]] = {}
    for loops in (100, 400):
        params = {"groups": 10, "loops_total": 60_000, "loops": loops}
        run = opplab.simulate("skylake-8x-uma", opplab.Workload.benchmark("hackbench", **params), seconds=60)
        found[loops] = dict(run.metrics.select("metric", "value").iter_rows())
    energies = [run["energy"] for run in found.values()]
    seconds = [run["energy"] / run["power"] for run in found.values()]
    steady = (energies[1] - energies[0]) / (seconds[1] - seconds[0])
    assert found[400]["power_at_pace"] == pytest.approx(steady, rel=0.01)
    assert found[100]["power"] < 0.98 * steady
    how = ("-m", "skylake-8x-uma", "--vs", "governor=powersave", "--format", "json")
    text = predict(str(FOLDER / "stddev.txt"), *how, results=tmp_path)[1]
    (watts,) = (one["change_pct"] for one in json.loads(text)["predictions"] if one["metric"] == "turbostat.PkgWatt")
    runs = pl.read_parquet(tmp_path / "stddev-1/results.parquet").filter(metric="power_at_pace")
    base, other = (of["value"].to_numpy() for of in runs.partition_by("policy", maintain_order=True))
    assert watts == pytest.approx(100 * (math.exp(np.log(other / base).mean()) - 1), abs=1e-6)


def test_a_load_that_cannot_be_the_mails_is_refused(tmp_path: Path) -> None:
    mail = tmp_path / "mail.txt"
    row = "     41.52           -10.4       31.08        mpstat.cpu.all.idle%\n"
    busy = "      9125            -0.6%       9070        hackbench.time.percent_of_cpu_this_job_got\n"
    text = STDDEV.replace(row, row + busy).split("*****")[0]
    how = (str(mail), "-m", "juno-r2", "--vs", "hz=1000")
    mail.write_text(text.replace("/100%/", "/2/"), encoding="utf-8")
    code, _, words = predict(*how, results=tmp_path / "a")
    assert code != 0
    assert "9125 needs 92 running tasks at least, the model's load has 80" in words
    # The mail's machine has more CPUs than the one that stands for it.
    mail.write_text(text.replace("/100%/", "/3%/"), encoding="utf-8")
    assert predict(*how, results=tmp_path / "b")[0] == 0


@pytest.mark.parametrize("axis", ["fds", "datasize"])
def test_a_hackbench_of_other_groups_is_refused(axis: str, tmp_path: Path) -> None:
    mail = tmp_path / "mail.txt"
    text = STDDEV.replace("ipc/iterations/kconfig/mode", f"ipc/iterations/{axis}/mode").replace("x86_64-rhel-8.3", "4")
    mail.write_text(text.split("*****")[0], encoding="utf-8")
    code, _, words = predict(str(mail), "-m", "juno-r2", "--vs", "hz=1000", results=tmp_path / "r")
    assert code != 0
    assert f"`{axis}` of the text is 4: hackbench is modelled with" in words


@pytest.mark.parametrize(
    ("base", "kernel"),
    [("v6.12.54", "6.12.54"), ("v6.12", "6.12"), ("v6.12-rc3", "6.12"), ("v6.6.103-rc1", "6.6.103")],
)
def test_a_base_that_names_a_release_is_that_release(base: str, kernel: str) -> None:
    (report,) = kernel_robot.parse(mail("tbench", "  100.00     +1.0%     101.00        tbench.throughput"))
    report.commits[0] = base
    keys, notes = policy_of(report, {"governor": "schedutil"})
    assert (keys["kernel"], notes) == (kernel, [])


def test_what_is_given_in_place_of_the_texts_own_is_named() -> None:
    """Numbers of another governor and kernel stood under the text's own parameters without a word."""
    (report,) = kernel_robot.parse(mail("tbench", "  100.00     +1.0%     101.00        tbench.throughput"))
    report.commits[0], governor = "v6.12", "performance"
    report.axes["cpufreq_governor"] = governor
    keys, notes = policy_of(report, {"governor": "ondemand", "kernel": "6.6"})
    assert (keys["governor"], keys["kernel"]) == ("ondemand", "6.6")
    assert notes == [
        f"governor ondemand is used, as it was given: the text has {governor}",
        "kernel 6.6 is used, as it was given: the text has 6.12",
    ]
    assert policy_of(report, {"governor": governor, "kernel": "6.12"})[1] == []


def test_a_base_has_one_governor(tmp_path: Path) -> None:
    """Two ended in an internal error after the runs."""
    file = tmp_path / "mail.txt"
    file.write_text(STDDEV, encoding="utf-8")
    how = ("-m", "juno-r2", "--governor", "schedutil,performance", "--vs", "hz=1000")
    code, _, words = predict(str(file), *how, results=tmp_path / "r")
    assert code == 2
    assert "only one governor here" in words


def test_predictions_of_equal_metrics_have_their_parameters(tmp_path: Path) -> None:
    file = tmp_path / "mail.txt"
    part = STDDEV.partition("cpufreq_governor/nr_task")[2]
    unixbench = "cpufreq_governor/nr_task" + part
    file.write_text(unixbench + "\n" + unixbench.replace("schedutil/1/", "schedutil/2/"), encoding="utf-8")
    how = ("-m", "skylake-8x-uma", "--vs", "governor=performance", "--format", "json")
    code, text, _ = predict(str(file), *how, results=tmp_path / "r")
    assert code == 0
    found = json.loads(text)
    first, second = (one["parameters"] for one in found["predictions"])
    assert (first[:12], second[:12]) == ("schedutil/1/", "schedutil/2/")
    assert found["machine"] == "skylake-8x-uma"
    assert any("2 tasks of computing only" in note for note in found["notes"])


def test_an_answer_has_the_layout_that_is_read(tmp_path: Path) -> None:
    code, text, _ = predict(
        str(FOLDER / "stddev.txt"), "-m", "skylake-8x-uma", "--vs", "governor=powersave", results=tmp_path
    )
    assert code == 0
    assert "turbostat.PkgWatt  (" in text
    assert '0123456789 ("sched/fair: An example of a patch") as powersave' in text


@pytest.mark.parametrize(
    ("keys", "values", "row", "note"),
    [
        ("loops/mode", "10000000ops/process", "perf-bench-sched-pipe.ops_per_sec", "1 pair of tasks"),
        ("nr_task/test", "1/context1", "unixbench.throughput", "1 pair of tasks"),
        ("nr_threads/runtime", "1/300s", "sysbench-cpu.throughput_events/s", "1 task of computing only"),
        ("mode/nr_task/test", "process/50%/getppid1", "will-it-scale.per_process_ops", "4 tasks of computing only"),
        (
            "groups/ipc/loops/mode",
            "1/pipe/100/process",
            "perf-bench-sched-messaging.total_time_sec",
            "1 group of 40 tasks",
        ),
    ],
)
def test_tests_that_wait_or_compute_are_answered(keys: str, values: str, row: str, note: str, tmp_path: Path) -> None:
    testcase = row.partition(".")[0]
    mail = tmp_path / "mail.txt"
    mail.write_text(
        f"cpufreq_governor/{keys}/tbox_group/testcase:\n  performance/{values}/lkp-a-box/{testcase}\n\n"
        'commit:\n  v6.12\n  0123456789 ("a patch")\n\n'
        "           v6.12 0123456789abcdef01234567890\n---------------- ---------------------------\n"
        "         %stddev     %change         %stddev\n             \\          |                \\\n"
        f"    123456 ±  2%      -7.9%     113675 ±  3%  {row}\n",
        encoding="utf-8",
    )
    how = ("--vs", "scaling_max_freq=1700000", "--format", "json", "--seconds", "0.5")
    code, text, said = predict(
        str(mail), "-m", "skylake-8x-uma", "--governor", "performance", *how, results=tmp_path / "r"
    )
    assert code == 0, said
    found = json.loads(text)
    assert any(note in one for one in found["notes"]), found["notes"]
    (one,) = found["predictions"]
    assert one["metric"] == row
    # From 3.4 to 4 GHz down to 1.7: each rate is at least halved, less what a wake-up takes at any clock.
    slower = 1 + one["change_pct"] / 100
    slower = 1 / slower if row.endswith("total_time_sec") else slower
    assert 1.7 / 4 < slower < 0.7


@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        ("stddev.txt", (), "1 commit after the base (0123456789) and --vs gives 0"),
        ("stddev.txt", ("--vs", "hz=1000", "--vs", "hz=250"), "1 commit after the base (0123456789) and --vs gives 2"),
        ("commits.txt", ("--vs", "hz=1000"), "no model of will-it-scale's test `sched_yield`"),
        ("plain.txt", ("--vs", "hz=1000"), "no model of the test `aim7`"),
    ],
)
def test_what_cannot_be_predicted_is_refused(name: str, more: tuple[str, ...], words: str, tmp_path: Path) -> None:
    code, _, said = predict(str(FOLDER / name), "-m", "skylake-8x-uma", *more, results=tmp_path)
    assert code != 0
    assert words in said


def test_probabilities_hold_on_tables_that_they_were_not_learnt_from() -> None:
    cells = known_errors()
    expected, right = 0.0, []
    for table in dict.fromkeys(cell.table for cell in cells):
        others = [cell for cell in cells if cell.table != table]
        for cell in cells:
            if cell.table == table and cell.predicted and cell.published:
                expected += sign_probability(cell.benchmark, cell.predicted, 0.0, others)
                right.append(cell.predicted * cell.published > 0)
    # Three standard errors of a share of so many cells.
    assert len(right) > 300
    assert abs(sum(right) / len(right) - expected / len(right)) < 3 * (0.8 * 0.2 / len(right)) ** 0.5


@pytest.mark.parametrize("benchmark", ["tbench", "hackbench", "netperf-tcp"])
@pytest.mark.parametrize("deviation", [0.0, 0.001, 0.02, 0.2])
def test_a_sign_has_95_percent_where_the_90_percent_interval_excludes_0(benchmark: str, deviation: float) -> None:
    """dbench: -6.4 % "less 95 %" beside [-18.4 %, +7.2 %], with signed errors in one, unsigned in the other."""
    found = []
    for step in range(-60, 61):
        predicted = step / 100
        clear = abs(predicted) > half_width(benchmark, predicted, known_errors(), deviation)
        chance = sign_probability(benchmark, predicted, deviation, known_errors())
        assert (chance > 0.95 - 1e-6) == clear
        assert 0.5 <= chance < 1
        found.append(clear)
    assert not found[60]
    assert any(found) or deviation == 0.2


def test_a_file_of_several_profiles_is_no_variant_of_one_patch(tmp_path: Path) -> None:
    profile = tmp_path / "auto-cpufreq.conf"
    profile.write_text("[charger]\ngovernor = performance\n[battery]\ngovernor = powersave\n")
    code, _, words = predict(str(FOLDER / "stddev.txt"), "-m", "pixel6", "--vs", str(profile), results=tmp_path / "r")
    assert code != 0
    assert "1 commit after the base (0123456789) and --vs gives 2" in words

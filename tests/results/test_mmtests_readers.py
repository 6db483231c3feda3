"""Each log format of mmtests, the layouts of a tree, compression, and damage."""

import gzip
import lzma
import math
import re

import pytest

from opplab.comparison.compare import compare
from opplab.errors import InputError
from opplab.mmtests import benchmarks_of, find, read_monitor, read_run, runs_of
from opplab.mmtests.registry import _names

from calls import answered, called
from testdata import shared

TIME = "{0:.2f}user {1:.2f}system {2}elapsed 99%CPU (0avgtext+0avgdata 1maxresident)k\n0inputs+0outputs\n"


@pytest.fixture
def tree(tmp_path):
    """A function that writes a file of the first iteration of run `base`."""

    def write(path, text, run="base", iteration=0):
        file = tmp_path / run / f"iter-{iteration}" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        data = text if isinstance(text, bytes) else text.encode()
        if path.endswith(".gz"):
            data = gzip.compress(data)
        elif path.endswith(".xz"):
            data = lzma.compress(data)
        file.write_bytes(data)
        return file

    write.root = str(tmp_path)
    return write


def values(run):
    return {label: series.values() for label, series in run.series.items()}


def test_time_of_long_runs_keeps_six_digits(tree):
    tree("kernbench/logs/time-2-1", TIME.format(10, 2, "3:25:45.67"))
    tree("kernbench/logs/time-16-1", TIME.format(1, 2, "59.50"))
    tree("kernbench/logs/time-16-2", TIME.format(1, 2, "1:01.25"))
    run = read_run(tree.root, "base", "kernbench")
    assert values(run) == {
        "Elapsed-2": [12345.7],
        "Elapsed-16": [59.5, 61.25],
        "System-2": [2.0],
        "System-16": [2.0, 2.0],
        "User-2": [10.0],
        "User-16": [1.0, 1.0],
    }
    assert run.series["Elapsed-2"].unit == "seconds" and not run.problems


def test_nas_orders_kernels_by_name(tree):
    for kernel in ("cg.C", "bt.C", "ua.C"):
        tree(f"nas/logs/time-{kernel}-1", TIME.format(1, 1, "0:01.00"))
    assert list(read_run(tree.root, "base", "nas", "Elapsed").series) == [
        "Elapsed-bt.C",
        "Elapsed-cg.C",
        "Elapsed-ua.C",
    ]


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_dbench_metrics_and_compression(tree, ending):
    tree(f"tbench/logs/benchlog-loadfile-2{ending}", "   0 completed in 28.6663 ms at @ 1000\n" * 2)
    tree(f"tbench/logs/benchlog-tput-2{ending}", "   2  1000  860.33 MB/sec  execute  1 sec  latency 0.1 ms\n")
    tree(f"tbench/logs/benchlog-op-2{ending}", " Close  12345  0.010  3.21\n")
    run = read_run(tree.root, "base", "tbench")
    assert values(run) == {"loadfile-2": [28.6663] * 2, "op-Close-2": [0.01], "tput-2": [860.33]}
    assert run.ratio_labels == ["loadfile-2"]
    assert [one.higher for one in run.series.values()] == [False, False, True]
    assert [one.unit for one in run.series.values()] == ["msec", "msec", "MB/sec"]


def test_sqlite_and_hackbench(tree):
    tree("sqlite/logs/benchlog-_-_-2", "execute 1 sec 2 2600.5 tps\n")
    tree("sqlite/logs/benchlog-_-_-1", "warmup 1\nexecute 1 sec 2 2500.5 tps\nexecute 2 sec 4 2510 tps\n")
    assert values(read_run(tree.root, "base", "sqlite")) == {"txn/sec": [2500.5, 2510.0, 2600.5]}
    tree("hackbench-process-pipes/logs/hackbench-4", "Running\nTotal time: 2.372 [sec]\nTime: 2.4\n")
    assert values(read_run(tree.root, "base", "hackbench-process-pipes")) == {"time-4": [2.372, 2.4]}


def test_pgbench_rates_over_batches(tree):
    log = "".join(f"{1000 + second} {100 + second} 1 1 1 1\n" for second in range(20))
    tree("pgbench/logs/pgbench-2.log", "")
    tree("pgbench/logs/pgbench-transactions-2.log.gz", log)
    tree("pgbench/logs/time-2-1", TIME.format(1, 2, "0:03.00"))
    # Warm-up: 7 lines; batches of 4 from line 8; the first batch is dropped: 1014 over the batch that ends then.
    batch = [sum(100 + second for second in range(start, start + 4)) / 4 for start in (11, 15)]
    assert values(read_run(tree.root, "base", "pgbench")) == {"txn-2": batch}
    assert values(read_run(tree.root, "base", "pgbench", report="exectime"))["Elapsed-2"] == [3.0]


def test_netperf(tree):
    table = (
        "MIGRATED TCP STREAM TEST\nbytes  bytes   bytes    secs.    10^6bits/sec\n\n87380  16384  64  30.00  941.25\n"
    )
    tree("netperf-ipv4-tcp/logs/protocols", "TCP_STREAM\n")
    tree("netperf-ipv4-tcp/logs/TCP_STREAM-64.1", table)
    assert values(read_run(tree.root, "base", "netperf-ipv4-tcp")) == {"tcpstream-send-64": [941.25]}
    udp = "212992   64   30.00     1000      0     500.00\n212992           30.00     900            400.00\n"
    tree("netperf-ipv4-udp/logs/protocols", "UDP_STREAM\n")
    tree("netperf-ipv4-udp/logs/UDP_STREAM-64.1", udp)
    found = values(read_run(tree.root, "base", "netperf-ipv4-udp"))
    assert found == {"udpstream-send-64": [500.0], "udpstream-recv-64": [400.0], "udpstream-loss-64": [100.0]}
    literal = values(read_run(tree.root, "base", "netperf-ipv4-udp", literal=True))
    assert literal == {"udpstream-send-64": [500.0], "udpstream-recv-64": [500.0]}


def test_lost_datagrams_are_no_throughput(tree):
    """Twice the loss was 100 % better, and its ratio was averaged with those of what was sent and received."""
    for run, received in (("base", 300.0), ("worse", 100.0)):
        udp = f"212992   64   30.00     1000      0     500.00\n212992           30.00     900            {received}\n"
        for file, text in (("protocols", "UDP_STREAM\n"), ("UDP_STREAM-64.1", udp)):
            tree(f"netperf-udp/logs/{file}", text, run=run)
    (table,) = compare(tree.root, table="detail")
    changes = {row.operation: (row.cells[1].change, row.better) for row in table.rows}
    assert changes["udpstream-loss-64"] == (pytest.approx(-100.0), "lower")
    assert changes["udpstream-recv-64"] == (pytest.approx(-100 * 2 / 3), "higher")
    (table,) = compare(tree.root, table="overview")
    ratios = {row.metric: row.cells[1].ratio for row in table.rows}
    # By hand: the root of 1 and 1/3; 400 of 200.
    assert ratios == {"udpstream": pytest.approx((1 / 3) ** 0.5), "udpstream-loss": pytest.approx(2.0)}


def test_fio_terse_json_and_latency(tree):
    fields = ["0"] * 130
    fields[2], fields[5], fields[44], fields[46], fields[85] = "job", "10", "1234.5", "0", "0"
    tree("fio/logs/fio.log.gz", "warning: x\n" + ";".join(fields) + "\n")
    tree("fio/logs/fio_lat.1.log.gz", "1, 10, 0, 4096\n2, 20, 1, 4096\n3, 30, 0, 4096\n4, 5, 2, 4096\n")
    assert values(read_run(tree.root, "base", "fio")) == {"kb/sec-job-read": [1234.5]}
    assert values(read_run(tree.root, "base", "fio", report="latency")) == {
        "latency-read": [10.0, 30.0],
        "latency-write": [20.0],
    }
    tree("fio/logs/fio-x.json", '{"jobs": [{"jobname": "j", "read": {"total_ios": 3, "bw_mean": 7.5}}]}')
    assert values(read_run(tree.root, "base", "fio"))["kb/sec-j-read"] == [7.5]


def test_fio_jobs_of_one_run_are_one_value(tree):
    """Each iteration is one run of fio; mmtests takes its jobs for samples."""
    line = ["0"] * 130
    line[2], line[5], line[44] = "db", "10", "250"
    job = '{{"jobname": "web", "error": {}, "read": {{"total_ios": 3, "bw_mean": {}}}}}'
    for iteration in range(2):
        log = [";".join([*line[:44], str(250 * nth), *line[45:]]) for nth in (1, 3)]
        tree("fio/logs/fio.log", "\n".join(log), iteration=iteration)
        tree("fio/logs/fio.json", f'{{"jobs": [{job.format(0, 4)}, {job.format(0, 6.5)}]}}', iteration=iteration)
    run = read_run(tree.root, "base", "fio")
    assert values(run) == {"kb/sec-db-read": [1000.0] * 2, "kb/sec-web-read": [10.5] * 2}
    literal = read_run(tree.root, "base", "fio", literal=True)
    assert values(literal)["kb/sec-db-read"] == [250.0, 750.0] * 2
    # What is left where one of them failed is no value of the run.
    line[4] = "5"
    tree("fio/logs/fio.log", "\n".join([*log, ";".join(line)]), iteration=1)
    tree("fio/logs/fio.json", f'{{"jobs": [{job.format(0, 4)}, {job.format(5, 6.5)}]}}', iteration=1)
    run = read_run(tree.root, "base", "fio")
    assert values(run) == {"kb/sec-db-read": [1000.0], "kb/sec-web-read": [10.5]}
    assert len(run.problems) == 2


@pytest.mark.parametrize("layout", ["iter", "flat"])
def test_a_test_that_ended_with_an_error_has_no_values(tree, tmp_path, layout):
    """mmtests writes the status of each test behind its time; a log that was cut short looks very fast."""
    words = "test end :: {} 1600000907 {}\n"
    good, bad = (words.format("kernbench-x", 1) + words.format("kernbench", status) for status in (0, 2))
    if layout == "iter":
        tree("kernbench/logs/time-4-1", TIME.format(1, 2, "3:30.00"))
        tree("tests-timestamp.gz", bad + good)
        tree("kernbench/logs/time-4-1", TIME.format(1, 2, "0:12.00"), iteration=1)
        tree("tests-timestamp", bad, iteration=1)
    else:
        for run, elapsed, ends in (("base", "3:30.00", good), ("new", "0:12.00", bad)):
            logs = tmp_path / f"kernbench-{run}" / "noprofile"
            logs.mkdir(parents=True)
            (logs / "time-4-1").write_text(TIME.format(1, 2, elapsed))
            (tmp_path / f"tests-timestamp-{run}").write_text(ends)
    names = ["base"] if layout == "iter" else ["base", "new"]
    found = [read_run(str(tmp_path), name, "kernbench", "Elapsed") for name in names]
    assert [values(run) for run in found] == [{"Elapsed-4": [210.0]}, {}][: len(names)]
    (problem,) = found[-1].problems
    assert "kernbench ended with status 2: its values are left out" in str(problem)
    assert problem.line == 2
    literal = read_run(str(tmp_path), names[-1], "kernbench", "Elapsed", literal=True)
    assert values(literal)["Elapsed-4"][-1] == 12.0, "mmtests takes them"


def test_schbench_takes_complete_blocks_only(tree):
    block = (
        "Wakeup Latencies percentiles (usec) runtime 10 (s) (100 total samples)\n\t  50.0th: 11  (5 samples)\n"
        "\t* 99.0th: 44   (5 samples)\nRPS percentiles (requests) runtime 10 (s) (5 total samples)\n"
        "\t* 50.0th: 300   (5 samples)\n"
    )
    tree("schbench/logs/schbench-4.log", block + "current rps: 300.10\n" + block.replace("44", "55"))
    run = read_run(tree.root, "base", "schbench")
    assert values(run) == {"Wakeup-50.0th-4": [11.0], "Wakeup-99.0th-4": [44.0], "RPS-50.0th-4": [300.0]}
    assert run.series["RPS-50.0th-4"].higher


def test_turbostat_with_and_without_time_stamps(tree):
    tree(
        "turbostat-x.xz",
        "Core\tCPU\tAvg_MHz\tBusy%\tPkgWatt\n-\t-\t900\t30.0\t100.5\n0\t0\t1\t1\t1\n-\t-\t950\t31.0\t101.5\n",
    )
    assert values(read_monitor(tree.root, "base", "turbostat", "x")) == {
        "Avg_MHz": [900.0, 950.0],
        "Busy%": [30.0, 31.0],
        "PkgWatt": [100.5, 101.5],
    }
    stamped = "1 2 3 -- Core CPU Avg_MHz Busy%\n1 2 3 -- - - 900 30.0\n2 3 4 -- - - 910 x\n"
    tree("turbostat-y", stamped)
    assert values(read_monitor(tree.root, "base", "turbostat", "y", "Avg_MHz")) == {"Avg_MHz": [900.0, 910.0]}


def test_turbostat_with_times_before_the_places_is_read(tree):
    """`--enable Time_Of_Day_Seconds`: no line was taken for the whole machine's, and nobody was told."""
    head = "Time_Of_Day_Seconds\tPackage\tCore\tCPU\tAvg_MHz\tPkgWatt\n"
    tree("turbostat-x", head + "1.5\t-\t-\t-\t900\t100.5\n1.5\t0\t0\t0\t1\t99\n2.5\t-\t-\t-\t950\t101.5\n")
    found = values(read_monitor(tree.root, "base", "turbostat", "x"))
    assert found == {"Avg_MHz": [900.0, 950.0], "PkgWatt": [100.5, 101.5]}
    tree("turbostat-y", head + "1.5\t0\t0\t0\t1\t99\n")
    (problem,) = read_monitor(tree.root, "base", "turbostat", "y").problems
    assert problem.what == "no line of the whole machine"


def test_cpufreq_and_duration_monitors(tree):
    place = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq:{}\n"
    tree("cpufreq-x", place.format(0, 1500000) + place.format(1, 2250000) + place.format(0, "x"))
    run = read_monitor(tree.root, "base", "cpufreq", "x")
    assert values(run) == {"cur_freq": [1500.0, 2250.0], "cur_freq-0": [1500.0], "cur_freq-1": [2250.0]}
    assert [str(one) for one in run.problems] == [f"{tree.root}/base/iter-0/cpufreq-x:3: line without a frequency"]
    tree(
        "tests-timestamp",
        "start :: 1\ntime :: x 10.5 user 1.5 system 20.5 elapsed\ntime :: xy 1 user 1 system 1 elapsed\n",
    )
    found = values(read_monitor(tree.root, "base", "duration", "x"))
    assert found == {"User": [10.5], "System": [1.5], "Elapsed": [20.5]}


def test_damage_is_reported_by_name_and_skipped(tree):
    tree("kernbench/logs/time-2-1", TIME.format(1, 2, "0:03.00"))
    tree("kernbench/logs/time-2-2", "")
    tree("kernbench/logs/time-2-3", "1.00user 2.0")
    tree("kernbench/logs/time-2-4", b"\xff\xfe\x00garbage elapsed")
    run = read_run(tree.root, "base", "kernbench")
    assert values(run)["Elapsed-2"] == [3.0]
    assert sorted(one.path.rpartition("/")[2] for one in run.problems) == ["time-2-2", "time-2-3", "time-2-4"]

    whole = lzma.compress(b"   2  1000  860.33 MB/sec\n" * 500)
    file = tree("dbench/logs/benchlog-tput-2.xz", "")
    file.write_bytes(whole[: len(whole) // 2])
    tree("dbench/logs/benchlog-tput-4.xz", "   4  1000  900.5 MB/sec\n   4  10")
    tree("dbench/logs/benchlog-tput-8.gz", "").write_bytes(b"not gzip")
    run = read_run(tree.root, "base", "dbench")
    assert values(run) == {"tput-4": [900.5]}
    assert sorted(str(one).rpartition("/")[2] for one in run.problems) == [
        "benchlog-tput-2.xz: truncated compressed file",
        "benchlog-tput-4.xz:2: line without a value",
        "benchlog-tput-8.gz: not a valid .gz file (Error -3 while decompressing data: incorrect header check)",
    ]


def test_skipped_files_are_named_on_standard_error(tree):
    tree("kernbench/logs/time-2-1", TIME.format(1, 2, "0:03.00"))
    tree("kernbench/logs/time-2-2", "")
    for method in ("mmtests", "default"):
        arguments = ["compare", tree.root, "-b", "kernbench:Elapsed", "--method", method]
        result = answered(*arguments)
        assert result.exit_code == 0 and "3.00" in result.stdout
        assert "time-2-2: no line with user" in result.stderr


def test_iterations_are_kept_apart(tree):
    for iteration in range(3):
        tree("gitsource/logs/time-_-1", TIME.format(1, 2, f"0:0{iteration}.00"), iteration=iteration)
    assert read_run(tree.root, "base", "gitsource").series["Elapsed"].iterations == [[0.0], [1.0], [2.0]]


def test_old_layouts(tmp_path):
    single = tmp_path / "a" / "run1"
    (single / "kernbench/logs").mkdir(parents=True)
    (single / "kernbench/logs/time-2-1").write_text(TIME.format(1, 2, "0:03.00"))
    (single / "mmtests-activity").write_text("1 run-mmtests: Start\n")
    assert runs_of(str(tmp_path / "a")) == ["run1"]
    assert benchmarks_of(str(tmp_path / "a"), "run1") == ["kernbench"]
    assert values(read_run(str(tmp_path / "a"), "run1", "kernbench", "Elapsed")) == {"Elapsed-2": [3.0]}

    flat = tmp_path / "b"
    (flat / "kernbench-3.4-vanilla/noprofile").mkdir(parents=True)
    (flat / "kernbench-3.4-vanilla/noprofile/time-2-1").write_text(TIME.format(1, 2, "0:04.00"))
    (flat / "tests-timestamp-3.4-vanilla").write_text("time :: kernbench 1 user 2 system 4 elapsed\n")
    (flat / "turbostat-3.4-vanilla-kernbench").write_text("Core CPU Avg_MHz\n- - 900\n")
    assert runs_of(str(flat)) == ["3.4-vanilla"]
    assert benchmarks_of(str(flat), "3.4-vanilla") == ["kernbench"]
    assert values(read_run(str(flat), "3.4-vanilla", "kernbench", "Elapsed")) == {"Elapsed-2": [4.0]}
    assert values(read_monitor(str(flat), "3.4-vanilla", "duration", "kernbench"))["Elapsed"] == [4.0]
    assert values(read_monitor(str(flat), "3.4-vanilla", "turbostat", "kernbench")) == {"Avg_MHz": [900.0]}


def test_mistakes_name_the_nearest(tree):
    tree("kernbench/logs/time-2-1", TIME.format(1, 2, "0:03.00"))
    with pytest.raises(InputError, match=r"no benchmark named 'kernbnch'; did you mean 'kernbench'\?"):
        find("kernbnch")
    # A short name is that of the folder that begins with it, however near another one is.
    golden = shared("data/mmtests-golden/given/results")
    words = ["compare", str(golden), "-b", "hackbench"]
    asked = called(*words)
    gated = called(*words[:2], "--fail-if", "hackbench < -2% clear")
    for done in (asked, gated):
        assert re.search(r"did you mean .hackbench-process-pipes.\?", f"{done.output}{done.exception}")
    with pytest.raises(InputError, match=r"no run named 'bas'; did you mean 'base'\?"):
        read_run(tree.root, "bas", "kernbench")
    with pytest.raises(InputError, match=r"no report named 'latncy'; did you mean 'latency'\?"):
        find("fio", "latncy")
    for arguments, message in [
        (["-b", "kernbench", "--metric", "Elapsd"], "did you mean 'Elapsed'?"),
        (["-b", "dbench"], "no benchmark named 'dbench'; did you mean 'kernbench'? in run 'base'"),
        (["-b", "kernbench", "--baseline", "bsae"], "did you mean 'base'?"),
        (["-b", "kernbench", "--table", "monitor:turbstat"], "did you mean 'turbostat'?"),
    ]:
        result = called("compare", tree.root, "--method", "mmtests", *arguments)
        assert message in str(result.exception), result.output


def test_every_format_module_registers_itself():
    assert set(_names("benchmark")) == {
        *("dbench", "fio", "gitsource", "hackbench", "kernbench", "nas", "netperf", "pgbench", "schbench", "sqlite"),
        "tbench",
    }
    assert set(_names("monitor")) == {"cpufreq", "duration", "turbostat"}


def test_single_values_and_missing_operations_are_zeroes_as_in_mmtests(tree):
    tree("gitsource/logs/time-_-1", TIME.format(1, 2, "0:03.00"))
    tree("gitsource/logs/x", "", run="other")
    result = called("compare", tree.root, "--runs", "base,other", "-b", "gitsource:Elapsed", "--method", "mmtests")
    rows = {line.split()[0]: line.split()[2:] for line in result.stdout.splitlines()[2:]}
    assert rows["Stddev"][0] == "0.00" and rows["Amean"][:1] == ["3.00"]
    assert not any(math.isnan(float(row[0])) for row in rows.values())


def test_times_of_a_command_that_failed_are_left_out(tree):
    tree("kernbench/logs/time-2-1", TIME.format(1, 2, "0:03.00"))
    tree("kernbench/logs/time-2-2", "Command exited with non-zero status 2\n" + TIME.format(1, 2, "0:01.00"))
    run = read_run(tree.root, "base", "kernbench")
    assert values(run)["Elapsed-2"] == [3.0]
    assert [problem.what for problem in run.problems] == [
        "Command exited with non-zero status 2: its times are left out"
    ]
    literal = read_run(tree.root, "base", "kernbench", literal=True)
    assert values(literal)["Elapsed-2"] == [3.0, 1.0] and not literal.problems

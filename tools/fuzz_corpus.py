"""What the fuzzer of the command line starts from: small whole files of every kind that a command reads.

Everything is of this repository or made by the program; nothing is fetched.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import os
import shutil
import subprocess
import sys
from pathlib import Path

import cgroup_trees

__all__ = ["build"]

TOP = Path(__file__).resolve().parents[1]
DATA = TOP / "python/opplab/data"

WORKLOADS = {
    "periodic": """{
  "global": {"duration": 1, "default_policy": "SCHED_OTHER", "calibration": "CPU0"},
  "tasks": {
    "t": {"instance": 2, "loop": -1, "run": 800, "timer": {"ref": "unique", "period": 16000}},
    "rt": {"policy": "SCHED_FIFO", "priority": 10, "run": 100, "sleep": 5000, "cpus": [0, 1]}
  }
}
""",
    "locks": """{
  // comments are allowed
  "tasks": {
    "a": {"loop": 3, "phases": {
      "first": {"loop": 2, "lock": "m", "run": 500, "unlock": "m", "signal": "c", "timer": {"ref": "t", "period": 8000}},
      "second": {"run": 100, "sleep": 1000, "yield": "", "resume": "b"}}},
    "b": {"lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m", "suspend": "b", "run": 200, "nice": 5},
    "f": {"phases": {"p": {"loop": 2, "fork": "t", "run": 100, "barrier": "x", "mem": 100, "iorun": 10}}},
    "t": {"loop": 1, "run": 100}
  },
  "global": {"duration": 1}
}
""",
}

EXPERIMENT = """format = 1
name = "small"
about = "two governors"
machine = "juno-r2"
baseline = "a"
seed = 1
iterations = 2
duration = "20ms"
until = { ci = "5%", metric = "energy", min = 2 }

[defaults]
kernel = "6.12"
hz = 250

[[policy]]
label = "a"
governor = "schedutil"
tunables = { rate_limit_us = 1000 }

[[policy]]
label = "b/c"
governor = "ondemand"
eas = false

[[workload]]
label = "w"
rtapp = "periodic.json"

[[workload]]
label = "p"
benchmark = "periodic"
tasks = [2, 3]
duty = 50
period_us = 16000
"""

FTRACE = """# tracer: nop
#
           <...>-1 [000] d..2. 1.000001: sched_wakeup: comm=w pid=7 prio=120 target_cpu=000
          <idle>-0 [000] d..2. 1.000002: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=w next_pid=7 next_prio=120
               w-7 [000] d..2. 1.000700: cpu_frequency: state=1500000 cpu_id=0
               w-7 [000] d..2. 1.000800: sched_util_est_se_tp: comm=w pid=7 cpu=0 enqueued=30 ewma=40 util=35
               w-7 [000] d..2. 1.004000: sched_switch: prev_comm=w prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
          <idle>-0 [000] d..1. 1.004100: cpu_idle: state=1 cpu_id=0
          <idle>-0 [001] d..2. 1.005000: sched_migrate_task: comm=w pid=7 prio=120 orig_cpu=0 dest_cpu=1
          <idle>-0 [000] d..1. 1.008000: cpu_idle: state=4294967295 cpu_id=0
          <idle>-0 [001] d..2. 1.008002: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=w next_pid=7 next_prio=120
               w-7 [001] d..2. 1.012000: sched_switch: prev_comm=w prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
"""

SYSFS = {
    "sys/devices/system/cpu/online": "0-1",
    "sys/devices/system/cpu/possible": "0-3",
    "sys/devices/system/cpu/present": "0-1",
    "sys/devices/system/cpu/cpu0/cpu_capacity": "446",
    "sys/devices/system/cpu/cpu1/cpu_capacity": "1024",
    "sys/devices/system/cpu/cpu0/topology/core_id": "0",
    "sys/devices/system/cpu/cpu1/topology/core_id": "1",
    "sys/devices/system/cpu/cpu0/topology/physical_package_id": "0",
    "sys/devices/system/cpu/cpu1/topology/physical_package_id": "0",
    "sys/devices/system/cpu/cpu0/cpuidle/state0/name": "WFI",
    "sys/devices/system/cpu/cpu0/cpuidle/state0/latency": "1",
    "sys/devices/system/cpu/cpu0/cpuidle/state0/residency": "1",
    "sys/devices/system/cpu/cpu0/cpuidle/state0/time": "123456",
    "sys/devices/system/cpu/cpu0/cpuidle/state0/usage": "17",
    "sys/devices/system/cpu/cpuidle/current_driver": "psci_idle",
    "sys/devices/system/cpu/cpuidle/current_governor": "menu",
    **{
        f"sys/kernel/debug/energy_model/cpu{cpu}/{name}": text
        for cpu in (0, 1)
        for name, text in {
            "cpus": str(cpu),
            **{f"ps:{khz}/frequency": str(khz) for khz in (450000, 800000, 950000)},
            **{f"ps:{khz}/power": str((cpu + 1) * khz // 9) for khz in (450000, 800000, 950000)},
        }.items()
    },
    "sys/class/powercap/intel-rapl:0/name": "package-0",
    "sys/class/powercap/intel-rapl:0/energy_uj": "123456789",
    "sys/class/powercap/intel-rapl:0/max_energy_range_uj": "262143328850",
    "proc/stat": "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 100 0 0 50 0 0 0 0 0 0\ncpu1 0 0 0 100 0 0 0 0 0 0",
    "proc/cpuinfo": "\n\n".join(
        f"processor\t: {cpu}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 79\nmodel name\t: X\nstepping\t: 1"
        for cpu in (0, 1)
    ),
    "proc/sys/kernel/sched_energy_aware": "1",
    "proc/version": "Linux version 6.12.0 (x@y) #1 SMP",
    "proc/cmdline": "quiet",
    "proc/12/comm": "sugov:0",
    "proc/12/stat": "12 (sugov:0) S 2 0 0 0 -1 69238848 0 0 0 0 0 5 0 0 -51 0 1 0 30 0 0",
    "proc/12/status": "Name:\tsugov:0\nCpus_allowed_list:\t0-1\nvoluntary_ctxt_switches:\t5",
    **{
        f"sys/devices/system/cpu/cpufreq/policy{policy}/{name}": text
        for policy in (0, 1)
        for name, text in {
            "affected_cpus": str(policy),
            "related_cpus": str(policy),
            "cpuinfo_min_freq": "450000",
            "cpuinfo_max_freq": "950000",
            "cpuinfo_transition_latency": "10000",
            "scaling_min_freq": "450000",
            "scaling_max_freq": "950000",
            "scaling_cur_freq": "450000",
            "scaling_setspeed": "<unsupported>",
            "scaling_governor": "schedutil",
            "scaling_driver": "scmi",
            "scaling_available_governors": "userspace schedutil",
            "scaling_available_frequencies": "450000 800000 950000",
        }.items()
    },
}

PROFILES = {
    "base/tuned.conf": "[main]\nsummary=s\n[cpu]\ngovernor=schedutil|powersave\nboost=0\n[disk]\n#devices=sda\n",
    "mine/tuned.conf": "[main]\ninclude=base\n[sysfs]\n/sys/x/scaling_max_freq=800000\n[cpu]\ngovernor=performance\n",
    "tlp.conf": "CPU_SCALING_GOVERNOR_ON_AC=performance\nCPU_MAX_PERF_ON_BAT=30\nCPU_BOOST_ON_BAT=0\n",
    "auto-cpufreq.conf": "[charger]\ngovernor = performance\nturbo = auto\n[battery]\ngovernor = powersave\n",
    "state.ini": "[State]\nProfile=balanced\n",
}
"""Power profiles of distributions."""

DEVICE_TREE = """/dts-v1/;
/ {
  cpus {
    #address-cells = <1>; #size-cells = <0>;
    cpu@0 { device_type = "cpu"; compatible = "arm,cortex-a53"; reg = <0>; capacity-dmips-mhz = <485>;
      operating-points-v2 = <&opp>; dynamic-power-coefficient = <100>; };
    cpu@1 { device_type = "cpu"; compatible = "arm,cortex-a72"; reg = <1>; capacity-dmips-mhz = <1024>;
      operating-points-v2 = <&opp>; dynamic-power-coefficient = <300>; };
  };
  opp: opp-table { compatible = "operating-points-v2"; opp-shared;
    opp-450000000 { opp-hz = /bits/ 64 <450000000>; opp-microvolt = <820000>; };
    opp-950000000 { opp-hz = /bits/ 64 <950000000>; opp-microvolt = <1000000>; };
  };
};
"""

TURBOSTAT = """Core\tCPU\tAvg_MHz\tBusy%\tBzy_MHz\tTSC_MHz\tIRQ\tPkgWatt\tCorWatt
-\t-\t120\t6.00\t2000\t2200\t300\t12.5\t3.1
0\t0\t200\t10.00\t2000\t2200\t200\t12.5\t3.1
1\t1\t40\t2.00\t2000\t2200\t100
-\t-\t1100\t50.00\t2200\t2200\t300\t22.5\t9.1
0\t0\t2200\t100.00\t2200\t2200\t200\t22.5\t9.1
1\t1\t0\t0.00\t0\t2200\t100
"""


def power_table() -> str:
    """Give a table of power by operating point."""
    rows = ["soc,run,cpu,khz,busy_mean_mw,coremark_iter_per_s"]
    for cpu, scale in ((0, 1.0), (4, 3.0)):
        for khz in range(300_000, 2_100_001, 300_000):
            ghz = khz / 1e6
            rows.append(f"chip,1,{cpu},{khz},{scale * (20 + 90 * ghz * (0.5 + 0.2 * ghz) ** 2):.1f},{3000 * ghz:.0f}")
    return "\n".join(rows) + "\n"


def watts_table() -> str:
    """Give a table of watts by busy cores and clock."""
    rows = ["busy_cores,mhz,pkgwatt"]
    rows += [f"{cores},{mhz},{8 + cores * mhz / 1000 * 1.7:.2f}" for cores in (0, 1, 2, 4) for mhz in (800, 1500, 2200)]
    return "\n".join(rows) + "\n"


def results_table() -> str:
    """Give results of two policies as CSV."""
    head = "experiment,source,machine,kernel,policy,benchmark,param,metric,unit,better,iteration,seed,value,fingerprint"
    rows = [
        f"e,sim,m,6.12,{policy},tbench,clients={clients},tput,MB/s,higher,{iteration},{iteration},{100 + 7 * iteration + step},"
        for policy, step in (("a", 0), ("b", 5))
        for clients in (1, 2)
        for iteration in range(3)
    ]
    return "\n".join([head, *rows]) + "\n"


def run(folder: Path, *args: str) -> None:
    """Let the program make something of the corpus."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-m", "opplab", *args],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        env=environment,
    )
    if done.returncode:
        sys.exit(f"fuzz_cli: cannot make the corpus: opplab {' '.join(args)}: {done.stderr}")


def build(folder: Path) -> dict[str, list[Path]]:
    """Write the corpus below `folder`; gives the files and folders of each kind."""
    made: dict[str, list[Path]] = {}

    def put(kind: str, name: str, text: str | bytes) -> Path:
        path = folder / kind / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        made.setdefault(kind, []).append(path)
        return path

    for name in ("juno-r2", "msm8917", "kaby-lake-i7-7500u", "skylake-8x-uma", "sm8250", "core-ultra-135h"):
        put("machine", f"{name}.toml", (DATA / f"machines/{name}.toml").read_bytes())
    for name, text in WORKLOADS.items():
        put("workload", f"{name}.json", text)
    put("experiment", "small.toml", EXPERIMENT)
    for name in ("juno-hackbench", "hwp-boost-sqlite"):
        put("experiment", f"{name}.toml", (DATA / f"experiments/{name}.toml").read_bytes())
    shutil.copy(folder / "workload/periodic.json", folder / "experiment/periodic.json")
    put("trace", "small.txt", FTRACE)
    put("trace", "perfetto.pftrace", (TOP / "crates/trace/tests/data/perfetto_small.pftrace").read_bytes())
    put("trace", "plain.dat", (TOP / "crates/trace/fuzz/seeds/plain_v6.dat").read_bytes())
    put("trace", "packed.pftrace.gz", gzip.compress((folder / "trace/perfetto.pftrace").read_bytes()))
    put("trace", "packed.txt.xz", lzma.compress(FTRACE.encode()))
    recording = TOP / "crates/verify/tests/data/traces/x86-612-xeon16-hw1-schedutil-burst"
    put("trace", "recorded.dat", (recording / "trace.dat").read_bytes())
    shutil.copytree(recording, folder / "recording/burst")
    made["recording"] = [folder / "recording/burst"]
    put("dump", "snapshot.txt", (recording / "sysfs_before.txt").read_bytes())
    put("dump", "lines.txt", "".join(f"/{path}:{line}\n" for path, text in SYSFS.items() for line in text.splitlines()))
    put("dump", "board.dts", DEVICE_TREE)
    put("dump", "turbostat.txt", TURBOSTAT)
    for path, text in SYSFS.items():
        file = folder / "sysfs/copy" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n", encoding="utf-8")
    made["sysfs"] = [folder / "sysfs/copy"]
    made["cgroup"] = [cgroup_trees.v2(folder / "cgroup/tree"), cgroup_trees.v1(folder / "cgroup/v1")]
    put("pod", "pods.yaml", (TOP / "tests/data/pods.yaml").read_bytes())
    made["profile"] = []
    for name, text in PROFILES.items():
        file = folder / "profile" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        made["profile"].append(file)
    for mail in sorted((TOP / "tests/unit/robot").glob("*.txt"))[:3]:
        put("mail", mail.name, mail.read_bytes())
    put("power", "points.csv", power_table())
    put("power", "watts.csv", watts_table())
    put("power", "turbostat.txt", TURBOSTAT)
    put("table", "results.csv", results_table())
    put("table", "published.csv", min((DATA / "published").glob("*.csv")).read_bytes()[:4000])
    given = TOP / "tests/data/mmtests-golden/given/results"
    for kernel in sorted(given.iterdir())[:2]:
        for name in ("tbench", "gitsource"):
            shutil.copytree(kernel / "iter-0" / name, folder / f"mmtests/tree/{kernel.name}/iter-0/{name}")
    made["mmtests"] = [folder / "mmtests/tree"]
    logs = [
        path for path in sorted((folder / "mmtests/tree").rglob("*")) if path.is_file() and path.stat().st_size < 60_000
    ]
    made["benchlog"] = logs[:6]
    for vectors in sorted((TOP / "crates/verify/vectors").iterdir()):
        if vectors.suffix == ".gz":
            with gzip.open(vectors, "rb") as stream:
                put("vectors", vectors.name.removesuffix(".gz"), b"".join(stream.readline() for _ in range(8)))
    _made_by_the_program(folder, made, put)
    return made


def _of_predictions(folder: Path, made: dict[str, list[Path]]) -> None:
    """Add a seal, what was measured of it, and its score."""
    place = folder / "made"
    case = ["--results", "predicted", "--uncertainty", "20", "-j", "1"]
    run(place, "predict", str(folder / "experiment/small.toml"), "-o", "sealed.json", *case)
    made["seal"] = [place / "sealed.json"]
    made["record"] = [place / "record"]
    (place / "record").mkdir()
    rows = json.loads((place / "sealed.json").read_text(encoding="utf-8"))["rows"]
    names = ("machine", "workload", "param", "metric", "baseline", "variant")
    scored = [
        {name: row[name] for name in names}
        | {"predicted": row["ratio"], "low": 0.9, "high": 1.1, "measured": 1.0, "pairs": 3}
        | {"measured_low": 0.9, "measured_high": 1.1}
        for row in rows
    ]
    plain = {"kind": "score", "machine": "m", "version": "1", "experiment": "small", "rows": scored}
    (place / "record/m.json").write_text(json.dumps(plain, indent=1), encoding="utf-8")


def _made_by_the_program(folder: Path, made: dict[str, list[Path]], put: object) -> None:
    """Add what only the program writes: results folders, cases, traces of runs, Parquet."""
    place = folder / "made"
    place.mkdir()
    case = ["--machine", "juno-r2", "--seconds", "0.05", "--seed", "1"]
    run(place, "run", str(folder / "workload/periodic.json"), *case, "-o", "single")
    run(place, "run", str(folder / "experiment/small.toml"), "-j", "1", "-o", "sweep", "--no-report")
    run(place, "trace", "export", str(folder / "trace/small.txt"), "-o", "small.dat")
    run(place, "trace", "export", str(folder / "trace/small.txt"), "-o", "small.parquet")
    tree = ["--root", str(folder / "sysfs/copy"), "--util", "stat"]
    run(
        place, "host", "govern", "--governor", "schedutil", "--for", "60ms", "--dry-run", *tree, "--log", "govern.jsonl"
    )
    made["log"] = [place / "govern.jsonl"]
    made["results"] = [place / "single", place / "sweep"]
    run(place, "learn", str(folder / "recording/burst"), "-o", "model.toml")
    made["model"] = [place / "model.toml"]
    _of_predictions(folder, made)
    folders = ["--root", str(folder / "sysfs/copy"), "--governor", "schedutil,userspace", "--blocks", "2"]
    run(place, "host", "compare", *folders, "--state", "state", "-o", "runs", "--", "true")
    made["runs"] = [place / "runs"]
    write = "from opplab import Experiment; print(Experiment.of_results('single').cases[0].json)"
    case_file = place / "case.json"
    case_file.write_bytes(
        subprocess.run([sys.executable, "-c", write], cwd=place, capture_output=True, check=True).stdout
    )
    made["case"] = [case_file]
    made["trace"] += [place / "single/run.pftrace", place / "small.dat"]
    made["table"] += [place / "single/results.parquet", place / "sweep/results.parquet"]
    # A table by another writer: the standard library's, quoted.
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows(csv.reader(results_table().splitlines()))
    quoted = folder / "table/quoted.csv"
    quoted.write_text(text.getvalue(), encoding="utf-8")
    made["table"].append(quoted)
    names = {kind: [path.name for path in paths] for kind, paths in made.items()}
    (folder / "LIST.json").write_text(json.dumps(names, indent=1), encoding="utf-8")

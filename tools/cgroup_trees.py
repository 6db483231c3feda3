"""Small cgroup trees for tests and the fuzzer: v2 with processes, v1."""

from __future__ import annotations

from pathlib import Path

__all__ = ["v1", "v2"]

V2 = {
    "cpu.weight": "100",
    "cpu.weight.nice": "0",
    "cpu.idle": "0",
    "cpu.max": "max 100000",
    "cpu.max.burst": "0",
    "cpu.uclamp.min": "0.00",
    "cpu.uclamp.max": "max",
    "cpuset.cpus": "",
    "cpuset.cpus.effective": "0-5",
    "cpuset.cpus.partition": "member",
}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def v2(root: Path) -> Path:
    """Make a copy of ``/sys/fs/cgroup`` and ``/proc`` with odd files and names."""
    top = root / "sys/fs/cgroup"
    _write(top / "cgroup.controllers", "cpuset cpu")
    _write(top / "cgroup.procs", "1")
    _write(top / "cpuset.cpus.effective", "0-5")
    quota = {"cpu.weight": "200", "cpu.max": "50000 100000", "cpu.max.burst": "10000"}
    small = {"cpuset.cpus": "0-1", "cpuset.cpus.effective": "0-1"}
    groups: dict[str, tuple[str, dict[str, str]]] = {
        "system.slice": ("", {}),
        "system.slice/nginx.service": ("10\n11\n12", quota),
        "system.slice/batch.service": ("20\n21", {"cpu.weight": "0", "cpu.idle": "1"}),
        "user.slice": ("30", {"cpu.uclamp.max": "50.00", **small}),
        'user.slice/od\x1b[31md"*\u2028x': ("31", {"cpu.max": "bad", **small}),
        "user.slice/empty": ("", small),
        "machine.slice/vm": ("40", {"cpu.weight": ""}),
    }
    for name, (threads, settings) in groups.items():
        for file, text in {**V2, "cgroup.threads": threads, **settings}.items():
            _write(top / name / file, text)
    _write(top / "system.slice/nginx.service/worker/cgroup.threads", "13")
    for tid, comm in {10: "nginx", 11: "nginx", 12: "nginx", 13: "helper", 20: "gcc", 21: "gcc"}.items():
        _write(root / "proc" / str(tid) / "comm", comm)
    return root


def v1(root: Path) -> Path:
    """Make a copy of v1's cpu and cpuset hierarchies."""
    for name, shares, quota in (("", "1024", "-1"), ("docker", "1024", "-1"), ("docker/web", "512", "20000")):
        cpu = root / "cpu,cpuacct" / name
        for file, text in {
            "cpu.shares": shares,
            "cpu.cfs_quota_us": quota,
            "cpu.cfs_period_us": "50000",
            "cpu.rt_runtime_us": "0",
            "tasks": "7\n8" if name == "docker/web" else "",
        }.items():
            _write(cpu / file, text)
        _write(root / "cpuset" / name / "cpuset.cpus", "2-3" if name == "docker/web" else "0-3")
    return root

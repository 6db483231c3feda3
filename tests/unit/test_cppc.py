"""CPPC tables alone: what is wrong with them, and f_max by each reading."""

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from opplab import Machine, Policy, Workload, simulate

from calls import answered, called
from testdata import shared


def dump(path: Path, rows: dict[int, tuple[int, ...]]) -> Path:
    """Write a dump: (highest, guaranteed, nominal, nominal MHz) of each CPU."""
    names = ("highest_perf", "guaranteed_perf", "nominal_perf", "nominal_freq")
    lines = [
        f"/sys/devices/system/cpu/cpu{cpu}/acpi_cppc/{name}:{value}"
        for cpu, values in rows.items()
        for name, value in zip(names, values, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def checks(path: Path) -> dict[str, str]:
    return {
        item["check"]: item["what"] for item in json.loads(called("machine", "check", path, "--format", "json").stdout)
    }


def test_a_sound_table_has_no_findings(tmp_path: Path) -> None:
    path = dump(tmp_path / "a.txt", {0: (54, 27, 27, 2700), 1: (54, 27, 27, 2700)})
    assert checks(path) == {}
    (group,) = json.loads(called("fmax", path, "--format", "json").stdout)["groups"]
    assert group["cpus"] == "0-1"
    assert group["by_nominal_mhz"] == group["by_guaranteed_mhz"] == pytest.approx(5400)


def test_levels_of_two_scales_are_named_with_both_readings(tmp_path: Path) -> None:
    path = dump(tmp_path / "a.txt", {0: (61, 32, 43, 2700)})
    found = checks(path)
    assert "3830 MHz or 5147 MHz" in found["cppc-scale"]
    assert called("machine", "check", path).exit_code == 1


def test_equal_cores_with_different_tables_and_levels_that_do_not_ascend(tmp_path: Path) -> None:
    found = checks(dump(tmp_path / "a.txt", {0: (65, 30, 29, 2100), 1: (65, 30, 21, 2100), 2: (20, 30, 30, 2100)}))
    assert "29 on CPUs 0, 21 on CPUs 1" in found["cppc-differs"]
    assert "do not ascend" in found["cppc-order"]


def test_other_shapes_of_the_same_dump_say_the_same(tmp_path: Path) -> None:
    rows = {0: (61, 32, 43, 2700), 1: (63, 32, 43, 2700)}
    plain = dump(tmp_path / "a.txt", rows)
    text = plain.read_text(encoding="utf-8")
    told = called("fmax", plain).output
    assert "5146.88" in told
    titles = "".join(f"==> {line.split(':')[0]} <==\n{line.split(':')[1]}\n\n" for line in text.splitlines())
    shapes = {
        "tail": titles,
        "crlf": text.replace("\n", "\r\n"),
        "blank": text.replace(":", " "),
        "relative": text.replace("/sys/devices/system/cpu/", ""),
        "turned": "\n".join(reversed(text.splitlines())),
        "noise": "a line of something else\n" * 400 + text,
        "hex": text.replace(":61", ":0x3d"),
    }
    for name, shape in shapes.items():
        path = tmp_path / f"{name}.txt"
        path.write_bytes(shape.encode())
        assert called("fmax", path).output == told, name
    packed = tmp_path / "a.txt.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert called("fmax", packed).output == told


def test_what_a_table_lacks_is_unknown(tmp_path: Path) -> None:
    empty = dump(tmp_path / "a.txt", {0: (0, 32, 43, 2700)})
    assert "0 or missing" in checks(empty)["cppc-empty"]
    for path in (empty, dump(tmp_path / "b.txt", {0: (61, 32, 43, 0)})):
        (group,) = json.loads(called("fmax", path, "--format", "json").stdout)["groups"]
        assert group["by_nominal_mhz"] is None
        assert group["by_guaranteed_mhz"] is None
    none = tmp_path / "c.txt"
    none.write_text("/sys/devices/system/cpu/cpu0/acpi_cppc/lowest_perf:1\n", encoding="utf-8")
    assert "no CPU has a `highest_perf`" in str(called("fmax", none).exception)


def test_what_is_no_number_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("/sys/devices/system/cpu/cpu0/acpi_cppc/highest_perf:many\n", encoding="utf-8")
    done = called("machine", "check", path)
    assert "a.txt:1: `highest_perf` is `many`" in str(done.exception)


def test_the_arrow_lake_laptops() -> None:
    """f_max by guaranteed_perf is what each core type reached under load, within 3 %; the kernel's claim is not."""
    folder = shared("silicon/arrow-lake-cppc")
    reached = {"P": 5400, "E": 4600}
    for path in sorted(Path(folder).glob("*dump.txt")):
        groups = json.loads(called("fmax", path, "--format", "json").stdout)["groups"]
        for kind, cpus in (("P", range(8)), ("E", range(8, 24))):
            best = max(g["by_guaranteed_mhz"] for g in groups if int(g["cpus"].split("-")[0].split(",")[0]) in cpus)
            assert best == pytest.approx(reached[kind], rel=0.03), path.name
        assert {"cppc-scale", "cppc-preferred"} <= set(checks(path)), path.name


def test_a_told_worst_case_is_named() -> None:
    found = json.loads(called("machine", "check", "juno-r2", "--format", "json").stdout)
    assert any(item["check"] == "idle-worst-case" for item in found)
    found = json.loads(called("machine", "check", "pixel6", "--format", "json").stdout)
    assert not any(item["check"] == "idle-worst-case" for item in found)


def test_an_arm_server_without_a_table_keeps_to_its_limits(tmp_path: Path) -> None:
    """cppc_cpufreq has no table: its clocks are not the named levels alone, and a limit between two of them holds."""
    cpu = tmp_path / "server/sys/devices/system/cpu"
    files = {"online": "0-1", "present": "0-1", "possible": "0-1"}
    for one in range(2):
        levels = {"highest_perf": 300, "nominal_perf": 300, "lowest_nonlinear_perf": 100, "lowest_perf": 100}
        files |= {f"cpu{one}/acpi_cppc/{name}": str(value) for name, value in levels.items()}
        files |= {f"cpu{one}/acpi_cppc/nominal_freq": "3000", f"cpu{one}/acpi_cppc/lowest_freq": "1000"}
        files |= {f"cpu{one}/topology/core_id": str(one), f"cpu{one}/topology/physical_package_id": "0"}
        policy = {"scaling_driver": "cppc_cpufreq", "affected_cpus": str(one), "related_cpus": str(one)}
        policy |= {"cpuinfo_min_freq": "1000000", "cpuinfo_max_freq": "3000000", "scaling_governor": "schedutil"}
        files |= {f"cpufreq/policy{one}/{name}": value for name, value in policy.items()}
    for name, text in files.items():
        (cpu / name).parent.mkdir(parents=True, exist_ok=True)
        (cpu / name).write_text(text + "\n")
    machine = tmp_path / "server.toml"
    answered("machine", "import", tmp_path / "server", "-o", machine)
    task = {"instance": 1, "loop": -1, "run": 3000, "sleep": 3000}
    work = Workload.parse(json.dumps({"global": {"duration": 1}, "tasks": {"t": task}}), name="t")
    for limit in (2500000, 1500000):
        made = simulate(
            Machine.load(machine), work, Policy(governor="performance", scaling_max_freq=limit), seconds=0.1
        )
        ran = made.metrics.filter(pl.col("metric").str.starts_with("busy:") & (pl.col("value") > 0))["metric"]
        assert {int(name.rpartition("@")[2]) for name in ran if "@" in name} == {limit}


@pytest.mark.parametrize(
    ("dump", "machine", "base_mhz"),
    [("adl0", "alder-lake-i7-1260p", 2500), ("dell-9360-kbl", "kaby-lake-i7-7500u", 2900)],
)
def test_a_machine_file_keeps_the_clock_of_mperf(dump: str, machine: str, base_mhz: int, tmp_path: Path) -> None:
    """`base_frequency` of a laptop is what its firmware guarantees, below MSR_PLATFORM_INFO, which the ratio is to."""
    source = str(shared(f"data/pepc/{dump}.tar.xz"))
    imported = tmp_path / "imported.toml"
    called("machine", "import", source, "-o", imported)

    def ratios(name: str) -> list[tuple[str, int, int]]:
        found = json.loads(called("fmax", name, "--format", "json").stdout)
        return [(one["name"], one["khz"], one["ratio"]) for one in found["candidates"]]

    told = ratios(source)
    assert told[0][1] == 1000 * base_mhz
    assert ratios(str(imported)) == told
    assert ratios(machine) == told

"""CPPC tables alone: what is wrong with them, and f_max by each reading."""

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from opplab.cli.main import opplab

from testdata import shared


def run(*arguments: object) -> Result:
    return CliRunner().invoke(opplab, [str(argument) for argument in arguments])


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
        item["check"]: item["what"] for item in json.loads(run("machine", "check", path, "--format", "json").stdout)
    }


def test_a_sound_table_has_no_findings(tmp_path: Path) -> None:
    path = dump(tmp_path / "a.txt", {0: (54, 27, 27, 2700), 1: (54, 27, 27, 2700)})
    assert checks(path) == {}
    (group,) = json.loads(run("fmax", path, "--format", "json").stdout)["groups"]
    assert group["cpus"] == "0-1"
    assert group["by_nominal_mhz"] == group["by_guaranteed_mhz"] == pytest.approx(5400)


def test_levels_of_two_scales_are_named_with_both_readings(tmp_path: Path) -> None:
    path = dump(tmp_path / "a.txt", {0: (61, 32, 43, 2700)})
    found = checks(path)
    assert "3830 MHz or 5147 MHz" in found["cppc-scale"]
    assert run("machine", "check", path).exit_code == 1


def test_equal_cores_with_different_tables_and_levels_that_do_not_ascend(tmp_path: Path) -> None:
    found = checks(dump(tmp_path / "a.txt", {0: (65, 30, 29, 2100), 1: (65, 30, 21, 2100), 2: (20, 30, 30, 2100)}))
    assert "29 on CPUs 0, 21 on CPUs 1" in found["cppc-differs"]
    assert "do not ascend" in found["cppc-order"]


def test_other_shapes_of_the_same_dump_say_the_same(tmp_path: Path) -> None:
    rows = {0: (61, 32, 43, 2700), 1: (63, 32, 43, 2700)}
    plain = dump(tmp_path / "a.txt", rows)
    text = plain.read_text(encoding="utf-8")
    told = run("fmax", plain).output
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
        assert run("fmax", path).output == told, name
    packed = tmp_path / "a.txt.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert run("fmax", packed).output == told


def test_what_a_table_lacks_is_unknown(tmp_path: Path) -> None:
    empty = dump(tmp_path / "a.txt", {0: (0, 32, 43, 2700)})
    assert "0 or missing" in checks(empty)["cppc-empty"]
    for path in (empty, dump(tmp_path / "b.txt", {0: (61, 32, 43, 0)})):
        (group,) = json.loads(run("fmax", path, "--format", "json").stdout)["groups"]
        assert group["by_nominal_mhz"] is None
        assert group["by_guaranteed_mhz"] is None
    none = tmp_path / "c.txt"
    none.write_text("/sys/devices/system/cpu/cpu0/acpi_cppc/lowest_perf:1\n", encoding="utf-8")
    assert "no CPU has a `highest_perf`" in str(run("fmax", none).exception)


def test_what_is_no_number_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("/sys/devices/system/cpu/cpu0/acpi_cppc/highest_perf:many\n", encoding="utf-8")
    done = run("machine", "check", path)
    assert "a.txt:1: `highest_perf` is `many`" in str(done.exception)


def test_the_arrow_lake_laptops() -> None:
    """f_max by guaranteed_perf is what each core type reached under load, within 3 %; the kernel's claim is not."""
    folder = shared("silicon/arrow-lake-cppc")
    reached = {"P": 5400, "E": 4600}
    for path in sorted(Path(folder).glob("*dump.txt")):
        groups = json.loads(run("fmax", path, "--format", "json").stdout)["groups"]
        for kind, cpus in (("P", range(8)), ("E", range(8, 24))):
            best = max(g["by_guaranteed_mhz"] for g in groups if int(g["cpus"].split("-")[0].split(",")[0]) in cpus)
            assert best == pytest.approx(reached[kind], rel=0.03), path.name
        assert {"cppc-scale", "cppc-preferred"} <= set(checks(path)), path.name


def test_a_told_worst_case_is_named() -> None:
    found = json.loads(run("machine", "check", "juno-r2", "--format", "json").stdout)
    assert any(item["check"] == "idle-worst-case" for item in found)
    found = json.loads(run("machine", "check", "pixel6", "--format", "json").stdout)
    assert not any(item["check"] == "idle-worst-case" for item in found)


@pytest.mark.parametrize(
    ("dump", "machine", "base_mhz"),
    [("adl0", "alder-lake-i7-1260p", 2500), ("dell-9360-kbl", "kaby-lake-i7-7500u", 2900)],
)
def test_a_machine_file_keeps_the_clock_of_mperf(dump: str, machine: str, base_mhz: int, tmp_path: Path) -> None:
    """`base_frequency` of a laptop is what its firmware guarantees, below MSR_PLATFORM_INFO, which the ratio is to."""
    source = str(shared(f"data/pepc/{dump}.tar.xz"))
    imported = tmp_path / "imported.toml"
    run("machine", "import", source, "-o", str(imported))

    def ratios(name: str) -> list[tuple[str, int, int]]:
        found = json.loads(run("fmax", name, "--format", "json").stdout)
        return [(one["name"], one["khz"], one["ratio"]) for one in found["candidates"]]

    told = ratios(source)
    assert told[0][1] == 1000 * base_mhz
    assert ratios(str(imported)) == told
    assert ratios(machine) == told

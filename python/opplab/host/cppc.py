"""CPPC tables as ``grep . /sys/devices/system/cpu/cpu*/acpi_cppc/*`` prints them: f_max, contradictions.

What ``tail -n +1`` prints is read, too, and either packed with gzip.
Performance levels have no unit; firmware ties them to clocks by ``nominal_freq``, the clock without turbo.  Linux takes
it for that of ``nominal_perf``.  Where firmware has levels of two scales in one table, it is that of
``guaranteed_perf`` (the HWP level without turbo), and the two readings differ: on Arrow Lake laptops 3.8 and 5.2 GHz.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from opplab.cpulist import listed
from opplab.errors import FormatError, InputError
from opplab.files import check_size, read_bytes, unpacked

_LINE = re.compile(r"\S*cpu(\d+)/acpi_cppc/(\w+)\s*[:=\s]\s*(.*)")
_TITLE = re.compile(r"==>\s*\S*cpu(\d+)/acpi_cppc/(\w+)\s*<==")
_APART = 0.05  # Two clocks of one level that differ by more contradict each other.
_INTEL_SCALING_KHZ = 100_000  # intel_pstate.c:core_get_scaling(): E-cores, and P-cores without another factor.


@dataclass(frozen=True)
class Table:
    """The CPPC registers of CPUs that have the same."""

    cpus: tuple[int, ...]
    highest_perf: int
    guaranteed_perf: int
    nominal_perf: int
    lowest_nonlinear_perf: int
    lowest_perf: int
    reference_perf: int
    nominal_mhz: int
    lowest_mhz: int

    def by_nominal(self) -> float | None:
        """Give f_max in MHz if `nominal_mhz` is the clock of `nominal_perf`."""
        return self._highest_by(self.nominal_perf)

    def by_guaranteed(self) -> float | None:
        """Give f_max in MHz if `nominal_mhz` is the clock of `guaranteed_perf`."""
        return self._highest_by(self.guaranteed_perf)

    def _highest_by(self, level: int) -> float | None:
        known = self.highest_perf and self.nominal_mhz and level
        return self.highest_perf * self.nominal_mhz / level if known else None


def read_dump(path: Path) -> list[Table] | None:
    """Read a dump; None if the file is not one.

    Raises
    ------
    FormatError
        With file and line.
    """
    if path.is_dir():
        return None
    what = "a dump of CPPC"
    with check_size(path, what).open("rb") as file:
        head = file.read(65536)
    if not head.startswith(_PACKED) and b"/acpi_cppc/" not in head:
        return None
    data = unpacked(read_bytes(path, what), path, what) if head.startswith(_PACKED) else read_bytes(path, what)
    if b"/acpi_cppc/" not in data:
        return None
    cpus: dict[int, dict[str, int]] = {}
    for number, (cpu, name, word) in _told(data.decode("utf-8", "replace")):
        if name == "feedback_ctrs":
            continue
        try:
            cpus.setdefault(cpu, {})[name] = int(word, 16 if word.lower().startswith("0x") else 10)
        except ValueError:
            raise FormatError.at(path, number, f"`{name}` is `{word}`, not a whole number") from None
    if not any("highest_perf" in told for told in cpus.values()):
        raise InputError(f"{path}: no CPU has a `highest_perf`")
    names = {"nominal_mhz": "nominal_freq", "lowest_mhz": "lowest_freq"}
    fields = [name for name in Table.__dataclass_fields__ if name != "cpus"]
    groups: dict[tuple[int, ...], list[int]] = {}
    for cpu, told in sorted(cpus.items()):
        groups.setdefault(tuple(told.get(names.get(name, name), 0) for name in fields), []).append(cpu)
    return [Table(tuple(group), **dict(zip(fields, values, strict=True))) for values, group in groups.items()]


_PACKED = b"\x1f\x8b"


def _told(text: str) -> Iterator[tuple[int, tuple[int, str, str]]]:
    """Give line, CPU, name and value of each register."""
    title: tuple[int, str] | None = None
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        found = _TITLE.match(line)
        if found is not None:
            title = (int(found[1]), found[2])
            continue
        if title is not None and line:
            yield number, (*title, line)
            title = None
            continue
        found = _LINE.match(line)
        if found is not None:
            yield number, (int(found[1]), found[2], found[3].strip())


def _mhz(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.0f} MHz"


def candidates(tables: list[Table]) -> list[dict[str, Any]]:
    """Give f_max of each group of CPUs by each reading of its table, in MHz."""
    return [
        {
            "cpus": listed(table.cpus),
            "highest_perf": table.highest_perf,
            "by_nominal_mhz": table.by_nominal(),
            "by_guaranteed_mhz": table.by_guaranteed(),
            "by_100mhz_a_level_mhz": table.highest_perf * _INTEL_SCALING_KHZ / 1000,
            "base_mhz": table.nominal_mhz or None,
            "consistent": _agree(table.by_nominal(), table.by_guaranteed()),
        }
        for table in tables
    ]


def _agree(one: float | None, other: float | None) -> bool | None:
    if not one or not other:
        return None
    return abs(one / other - 1) <= _APART


def findings(tables: list[Table]) -> list[dict[str, str]]:
    """Name what is wrong with the tables, in the form of `opplab machine check`."""
    found: list[dict[str, str]] = []

    def add(check: str, severity: str, what: str, cost: str, remedy: str) -> None:
        found.append({"check": check, "severity": severity, "what": what, "cost": cost, "remedy": remedy})

    for table in tables:
        cpus = f"CPUs {listed(table.cpus)}"
        if not table.highest_perf:
            remedy = "report it to the vendor; measure under load"
            add(
                "cppc-empty", "error", f"{cpus}: highest_perf is 0 or missing", "f_max and capacity are unknown", remedy
            )
            continue
        order = (table.lowest_perf, table.lowest_nonlinear_perf, table.guaranteed_perf, table.highest_perf)
        if any(0 < later < earlier for earlier, later in pairwise(order)):
            lowest, nonlinear, guaranteed, highest = order
            levels = f"lowest {lowest}, lowest nonlinear {nonlinear}, guaranteed {guaranteed}, highest {highest}"
            remedy = "report it to the vendor"
            add("cppc-order", "error", f"{cpus}: {levels} do not ascend", "limits and f_max mean nothing", remedy)
        if not table.nominal_mhz:
            add(
                "cppc-no-frequency",
                "note",
                f"{cpus}: no nominal_freq",
                "levels cannot be converted to clocks",
                "measure one",
            )
            continue
        nominal, guaranteed_mhz = table.by_nominal(), table.by_guaranteed()
        if nominal and guaranteed_mhz and not _agree(nominal, guaranteed_mhz):
            off = 100 * (nominal / guaranteed_mhz - 1)
            add(
                "cppc-scale",
                "error",
                f"{cpus}: levels of two scales: the {table.nominal_mhz} MHz of nominal_freq are at nominal_perf "
                f"{table.nominal_perf} or at guaranteed_perf {table.guaranteed_perf}; highest_perf "
                f"{table.highest_perf} is {_mhz(nominal)} or {_mhz(guaranteed_mhz)}",
                f"a driver that scales by nominal_perf is off by {off:+.0f} % in cpuinfo_max_freq and capacity",
                f"take {_mhz(guaranteed_mhz)} (guaranteed_perf is the level without turbo), or measure under load",
            )
        fixed = table.highest_perf * _INTEL_SCALING_KHZ / 1000
        if _agree(fixed, table.by_guaranteed()) is False:
            add(
                "cppc-100mhz",
                "warning",
                f"{cpus}: 100 MHz a level would be {_mhz(fixed)}, by the table {_mhz(table.by_guaranteed())}",
                "intel_pstate takes 100 MHz a level where it has no factor of its own (E-cores): its claims are off",
                "a kernel that takes the factor from CPPC or a table of the model, or none of its claimed clocks",
            )
    kinds: dict[tuple[int, int], list[Table]] = {}
    for table in tables:
        kinds.setdefault((table.guaranteed_perf, table.nominal_mhz), []).append(table)
    for same in kinds.values():
        if len({table.nominal_perf for table in same}) > 1:
            what = ", ".join(f"{table.nominal_perf} on CPUs {listed(table.cpus)}" for table in same)
            cost = "the same core has two clocks and capacities"
            remedy = "trust neither; compare with guaranteed_perf"
            add("cppc-differs", "warning", f"equal cores, different nominal_perf: {what}", cost, remedy)
        if len({table.highest_perf for table in same}) > 1:
            what = ", ".join(f"{table.highest_perf} on CPUs {listed(table.cpus)}" for table in same)
            cost, remedy = "none: favoured cores turbo higher", "an f_max of the machine is that of the favoured cores"
            add("cppc-preferred", "note", f"preferred cores: highest_perf {what}", cost, remedy)
    return found


def as_json(tables: list[Table], name: str) -> str:
    """Give the report of `opplab fmax` about a dump as JSON."""
    report = {"name": name, "driver": None, "groups": candidates(tables), "findings": findings(tables)}
    return json.dumps(report, indent=2)

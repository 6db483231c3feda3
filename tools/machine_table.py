"""Write docs/machines.md: what each machine dump in a folder holds.

``python tools/machine_table.py ../shared/data/pepc`` imports every dump of the folder; how long each took is printed on
standard error.  The dumps are the intel/pepc project's test data and are read in place.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from opplab import _opplab

HEAD = """# Machines that were imported

Written by `python tools/machine_table.py ../shared/data/pepc`; do not edit.
Each row is a dump of a real machine (intel/pepc, `tests/emul-data`) as `opplab machine import` reads it.
f_max is kernel 6.12's choice, with its ratio to the base frequency in 1/1024.

| dump | processor | CPUs | packages | nodes | clusters (CPUs x capacity) | driver | OPPs MHz | base MHz \
| turbo MHz by cores | CPPC | HWP | idle states | PL1 W | f_max 6.12 MHz (ratio) | findings | left out |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""

FOOT = """
*Left out* lists values that a dump lacks and that no default replaces.
Filled from named defaults in every dump: `costs`, `driver.fast_switch`; where there is SMT, `smt_yield`; where there is
no frequency table, `cluster.opp`.
The import prints which, and the machine file keeps them under `default.*` in `[source]`.
"""


def _mhz(khz: int) -> str:
    return f"{khz / 1000:g}"


def row(path: Path) -> str:
    """Give one dump's row of the table."""
    machine, told = _opplab.import_machine(str(path))
    facts, report = machine.describe(), json.loads(told)
    fmax: dict[str, Any] = json.loads(_opplab.fmax(str(path), None, "", False, "", []))
    found = json.loads(_opplab.check_machine(str(path), None))
    first = facts["clusters"][0]
    kernel = next(item for item in fmax["kernels"] if item["kernel"] == "6.12")
    places = facts["cpus"]
    text = machine.to_toml()
    cells = [
        path.name.split(".")[0],
        facts["processor"]["model_name"],
        facts["nr_cpus"],
        len({cpu["package"] for cpu in places}),
        len({cpu["node"] for cpu in places}),
        ", ".join(f"{c['name']} {c['nr_cpus']} x {c['capacity']}" for c in facts["clusters"]),
        facts["drivers"][0]["driver"],
        f"{_mhz(first['opps'][0]['khz'])}-{_mhz(first['opps'][-1]['khz'])} ({len(first['opps'])})",
        _mhz(first["base_khz"]),
        ", ".join(f"{cores}: {_mhz(khz)}" for cores, khz in first["turbo"]) or "-",
        "yes" if "cppc = " in text else "no",
        "yes" if "hwp = " in text else "no",
        ", ".join(state["name"] for state in first["idle"]) or "-",
        f"{facts['package_power']['pl1_uw'] / 1e6:g}" if "package_power" in facts else "-",
        f"{_mhz(kernel['khz'])} ({kernel['ratio']})" if kernel.get("ratio") is not None else "not invariant",
        ", ".join(dict.fromkeys(item["check"] for item in found)) or "none",
        "; ".join(words.split(" (")[0] for words in report["missing"]),
    ]
    return "| " + " | ".join(str(cell) for cell in cells) + " |\n"


def main(folder: Path) -> None:
    """Write the table of a folder's dumps."""
    rows = []
    for path in sorted(folder.glob("*.tar.xz")):
        start = time.perf_counter()
        _opplab.import_machine(str(path))
        print(f"{path.name}: {time.perf_counter() - start:.3f} s", file=sys.stderr)
        rows.append(row(path))
    target = Path(__file__).parent.parent / "docs" / "machines.md"
    target.write_text(HEAD + "".join(rows) + FOOT, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

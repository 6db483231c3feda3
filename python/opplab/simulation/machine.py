"""Machines: topology, frequencies, idle states, power."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opplab import _opplab, catalog

__all__ = ["Machine", "has_hwp", "identity"]


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(str(key))} = {_toml(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(inner) for inner in value) + "]"
    return json.dumps(value)


def has_hwp(machine: Mapping[str, Any]) -> bool:
    """Report whether intel_pstate finds hardware P-states: all clusters have them."""
    return all("hwp" in cluster for cluster in machine.get("cluster", []))


_X86 = ("AuthenticAMD", "GenuineIntel", "HygonGenuine")


def identity(machine: Mapping[str, Any]) -> tuple[str, str]:
    r"""Give what the file has of /proc/cpuinfo, and the architecture as `uname -m` names it; empty: not known.

    Examples
    --------
    >>> identity({"processor": {"vendor": "GenuineIntel", "family": 6, "model": 85, "stepping": 7}})
    ('vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\nstepping\t: 7\n', 'x86_64')
    >>> identity({"invariance": "freq-change"})
    ('', 'aarch64')
    """
    processor = machine.get("processor") or {}
    if processor.get("vendor") not in _X86:
        return "", "aarch64" if processor or machine.get("invariance") == "freq-change" else ""
    # In the order and form of arch/x86/kernel/cpu/proc.c:show_cpuinfo(), v6.12.
    lines = {
        "vendor_id\t": processor["vendor"],
        "cpu family\t": processor.get("family"),
        "model\t\t": processor.get("model"),
        "model name\t": processor.get("model_name") or None,
        "stepping\t": processor.get("stepping"),
    }
    return "".join(f"{name}: {value}\n" for name, value in lines.items() if value is not None), "x86_64"


class Machine:
    """A described machine: topology, frequencies, idle states, power.

    Examples
    --------
    >>> import opplab
    >>> juno = opplab.Machine.load("juno-r2")
    >>> juno.nr_cpus, [cluster["capacity"] for cluster in juno.describe()["clusters"]]
    (6, [383, 1024])
    """

    def __init__(self, inner: _opplab.Machine) -> None:
        self._inner = inner

    @classmethod
    def load(cls, name: str | Path) -> Machine:
        """Load a machine.

        Parameters
        ----------
        name : str or Path
            A built-in name (``opplab list machines``), or the path of a ``.toml``.

        Raises
        ------
        InputError
            If there is no such machine; names the nearest name.
        FormatError
            If the file is wrong; names file, line and column.
        """
        path = catalog.find("machine", name)
        return cls.parse(catalog.read_text(path, "a machine file"), file=str(path))

    @classmethod
    def parse(cls, text: str, *, file: str = "<text>") -> Machine:
        """Read the text of a machine file; `file` is its name for messages."""
        return cls(_opplab.Machine.parse(file, text))

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Machine:
        """Read a machine file's tables as `tomllib` gives them."""
        text = "\n".join(f"{key} = {_toml(value)}" for key, value in tree.items()) + "\n"
        return cls.parse(text, file=str(tree.get("name", "<tables>")))

    @property
    def name(self) -> str:
        """Its name."""
        return self._inner.name

    @property
    def nr_cpus(self) -> int:
        """Number of CPUs."""
        return self._inner.nr_cpus

    @property
    def drivers(self) -> list[str]:
        """The cpufreq drivers that it has; the first is that at boot."""
        return [str(one["driver"]) for one in self.describe()["drivers"]]

    @property
    def has_hwp(self) -> bool:
        """Whether intel_pstate finds hardware P-states: all clusters have them."""
        import tomllib

        return has_hwp(tomllib.loads(self.to_toml()))

    @property
    def identity(self) -> tuple[str, str]:
        """What its file has of /proc/cpuinfo, and its architecture as `uname -m` names it; empty: not known."""
        import tomllib

        return identity(tomllib.loads(self.to_toml()))

    @property
    def idle_states(self) -> list[tuple[str, int]]:
        """Names and exit latencies in us of the first cluster's idle states, the shallowest first."""
        from opplab.simulation.ranges import idle_latencies

        return idle_latencies(self.describe()["clusters"][0]["idle"])

    def describe(self) -> dict[str, Any]:
        """Give the whole machine as dicts and lists; units are the last word of a key."""
        return self._inner.describe()

    def to_toml(self) -> str:
        """Write it as a machine file that reads back as the same machine."""
        return self._inner.to_toml()

    def power_ends(self) -> list[Machine]:
        """Give the machine with all powers at the lower, and at the upper end of their ranges; nothing without any."""
        import tomllib

        from opplab.simulation.ranges import assumptions_of, with_draw

        tree = tomllib.loads(self.to_toml())
        own = [
            one for one in assumptions_of(tree) if one.key.endswith(("uw", "smt_power")) and "package" not in one.key
        ]
        return [Machine.from_tree(with_draw(tree, own, [share] * len(own))) for share in (0.0, 1.0) if own]

    def _repr_html_(self) -> str:
        from opplab.report.notebook import card
        from opplab.report.topology import picture

        facts = self.describe()
        rows = [
            {
                "cluster": cluster["name"],
                "CPUs": cluster["cpus"],
                "capacity": cluster["capacity"],
                "OPPs": len(cluster["opps"]),
                "MHz": f"{cluster['opps'][0]['khz'] / 1000:g} to {cluster['opps'][-1]['khz'] / 1000:g}",
                "idle states": ", ".join(state["name"] for state in cluster["idle"]),
            }
            for cluster in facts["clusters"]
        ]
        about = {"CPUs": self.nr_cpus, "drivers": ", ".join(driver["driver"] for driver in facts["drivers"])}
        image = f"<details><summary>topology</summary><div class=topology>{picture(facts)}</div></details>"
        return card(self.name, about | {"source": facts["provenance"]}, rows, picture=image)

    def __repr__(self) -> str:
        return f"Machine({self.name!r}, nr_cpus={self.nr_cpus})"

"""Machines: topology, frequencies, idle states, power."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opplab import _opplab, catalog
from opplab.errors import InputError
from opplab.files import read_text, toml_value
from opplab.simulation.ranges import has_number, number_in


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
        return cls.parse(read_text(path, "a machine file"), file=str(path))

    @classmethod
    def of(cls, machine: Machine | str | Path) -> Machine:
        """Give the machine itself, or load the one of that name or path."""
        return machine if isinstance(machine, Machine) else cls.load(machine)

    @classmethod
    def parse(cls, text: str, *, file: str = "<text>") -> Machine:
        """Read the text of a machine file; `file` is its name for messages."""
        return cls(_opplab.Machine.parse(file, text))

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Machine:
        """Read a machine file's tables as `tomllib` gives them."""
        if not isinstance(tree, Mapping):
            raise InputError(f"the tables of a machine are a mapping, as Machine.tree gives them, not {tree!r}")
        text = "\n".join(f"{key} = {toml_value(value)}" for key, value in tree.items()) + "\n"
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
    def tree(self) -> dict[str, Any]:
        """A copy of the tables of its file: `from_tree` makes a machine of changed ones.

        Examples
        --------
        >>> import opplab
        >>> tables = opplab.Machine.load("zuma").tree
        >>> for cluster in tables["cluster"]:
        ...     for opp in cluster["opp"]:
        ...         opp["uw"] *= 2
        >>> hungry = opplab.Machine.from_tree(tables | {"name": "hungry"})
        """
        import tomllib

        return tomllib.loads(self.to_toml())

    def describe(self) -> dict[str, Any]:
        """Give the whole machine as dicts and lists; units are the last word of a key."""
        facts = self._inner.describe()
        for cluster, own in zip(facts["clusters"], self.tree["cluster"], strict=True):
            # A wake-up takes the declared latency where the file has no other.
            for state, of in zip(cluster["idle"], own.get("idle", ()), strict=True):
                named = has_number(of, "wake_ns")
                state["wake_ns"] = int(number_in(of, "wake_ns")) if named else state["exit_latency_ns"]
        return facts

    def to_toml(self) -> str:
        """Write it as a machine file that reads back as the same machine."""
        return self._inner.to_toml()

    def __reduce__(self) -> tuple[Any, ...]:
        return Machine.parse, (self.to_toml(),)

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

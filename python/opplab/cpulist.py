"""Lists of CPUs as the kernel writes them: ``0,3-5``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opplab.errors import InputError

__all__ = ["cpus_in", "listed", "nr_cpus"]


def cpus_in(text: str | int | Sequence[int]) -> list[int]:
    """Give the CPUs of a list; one that files have as numbers is as it is, and a number is one CPU.

    Examples
    --------
    >>> cpus_in("0,3-5"), cpus_in(7), cpus_in((1, 2))
    ([0, 3, 4, 5], [7], [1, 2])
    """
    if not isinstance(text, str | int):
        return list(text)
    found: list[int] = []
    for part in str(text).replace(" ", "").split(","):
        ends = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part)
        low, high = (int(ends[1]), int(ends[2] or ends[1])) if ends else (1, 0)
        if low > high:
            raise InputError(f"`{text}` is not a list of CPUs such as 0,3-5")
        found += range(low, high + 1)
    return found


def nr_cpus(tree: Mapping[str, Any]) -> int:
    """Count the CPUs of a machine file.

    Examples
    --------
    >>> nr_cpus({"cluster": [{"cpus": "0-3"}, {"cpus": "4,5"}]})
    6
    """
    return sum(len(cpus_in(cluster["cpus"])) for cluster in tree["cluster"])


def listed(cpus: Iterable[int]) -> str:
    """Write CPUs as a list.

    Examples
    --------
    >>> listed([0, 3, 4, 5])
    '0,3-5'
    """
    parts: list[list[int]] = []
    for cpu in cpus:
        if parts and parts[-1][-1] == cpu - 1:
            parts[-1].append(cpu)
        else:
            parts.append([cpu])
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)

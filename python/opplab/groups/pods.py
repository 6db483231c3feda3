"""Control groups of Kubernetes pods: what kubelet and the container runtime write for requests and limits of CPU.

From public sources: kubelet's pkg/kubelet/cm (`MilliCPUToShares()`, `MilliCPUToQuota()`, `ResourceConfigForPod()`,
`setCPUCgroupConfig()`), `PodRequests()` and `PodLimits()` of component-helpers, `ComputePodQOS()`, KEP-2254, KEP-753.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import Any

from opplab import files
from opplab.errors import FormatError, InputError
from opplab.groups.settings import Found, Group, safe_part, unique

MIN_SHARES, MAX_SHARES = 2, 1 << 18
MIN_QUOTA_US = 1_000
NEW_KUBELET = (1, 35)
"""kubernetes/kubernetes#132791 (kubernetes/enhancements#5246): pods and QoS classes by the log-quadratic formula."""
NEW_RUNTIMES = {"runc": (1, 3, 2), "crun": (1, 23)}
"""opencontainers/cgroups#20, containers/crun#1767."""
SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
TEMPLATES = {"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job"}
DEPTH_MAX = 100


class Word(str):
    """A scalar as it stands in the file, with its place."""

    at: tuple[int, int] | None = None


@dataclass(frozen=True)
class Node:
    """The node that the pods run on."""

    kubelet: str = "1.35"
    runtime: str = ""
    period_us: int = 100_000
    cpus: str = ""
    """Allocatable CPUs, as a quantity; empty: not known."""


def weight_linear(shares: int) -> int:
    """Convert shares as KEP-2254 does, and runc before 1.3.2, crun before 1.23, kubelet before 1.35."""
    return 1 + (shares - 2) * 9999 // 262142


def weight_log(shares: int) -> int:
    """Convert shares as opencontainers/cgroups does since 0.0.3: 2, 1024 and 262144 become 1, 100 and 10000."""
    if shares <= MIN_SHARES:
        return 1
    if shares >= MAX_SHARES:
        return 10_000
    log = math.log2(shares)
    return math.ceil(10 ** ((log * log + 125 * log) / 612 - 7 / 34))


class _Pods:
    def __init__(self, file: str, node: Node) -> None:
        self.file, self.node, self.found = file, node, Found()
        kubelet = re.fullmatch(r"v?([0-9]{1,3})\.([0-9]{1,3})(\..*)?", node.kubelet)
        if kubelet is None:
            raise InputError(f"--kubelet {node.kubelet}: write a release like 1.34")
        self.new_kubelet = (int(kubelet[1]), int(kubelet[2])) >= NEW_KUBELET
        self.new_runtime = self.new_kubelet
        if node.runtime:
            match = re.fullmatch(r"(runc|crun)[- v]*([0-9]{1,3}(?:\.[0-9]{1,3}){0,2})([-+~].*)?", node.runtime)
            if match is None:
                raise InputError(f"--runtime {node.runtime}: write a release like runc-1.3.2 or crun-1.22")
            self.new_runtime = tuple(map(int, match[2].split("."))) >= NEW_RUNTIMES[match[1]]

    def bad(self, value: object, what: str) -> FormatError:
        line, column = getattr(value, "at", None) or (1, 1)
        return FormatError.at(self.file, line, what, column)

    def milli(self, value: object, what: str) -> int:
        """Read a quantity of CPU in thousandths, rounded up as `Quantity.MilliValue()` does."""
        return int((self.quantity(value, what) * 1000).to_integral_value(ROUND_CEILING))

    def quantity(self, value: object, what: str) -> Decimal:
        match = re.fullmatch(
            r"([+]?(?:[0-9]{1,18}\.?[0-9]{0,18}|\.[0-9]{1,18}))([eE][+-]?[0-9]{1,2}|[a-zA-Z]{0,2})", str(value)
        )
        if match is None or not isinstance(value, str):
            raise self.bad(value, f"`{safe_part(str(value)[:40])}` is no quantity of {what}, like 500m or 1.5")
        number, suffix = Decimal(match[1]), match[2]
        if suffix in BINARY:
            return number * (1 << BINARY[suffix])
        if suffix in SUFFIXES:
            return number.scaleb(SUFFIXES[suffix])
        if suffix[0] in "eE" and len(suffix) > 1:
            return number.scaleb(int(suffix[1:]))
        raise self.bad(value, f"`{safe_part(suffix)}` is no suffix of {what}: n, u, m, k, M, G, Ki, Mi, Gi are")

    def weight(self, milli: int, *, new: bool) -> tuple[int, str]:
        """Give cpu.weight of a request, and how it was computed."""
        shares = min(max(milli * 1024 // 1000, MIN_SHARES), MAX_SHARES)
        how = f"shares {milli} * 1024 / 1000 = {shares}" if shares > MIN_SHARES else f"shares {MIN_SHARES} (the least)"
        if new:
            log = math.log2(shares)
            value = weight_log(shares)
            return value, f"{how}; weight ceil(10^((l^2 + 125 l)/612 - 7/34)) = {value}, l = log2({shares}) = {log:.4g}"
        value = weight_linear(shares)
        return value, f"{how}; weight 1 + ({shares} - 2) * 9999 / 262142 = {value}"

    def limit(self, group: Group, milli: int) -> None:
        period = self.node.period_us
        quota = max(milli * period // 1000, MIN_QUOTA_US)
        group.settings["max"] = f"{quota} {period}"
        least = " (the least)" if milli * period // 1000 < MIN_QUOTA_US else ""
        group.why.append(f"limit {milli}m: quota {milli} * {period} / 1000 = {quota} us of {period} us{least}")

    def resources(self, owner: Mapping[str, Any]) -> dict[str, dict[str, Decimal]]:
        """Read requests and limits of CPU and memory; a limit without a request is both."""
        table = self.table(owner.get("resources"), "resources")
        read: dict[str, dict[str, Decimal]] = {}
        for kind in ("limits", "requests"):
            given = self.table(table.get(kind), kind)
            read[kind] = {key: self.quantity(given[key], key) for key in ("cpu", "memory") if key in given}
        read["requests"] = read["limits"] | read["requests"]
        for key, asked in read["requests"].items():
            if key in read["limits"] and asked > read["limits"][key]:
                given = self.table(table.get("requests"), "requests")[key]
                raise self.bad(given, f"the request of {key} is more than the limit")
        return read

    def table(self, value: object, what: str) -> dict[str, Any]:
        if value is None or (isinstance(value, str) and value in ("", "null", "~")):
            return {}
        if not isinstance(value, dict):
            raise self.bad(value, f"`{what}` is no table")
        return value

    def items(self, value: object, what: str) -> list[dict[str, Any]]:
        if value is None or (isinstance(value, str) and value in ("", "null", "~")):
            return []
        if not isinstance(value, list):
            raise self.bad(value, f"`{what}` is no list")
        return [self.table(one, what) for one in value]

    def objects(self, value: object, depth: int = 0) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
        """Give name and pod spec of each pod or template, and the spec with the number of its pods."""
        one = self.table(value, "the document")
        kind = str(one.get("kind", ""))
        spec = self.table(one.get("spec"), "spec")
        meta = self.table(one.get("metadata"), "metadata")
        name = str(meta.get("name") or meta.get("generateName") or kind or "pod")
        if kind.endswith("List") or "items" in one:
            if depth > DEPTH_MAX:
                raise self.bad(value, "lists in lists")
            for item in self.items(one.get("items"), "items"):
                yield from self.objects(item, depth + 1)
        elif kind == "Pod" or (not kind and "containers" in spec):
            yield name, spec, {}
        elif kind == "PodTemplate":
            yield name, self.table(self.table(one.get("template"), "template").get("spec"), "spec"), {}
        elif kind == "CronJob":
            job = self.table(self.table(spec.get("jobTemplate"), "jobTemplate").get("spec"), "spec")
            yield name, self.table(self.table(job.get("template"), "template").get("spec"), "spec"), job
        elif kind in TEMPLATES:
            yield name, self.table(self.table(spec.get("template"), "template").get("spec"), "spec"), spec
        elif one:
            self.found.notes.append(f"{safe_part(kind or 'an object without kind')} {safe_part(name)}: no pods")

    def read(self, documents: Sequence[object]) -> Found:
        top = Group("/kubepods")
        if self.node.cpus:
            top.settings["weight"], how = self.weight(self.milli(self.node.cpus, "cpu"), new=self.new_kubelet)
            top.why.append(f"allocatable {self.node.cpus} CPUs: {how}")
        else:
            top.why.append("weight by the node's allocatable CPUs, which no pod spec has (--node-cpus); default here")
        classes = {"Burstable": Group("/kubepods/burstable"), "BestEffort": Group("/kubepods/besteffort")}
        asked = {"Burstable": 0, "BestEffort": 0}
        pods: dict[str, list[Group]] = {"Guaranteed": [], "Burstable": [], "BestEffort": []}
        taken: set[str] = set()
        for name, spec, owner in (found for document in documents for found in self.objects(document)):
            qos, milli, groups = self.pod(unique(safe_part(name), taken), spec)
            if qos in asked:
                asked[qos] += milli
            for key, words in (("replicas", "replicas"), ("parallelism", "that run at once")):
                count = str(owner.get(key) or "1")
                if count != "1":
                    self.found.notes.append(f"{safe_part(name)}: one pod of {safe_part(count)} {words} is here")
            pods[qos] += groups
        if not any(pods.values()):
            raise InputError(f"{self.file}: no pod, and no template of one")
        self.found.groups.append(top)
        self.found.groups += pods["Guaranteed"]
        for qos, group in classes.items():
            if pods[qos]:
                least = qos == "BestEffort"
                group.settings["weight"], how = self.weight(0 if least else asked[qos], new=self.new_kubelet)
                group.why.append(f"{qos}{'' if least else ': the sum of requests of its pods here'}: {how}")
                self.found.groups += [group, *pods[qos]]
        old = "1 + (shares - 2) * 9999 / 262142"
        new = "log-quadratic"
        self.found.notes.append(
            f"cpu.weight of pods by kubelet {self.node.kubelet}: {new if self.new_kubelet else old}; "
            f"of containers by {self.node.runtime or 'a runtime of its time'}: {new if self.new_runtime else old}"
        )
        self.found.notes.append("memory is not simulated (it only decides the QoS class); a pod spec has no burst")
        return self.found

    def pod(self, name: str, spec: Mapping[str, Any]) -> tuple[str, int, list[Group]]:
        """Give a pod's class, its request, and its group with those of its containers."""
        apps = self.items(spec.get("containers"), "containers")
        inits = self.items(spec.get("initContainers"), "initContainers")
        if not apps:
            raise self.bad(spec.get("containers"), f"pod {name} has no containers")
        of_pod = self.resources(spec)
        of = {id(one): self.resources(one) for one in (*apps, *inits)}
        sidecars = [one for one in inits if one.get("restartPolicy") == "Always"]
        owners = [of_pod] if of_pod["requests"] or of_pod["limits"] else list(of.values())
        qos = _qos(owners)
        overhead = self.table(spec.get("overhead"), "overhead").get("cpu", "0")

        def total(kind: str) -> tuple[Decimal, str]:
            """Sum containers and sidecars, or take the most of an init container and the sidecars before it."""
            running = sum((of[id(one)][kind].get("cpu", Decimal(0)) for one in (*apps, *sidecars)), Decimal(0))
            before, most = Decimal(0), Decimal(0)
            for one in inits:
                own = of[id(one)][kind].get("cpu", Decimal(0))
                if one.get("restartPolicy") == "Always":
                    before += own
                most = max(most, before if one.get("restartPolicy") == "Always" else before + own)
            parts = " + ".join(f"{of[id(one)][kind].get('cpu', 0)}" for one in (*apps, *sidecars))
            how = f"{parts} = {running}" if most <= running else f"an init container's {most} over {parts}"
            value = of_pod[kind].get("cpu", max(running, most))
            return value + self.quantity(overhead, "cpu"), "of the pod itself" if "cpu" in of_pod[kind] else how

        request, how_request = total("requests")
        limit, how_limit = total("limits")
        milli = int((request * 1000).to_integral_value(ROUND_CEILING))
        path = {"Guaranteed": "/kubepods", "Burstable": "/kubepods/burstable", "BestEffort": "/kubepods/besteffort"}
        group = Group(f"{path[qos]}/pod-{name}")
        group.settings["weight"], how = self.weight(0 if qos == "BestEffort" else milli, new=self.new_kubelet)
        group.why += [f"QoS class {qos}", f"requests {how_request}: {how}"]
        declared = "cpu" in of_pod["limits"] or all(one["limits"].get("cpu") for one in of.values())
        if declared and limit:
            group.why.append(f"limits {how_limit}")
            self.limit(group, int((limit * 1000).to_integral_value(ROUND_CEILING)))
        else:
            group.why.append("no quota: not every container has a limit of CPU")
        groups, taken = [group], set[str]()
        groups += [self.container(group.name, one, of[id(one)], taken) for one in (*sidecars, *apps)]
        once = [safe_part(str(one.get("name", "?"))) for one in inits if one not in sidecars]
        if once:
            self.found.notes.append(f"{name}: init containers run before and are left out: {', '.join(once)}")
        return qos, milli, groups

    def container(
        self, pod: str, one: Mapping[str, Any], resources: Mapping[str, Mapping[str, Decimal]], taken: set[str]
    ) -> Group:
        name = unique(safe_part(str(one.get("name", "container"))), taken)
        group = Group(f"{pod}/{name}")
        request, limit = (
            int((resources[kind].get("cpu", Decimal(0)) * 1000).to_integral_value(ROUND_CEILING))
            for kind in ("requests", "limits")
        )
        group.settings["weight"], how = self.weight(request, new=self.new_runtime)
        group.why.append(f"request {request}m: {how}")
        if limit:
            self.limit(group, limit)
        # One thread more than whole CPUs of the limit: so many reach it.
        group.threads[name] = limit // 1000 + 1 if limit else max(1, -(-request // 1000))
        return group


def _qos(owners: Sequence[Mapping[str, Mapping[str, Decimal]]]) -> str:
    """Give the class by all containers, or by the pod's own resources."""
    if not any(value for one in owners for kind in one.values() for value in kind.values()):
        return "BestEffort"
    for one in owners:
        for key in ("cpu", "memory"):
            limit = one["limits"].get(key)
            if not limit or one["requests"].get(key) != limit:
                return "Burstable"
    return "Guaranteed"


def _documents(text: str, file: str) -> list[object]:
    if text.lstrip()[:1] in ("{", "["):
        try:
            # Numbers stay words: 0.1 is a tenth, not the nearest binary fraction.
            return [json.loads(text, parse_float=Word, parse_int=Word)]
        except (json.JSONDecodeError, RecursionError) as error:
            if isinstance(error, RecursionError) or text.lstrip()[:1] == "[":
                raise InputError(f"{file}: {error}") from error
    try:
        import yaml
    except ImportError as error:
        raise InputError(f"{file}: YAML needs the package pyyaml; JSON is read without it") from error
    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as error:
        before = text[: error.position].split("\n")
        what = f"the character U+{ord(text[error.position]):04X} may not be in YAML"
        raise FormatError.at(file, len(before), what, len(before[-1]) + 1) from error
    try:
        documents = []
        while loader.check_node():
            documents.append(_plain(loader, loader.get_node(), {}, 0))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise FormatError.at(file, line, error.problem or error.context, column) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InputError(f"{file}: {' '.join(str(error).split())}") from error
    finally:
        loader.dispose()
    return documents


def _plain(loader: Any, node: Any, known: dict[int, object], depth: int) -> object:
    """Turn a node into tables, lists and words; what an alias repeats is there once."""
    if depth > DEPTH_MAX:
        raise InputError("too deep, or an alias that holds itself")
    if id(node) in known:
        return known[id(node)]
    made: object
    if node.id == "mapping":
        loader.flatten_mapping(node)
        made = {
            str(_plain(loader, key, known, depth + 1)): _plain(loader, value, known, depth + 1)
            for key, value in node.value
        }
    elif node.id == "sequence":
        made = [_plain(loader, one, known, depth + 1) for one in node.value]
    elif node.tag == "tag:yaml.org,2002:null":
        made = None
    else:
        made = Word(node.value)
        made.at = (node.start_mark.line + 1, node.start_mark.column + 1)
    known[id(node)] = made
    return made


def read(path: Path, node: Node) -> Found:
    """Read the groups of all pods and templates in a file of YAML or JSON."""
    text = files.read_text(path, "a pod spec")
    return _Pods(str(path), node).read(_documents(text, str(path)))

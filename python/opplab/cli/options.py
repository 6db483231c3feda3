"""Options that several commands have: one definition, so that they have the same words everywhere."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.shell_completion import CompletionItem

from opplab import _opplab, catalog, files
from opplab.catalog import nearest
from opplab.cli.ending import DAMAGED_OK
from opplab.errors import InputError
from opplab.report.text import FORMATS
from opplab.simulation.policy import Policy
from opplab.uncertainty import DRAWS_MAX

if TYPE_CHECKING:
    from opplab.simulation.machine import Machine
    from opplab.simulation.workload import Benchmark
    from opplab.sweep.variants import Variant


F = TypeVar("F", bound=Callable[..., Any])


def _is_kernel(name: str) -> bool:
    """Whether a kernel has this name, listed or not; what the name leaves open goes to standard error."""
    from opplab.kernel import KernelProfile, kernel_note

    try:
        KernelProfile(name)
    except InputError:
        return False
    if note := kernel_note(name):
        click.echo(f"kernel {name}: {note}", err=True)
    return True


def _nearest_version(name: str, known: list[str]) -> str:
    """Name the kernel that is nearest by version, the older of two; by spelling what is no version."""

    def place(version: str) -> float | None:
        numbers = re.match(r"v?(\d+)\.(\d+)\b", version)
        return int(numbers[1]) * 20 + int(numbers[2]) if numbers and int(numbers[2]) <= 30 else None

    wanted = place(name)
    if wanted is None:
        return nearest(name, known)
    places = {version: at for version in known if (at := place(version)) is not None and "-" not in version}
    return f"; did you mean `{min(places, key=lambda version: abs(places[version] - wanted))}`?"


class BuiltIn(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A built-in machine or experiment by name, or the path of a file; completes both."""

    def __init__(self, kind: str, *more: str) -> None:
        self.name = kind
        self.more = more

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Take it as it is: the command itself reports what is wrong with a name."""
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Give the names, then let the shell complete files."""
        names = [name for name in (*self.more, *catalog.names(self.name)) if name.startswith(incomplete)]
        return [*map(CompletionItem, names), CompletionItem(incomplete, type="file")]


class NameOf(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A name of what the extension lists (``governors``, ``kernels``, ...), completed from that list.

    Parameters
    ----------
    kind : str
        As for ``opplab list``.
    several : bool
        Names with commas between them.
    """

    def __init__(self, kind: str, *, several: bool = False) -> None:
        self.name = kind.rstrip("s").replace("-", " ")
        self.kind = kind
        self.several = several

    def _names(self) -> list[str]:
        return [name for name, _ in _opplab.names(self.kind)]

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse an unknown name with the nearest one."""
        known = self._names()
        if not self.several and "," in value and set(value.split(",")) <= set(known):
            raise click.BadParameter(f"only one {self.name} here; compare several with opplab experiment new")
        for name in value.split(",") if self.several else [value]:
            if self.kind == "kernels" and _is_kernel(name):
                continue
            if name not in known:
                near = _nearest_version(name, known) if self.kind == "kernels" else nearest(name, known)
                hint = near or f" (known: {', '.join(known)})"
                raise click.BadParameter(f"unknown {self.name} `{name}`{hint}", ctx, param)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Give the names that begin so."""
        head, comma, last = incomplete.rpartition(",") if self.several else ("", "", incomplete)
        return [CompletionItem(f"{head}{comma}{name}") for name in self._names() if name.startswith(last)]


def check_freq_max(name: str) -> None:
    """Refuse an f_max that no kernel has."""
    (values,) = (str(key["values"]) for key in _opplab.policy_keys() if key["name"] == "freq_max")
    known = values.split(", ")
    if name not in known:
        raise InputError(f"unknown f_max `{name}`{nearest(name, known) or f' (known: {values})'}")


def freq_max_option(what: str, *, several: bool = False) -> Callable[[F], F]:
    """Add ``--f-max`` as `freq_max`: a name, or `several` with commas; one that no kernel has is refused."""

    def check(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        for name in () if value is None else value.split(",") if several else [value]:
            try:
                check_freq_max(name)
            except InputError as error:
                raise click.BadParameter(str(error), ctx, param) from None
        return value

    return click.option("--f-max", "freq_max", callback=check, metavar="NAME", help=what)


def output_format_option(*more: str, only: Iterable[str] = FORMATS, what: str = "Output format.") -> Callable[[F], F]:
    """Add ``--format`` to a command as `output_format`, with forms of its own."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice([*only, *more]),
        default="text",
        help=what,
    )


def time_ns(text: str, like: str) -> int:
    """Read a time such as ``12.5`` (s), ``12.5s`` or ``300ms`` (also us, ns)."""
    match = re.fullmatch(r"(\d*)\.?(\d*)\s*(|s|ms|us|ns)", text.strip())
    if not match or not match[1] + match[2]:
        raise click.BadParameter(f"'{text}' is not a time: write it like {like}")
    whole, part, unit = match.groups()
    factor = {"": 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]
    # Exact: trace clocks have more digits than a float.
    return int(whole or 0) * factor + int(int(part or 0) * factor // 10 ** len(part))


def parse_time(text: str | None, start_ns: Callable[[], int], like: str) -> int | None:
    """Give a moment as ns: ``12.5`` or ``12.5s`` of a clock (also ms, us, ns), ``+0.5`` from the start."""
    if text is None:
        return None
    late = text.strip().removeprefix("+")
    ns = time_ns(late, like)
    return ns if late == text.strip() else ns + start_ns()


format_option = output_format_option()
points_option = click.option(
    "--points", default="all", help="Measured operating points to fit: low,mid,high, kHz, or all."
)
interval_option = click.option(
    "--interval",
    type=click.Choice(["meter", "chip", "kind"]),
    default="meter",
    help="Scope of the intervals: one meter and chip, another chip by such a meter, or the kind by any meter.",
)


def report_option(function: F) -> F:
    """Add ``--format`` as `output_format`, and ``--tap``, which is short for ``--format ktap``."""

    @wraps(function)
    def one(*arguments: Any, tap: bool, output_format: str, **more: Any) -> Any:
        if tap and output_format not in ("text", "ktap"):
            raise click.UsageError(f"--tap or --format {output_format}, not both")
        return function(*arguments, output_format="ktap" if tap else output_format, **more)

    flag = click.option("--tap", is_flag=True, help="KTAP for kernel CIs: the same as --format ktap.")
    return cast(F, output_format_option("ktap")(flag(one)))


def machine_option(what: str, **more: Any) -> Callable[[F], F]:
    """Add ``-m/--machine``: a built-in name or a ``.toml`` file."""
    return click.option(
        "-m", "--machine", type=BuiltIn("machine", *more.pop("names", ())), metavar="NAME|FILE", help=what, **more
    )


def trace_machine_option(what: str = "Machine of the trace", **more: Any) -> Callable[[F], F]:
    """Add ``-m/--machine`` where a trace may bring its machine along: ``auto``."""
    return machine_option(f"{what}; 'auto' takes the snapshot beside or inside the trace.", names=("auto",), **more)


half_life_option = click.option(
    "--pelt-half-life-ms",
    type=click.Choice([8, 16, 32]),
    help="Half-life of the traced kernel's load tracking (default: what the trace or the snapshot shows, else 32).",
)


def _accept_damage(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[DAMAGED_OK] = True


damaged_ok_option = click.option(
    "--damaged-ok",
    is_flag=True,
    expose_value=False,
    callback=_accept_damage,
    help="Exit code 0 for a damaged trace.",
)
"""What `opplab.cli.main` acts on."""


def trace_argument(name: str, *, exists: bool = False) -> Callable[[F], F]:
    """Add the trace that a command answers from, and ``--damaged-ok``."""

    def add(function: F) -> F:
        return click.argument(name, type=click.Path(exists=exists, path_type=Path))(damaged_ok_option(function))

    return add


def draws_noted(_ctx: click.Context, _param: click.Parameter, number: int | None) -> int | None:
    """Report draws that are too few for an interval, before they run; 0 asks for none."""
    from opplab.certainty import CONFIDENCE, quantile_draws

    needed = quantile_draws(CONFIDENCE)
    if number and number < needed:
        level = f"{100 * CONFIDENCE:g} %"
        note(f"{number} draws judge no assumed number: an interval of {level} needs --uncertainty {needed}")
    return number


uncertainty_option = click.option(
    "--uncertainty",
    type=click.IntRange(2, DRAWS_MAX),
    callback=draws_noted,
    metavar="N",
    help="Number of draws of the machine's assumed values; intervals then include their effect.",
)
jobs_option = click.option("-j", "--jobs", type=click.IntRange(1, 1024), help="Threads (default: one per CPU).")


def workers(jobs: int | None) -> int:
    """Give the number of threads that `jobs` asks for."""
    return jobs or os.cpu_count() or 1


def _tunables(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"'{text}' is not NAME=VALUE")
        pairs[key] = value
    return pairs


background_option = click.option(
    "--background",
    type=BuiltIn("background"),
    metavar="NAME|FILE",
    help="Tasks of a quiet system beside the workload: NAME ('opplab list backgrounds') or a file of 'opplab learn'.",
)


def from_folder(name: str, folder: Path) -> str:
    """Give a built-in name as it is, and the path of a file as it is from a folder."""
    return files.relative(name, folder) if Path(name).suffix == ".toml" else name


power_option = click.option(
    "--power",
    type=click.Choice(["generic"]),
    help="Power curve for a machine file that has none: the generic curve of its class, with wide ranges.",
)


def with_generic_power(name: str | Path) -> Machine:
    """Give a machine with the generic curve of power of its class; what that is goes to standard error."""
    from opplab.fit.machine_power import generic_power
    from opplab.simulation.machine import Machine

    text, words = generic_power(Machine.load(name).to_toml())
    note(words)
    return Machine.parse(text, file=str(name))


def pairs_option(flag: str, name: str, what: str) -> Callable[[F], F]:
    """Add an option of ``NAME=VALUE`` that may be given repeatedly."""
    return click.option(flag, name, multiple=True, callback=_tunables, metavar="NAME=VALUE", help=what)


def percent(_ctx: click.Context, _param: click.Parameter, text: str | None) -> float | None:
    """Read a share in percent, as ``1%`` or ``0.25``."""
    if text is None:
        return None
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = 0.0
    if not 0 < value <= 100:
        raise click.BadParameter(f"'{text}' is not a percentage such as 1% or 0.25%")
    return value


def vs_option_of(about: str) -> Callable[[F], F]:
    """Give the option ``--vs CHANGES`` as `vs`, a variant beside the baseline, with these words on what it takes."""
    return click.option(
        "--vs", multiple=True, metavar="KEY=VALUE...|FILE", help=f"Variant of the policy, {about} May be repeated."
    )


vs_option = vs_option_of(
    "e.g. kernel=6.12, 'governor=ondemand hz=1000', proposal=NAME; or the profiles of tuned.conf, tlp.conf, "
    "auto-cpufreq.conf or power-profiles-daemon."
)


def note(words: str) -> None:
    """Print what an answer leaves out, to standard error."""
    click.echo(f"opplab: {words}", err=True)


def variants_on(
    machines: Sequence[str], keys: Mapping[str, Any], vs: Sequence[str], said: Callable[[str], None]
) -> list[Variant]:
    """Give the baseline and its variants; profiles choose by the first machine, and others that differ are named."""
    from opplab.simulation.machine import Machine
    from opplab.sweep.drivers import MachineFacts
    from opplab.sweep.power_profiles import DAEMON, is_power_profile
    from opplab.sweep.variants import with_variants

    first = Machine.load(machines[0])
    facts = MachineFacts.of(first.tree)
    for other in map(Machine.load, machines[1:] if any(map(is_power_profile, vs)) else ()):
        its = MachineFacts.of(other.tree)
        if (its.drivers, its.has_hwp) != (facts.drivers, facts.has_hwp):
            said(f"profiles are read for {first.name}; {other.name} has other drivers: run it alone")
        elif (its.cpuinfo, its.arch) != (facts.cpuinfo, facts.arch) and set(filter(is_power_profile, vs)) != {DAEMON}:
            said(f"profiles are read for {first.name}; sections that ask for a processor may differ on {other.name}")
    return with_variants(keys, vs, facts, said)


def note_replaced(path: Path, question: str) -> None:
    """Print which answer of another question gives way to a new one: `path` is the JSON of both."""
    try:
        before = json.loads(files.read_text(path, "an answer"))["question"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError, InputError):
        return
    if before != question:
        note(f"{path.parent} held the answer to `{before}`; it is replaced")


def param_option_of(values: str, form: str) -> Callable[[F], F]:
    """Give the option ``--param KEY=VALUE`` as `params`, parameters of a benchmark model, with these words on them."""
    words = f"Parameter of a benchmark (list parameters BENCHMARK); {values}"
    return click.option("--param", "params", multiple=True, metavar=form, help=words)


param_option = param_option_of("each value is a separate case.", "KEY=VALUE[,VALUE...]")
one_param_option = param_option_of("may be repeated.", "KEY=VALUE")


def benchmark_of(name: str, params: Sequence[str]) -> dict[str, Any] | None:
    """Give the parameters of a benchmark model, each with its values, or None where no model has the name.

    Raises
    ------
    click.UsageError
        A value that the parameter does not take, or parameters without a benchmark.
    InputError
        An unknown parameter; names the nearest one.
    """
    from opplab.simulation.workload import Workload

    model = next((model for model in _opplab.benchmarks() if model["name"] == name), None)
    if model is None:
        if params:
            raise click.UsageError("--param needs a benchmark ('opplab list benchmarks')")
        return None
    words_of = {param["name"]: param["words"] for param in model["params"]}
    values: dict[str, Any] = {}
    for text in params:
        key, _, given = (part.strip() for part in text.partition("="))
        each = [value.strip() for value in given.split(",")]
        if words := words_of.get(key):
            if unknown := [value for value in each if value not in words]:
                raise click.UsageError(f"--param {key}: it cannot be '{unknown[0]}'{nearest(unknown[0], words)}")
            values[key] = each
            continue
        try:
            values[key] = [int(number) for number in each]
        except ValueError:
            raise click.UsageError(f"--param: '{text}' is not of the form clients=4 or clients=1,8") from None
    Workload.benchmark(name, **{key: each[0] for key, each in values.items()})
    return values


def load_of(name: str, params: Sequence[str]) -> Benchmark | Path | str:
    """Give the one workload that a command's word names: a benchmark model with its parameters, a file, or a name.

    Raises
    ------
    click.UsageError
        As by `benchmark_of`, or several values of a parameter.
    """
    from opplab.simulation.workload import Workload

    values = benchmark_of(name, params)
    if values is None:
        return Path(name) if "." in name or "/" in name else name
    for key, numbers in values.items():
        if len(numbers) > 1:
            raise click.UsageError(f"--param {key}: give one value; each is a workload of its own")
    return Workload.benchmark(name, **{key: numbers[0] for key, numbers in values.items()})


def _policy_options(function: F) -> F:
    """Add what can be chosen of a policy on the command line, and ``--set`` for every other key of it."""
    for option in (
        click.option(
            "--set", "keys", multiple=True, metavar="KEY=VALUE", help="Any other policy key (list policy-keys)."
        ),
        click.option(
            "--proposal",
            "proposals",
            multiple=True,
            metavar="NAME[:KEY=VALUE,...]",
            help="Proposed patch added to the kernel (list proposals); may be repeated.",
        ),
        pairs_option("--gate", "gates", "Gate of the kernel profile (list gates); may be repeated."),
        pairs_option("--tunable", "tunables", "Tunable of the governor (list tunables); may be repeated."),
        click.option(
            "--variation",
            type=click.Choice(["none", "rt-app", "noisy-host"]),
            help=f"Variation of programs between runs (default: {Policy.variation}).",
        ),
        click.option(
            "--idle-governor",
            type=NameOf("idle-governors"),
            help=f"cpuidle governor (default: {Policy.idle_governor}).",
        ),
        click.option(
            "--energy-model",
            type=click.Choice(["registered", "artificial", "none"]),
            help=f"Energy model of the kernel (default: {Policy.energy_model}).",
        ),
        click.option("--eas/--no-eas", "eas", default=None, help="Energy-aware scheduling (default: on)."),
        click.option("--driver", help="cpufreq driver (default: the machine's)."),
        click.option("--kernel", type=NameOf("kernels"), help=f"Kernel profile (default: {Policy.kernel})."),
    ):
        function = option(function)
    return function


def policy_options(function: F) -> F:
    """Add the options that set keys of a policy; governors may be several, to compare."""
    governors = click.option(
        "--governor",
        type=NameOf("governors", several=True),
        metavar="A[,B,...]",
        help=f"cpufreq governors to compare (default: {Policy.governor}).",
    )
    return governors(_policy_options(function))


def one_policy_options(function: F) -> F:
    """Add the options that set keys of the policy of a command's only run."""
    one = click.option("--governor", type=NameOf("governors"), help=f"cpufreq governor (default: {Policy.governor}).")
    return one(_policy_options(function))


def policy_of(given: dict[str, Any]) -> dict[str, Any]:
    """Give the keys of a policy that the options of `policy_options` set.

    Raises
    ------
    click.UsageError
        A key of ``--set`` is not one, or its value is no such value.
    """
    from opplab.sweep.variants import value_of

    keys = {name: value for name, value in given.items() if name != "keys" and value not in (None, {}, ())}
    known = [key["name"] for key in _opplab.policy_keys()]
    for text in given.get("keys") or ():
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or key not in known:
            hint = nearest(key, known).replace("`", "'") if equals else ": write it like hz=1000"
            if key in {row["name"] for row in _opplab.governor_tunables()}:
                hint = f" (it is a tunable: --tunable {text})"
            raise click.UsageError(f"--set: no key '{key}'{hint or '; see opplab list policy-keys'}")
        keys[key] = value_of(key, value.strip())
    return keys


def output_option(what: str, **more: Any) -> Callable[[F], F]:
    """Add ``-o/--output``."""
    return click.option("-o", "--output", type=click.Path(path_type=Path), help=what, **more)


def check_workload(path: Path) -> None:
    """Refuse a workload file that is not there, with the command that makes one.

    Raises
    ------
    InputError
        There is no such file.
    """
    if not path.exists():
        raise InputError(f"{path}: No such file or directory; opplab workload new {path.stem or 'NAME'} writes one")


def file_of(name: str, ending: str, output: Path | None) -> Path:
    """Give the file that a new thing of that name goes to."""
    if output is None and ("/" in name or name in ("", ".", "..") or "\0" in name):
        raise click.UsageError(f"'{name}' is not a name; use -o for a path")
    return output or Path(f"{name}{ending}")


def write_new(path: Path, text: str, force: bool) -> None:
    """Write a file that is not there yet, unless it may be overwritten."""
    if path.exists() and not force:
        raise click.UsageError(f"{path} exists; --force overwrites it")
    files.write_text(path, text)

"""`opplab status`: how far a sweep is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from opplab.cli.options import format_option, note
from opplab.errors import FormatError, InputError
from opplab.report.text import print_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from opplab.sweep.store import Store


@click.command(name="status")
@click.argument("folder", type=click.Path(path_type=Path))
@format_option
def command(folder: Path, output_format: str) -> None:
    """Show finished, failed and damaged cases of a results folder, with the reasons.

    The next run repeats damaged cases. Exit code 1: a case has failed.
    """
    from opplab.sweep.store import Store

    store = Store(folder)
    manifest = store.manifest()
    labels = {case["hash"]: case["label"] for case in manifest["cases"]}
    finished = store.finished() & labels.keys()
    failures = {key: one["error"] for key, one in store.failures().items() if key in labels.keys() - finished}
    damaged = _damaged(store, finished)
    errors = failures | damaged
    states = dict.fromkeys(labels, "left") | dict.fromkeys(labels.keys() & manifest.get("spared", ()), "not needed")
    for state, some in (("finished", finished), ("failed", failures), ("damaged", damaged)):
        states |= dict.fromkeys(some, state)
    if output_format == "text":
        counts = Counter(states.values())
        shown = [f"{counts[one]} {one}" for one in ("left", "failed")]
        shown += [f"{counts[one]} {one}" for one in ("damaged", "not needed") if counts[one]]
        what = manifest["experiment"] or "single case"
        click.echo(f"{what}: {counts['finished']} of {len(labels)} cases finished, {', '.join(shown)}")
        click.echo(f"opplab {manifest['version']}, build {manifest['build']}")
        for key, error in errors.items():
            click.echo(f"  {states[key]}: {labels[key]}: {error}")
    else:
        rows = [{"case": key, "label": labels[key], "state": states[key], "error": errors.get(key)} for key in labels]
        print_table(rows, output_format)
    for line in _changed(folder, manifest):
        note(line)
    raise click.exceptions.Exit(1 if failures else 0)


def _damaged(store: Store, hashes: Collection[str]) -> dict[str, str]:
    """Give the cases whose files are not what was written, with the reason; nothing is set aside."""
    found = {}
    for case_hash in sorted(hashes):
        try:
            store.measured(case_hash)
        except FormatError as error:
            found[case_hash] = str(error)
    return found


def _changed(folder: Path, manifest: dict[str, Any]) -> list[str]:
    """Describe what became of the experiment's file since it filled the folder, where this build can know."""
    from opplab.sweep.experiments import Experiment, files_of_results
    from opplab.sweep.store import build_id

    if manifest["build"] != build_id():
        return [f"another build (this is {build_id()}) filled {folder}: the next run starts anew"]
    if "draws" in manifest:
        return []
    try:
        files = files_of_results(folder)
    except InputError:
        # A single case, or a file in a place that nobody noted.
        return []
    try:
        made = Experiment.of_results(folder, anew=True)
    except (InputError, OSError) as error:
        return [str(error)]
    own, known = {case.hash for case in made.cases}, {case["hash"] for case in manifest["cases"]}
    changed = f"{files[0] if len(files) == 1 else made.file}, or a file that it names, has changed"
    found = []
    if new := len(own - known):
        found.append(f"{changed}: {new} of its {len(own)} cases are not among these")
    if gone := len(known - own):
        found.append(f"{changed}: {gone} of these {len(known)} cases are not of it now")
    if "adjusted" in manifest and made.manifest()["until"] != manifest["until"]:
        found.append(f"{changed}: its `until` is another")
    return found

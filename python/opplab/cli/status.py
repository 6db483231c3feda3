"""`opplab status`: how far a sweep is."""

from __future__ import annotations

from pathlib import Path

import click

from opplab.cli.options import format_option
from opplab.report.text import print_table


@click.command(name="status")
@click.argument("folder", type=click.Path(path_type=Path))
@format_option
def command(folder: Path, output_format: str) -> None:
    """Show finished and failed cases of a results folder, with the reasons.

    Exit code 1: a case has failed.
    """
    from opplab.sweep.store import Store

    store = Store(folder)
    manifest = store.manifest()
    labels = {case["hash"]: case["label"] for case in manifest["cases"]}
    done = store.finished() & labels.keys()
    failures = {key: value for key, value in store.failures().items() if key in labels and key not in done}
    spared = set(manifest.get("spared", ())) - done
    left = len(labels) - len(done) - len(failures) - len(spared)
    if output_format == "text":
        what = manifest["experiment"] or "single case"
        version = manifest["version"]
        unneeded = f", {len(spared)} not needed" if spared else ""
        counts = f"{len(done)} of {len(labels)} cases finished, {left} left, {len(failures)} failed{unneeded}"
        click.echo(f"{what}: {counts}")
        click.echo(f"opplab {version}, build {manifest['build']}")
        for value in failures.values():
            click.echo(f"  failed: {value['label']}: {value['error']}")
    else:
        rows = []
        for key, label in labels.items():
            state = (
                "finished"
                if key in done
                else "failed"
                if key in failures
                else "not needed"
                if key in spared
                else "left"
            )
            rows.append({"case": key, "label": label, "state": state, "error": failures.get(key, {}).get("error")})
        print_table(rows, output_format)
    raise click.exceptions.Exit(1 if failures else 0)

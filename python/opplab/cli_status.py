"""`opplab status`: how far a sweep is."""

from __future__ import annotations

from pathlib import Path

import click

from opplab.output import format_option, print_table


@click.command(name="status")
@click.argument("folder", type=click.Path(path_type=Path))
@format_option
def command(folder: Path, output_format: str) -> None:
    """Say how many cases of a results folder are finished, which failed and why.

    The exit code is 1 if a case has failed.
    """
    from opplab.store import Store

    store = Store(folder)
    manifest = store.manifest()
    labels = {case["hash"]: case["label"] for case in manifest["cases"]}
    done = store.finished() & labels.keys()
    failures = {key: value for key, value in store.failures().items() if key in labels and key not in done}
    left = len(labels) - len(done) - len(failures)
    if output_format == "text":
        what = manifest["experiment"] or "single case"
        version = manifest["version"]
        click.echo(f"{what}: {len(done)} of {len(labels)} cases finished, {left} left, {len(failures)} failed")
        click.echo(f"opplab {version}, build {manifest['build']}")
        for value in failures.values():
            click.echo(f"  failed: {value['label']}: {value['error']}")
    else:
        rows = []
        for key, label in labels.items():
            state = "finished" if key in done else "failed" if key in failures else "left"
            rows.append({"case": key, "label": label, "state": state, "error": failures.get(key, {}).get("error")})
        print_table(rows, output_format)
    raise click.exceptions.Exit(1 if failures else 0)

"""`opplab host`: look at a live Linux, and change its frequencies with everything put back.

The command line is crate ``host``'s, the same as that of the static ``opplab-agent``.
"""

from __future__ import annotations

import sys

import click

from opplab import _opplab


@click.command(
    name="host",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def command(words: tuple[str, ...]) -> None:
    """Look at a live Linux: show, observe, affinity, govern, record."""
    sys.stdout.flush()
    code = _opplab.host_main(list(words), [sys.executable, "-m", "opplab", "host"])
    if code:
        sys.exit(code)

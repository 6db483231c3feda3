"""Calls of the command line in the process of a test."""

from click.testing import CliRunner, Result

from opplab.cli.main import opplab


def called(*words: object, columns: int | None = None) -> Result:
    """Call `opplab` with these words, on a terminal of so many columns; give how it ended and what it printed."""
    env = {} if columns is None else {"COLUMNS": str(columns)}
    return CliRunner(env=env).invoke(opplab, [str(word) for word in words])


def answered(*words: object, columns: int | None = None) -> Result:
    """Call it, and hold that it ends with exit code 0."""
    done = called(*words, columns=columns)
    assert done.exit_code == 0, (done.output, done.exception)
    return done

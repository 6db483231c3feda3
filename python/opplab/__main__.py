"""``python -m opplab`` and the ``opplab`` command: the short way where there is one, else the command line."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line."""
    if len(sys.argv) > 2 and sys.argv[1] == "compare":
        from opplab.cli.quick import compare

        try:
            code = compare(sys.argv[2:])
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 141
        if code is not None:
            sys.exit(code)
    from opplab.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()

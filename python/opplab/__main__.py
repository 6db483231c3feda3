"""``python -m opplab`` and the ``opplab`` command: the short way where there is one, else the command line."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    if len(sys.argv) > 2 and sys.argv[1] == "compare":
        from opplab.cli.ending import code_of, is_debug, leave, open_streams
        from opplab.cli.quick import compare

        open_streams()
        try:
            code = compare(sys.argv[2:])
        except BaseException as error:
            if is_debug():
                raise
            code = code_of(error)
        if code is not None:
            leave(code)
    from opplab.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()

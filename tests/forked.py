"""`opplab` as a process that does not import it anew: a server has imported it once, and forks for each call.

Most of a short command's time goes into the import of polars and scipy.  What runs is the whole command line in a
process of its own, with the caller's streams, folder and environment.  What a start itself does (lazy imports, closed
streams, signals, limits) is tried with real ones.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from functools import cache

HEAD = 8
"""Bytes that say how long a call is."""


@cache
def words() -> list[str]:
    """Start the server; give what stands for ``[sys.executable, "-m", "opplab"]``."""
    # A call imports little.
    import atexit
    import subprocess
    from pathlib import Path
    from tempfile import TemporaryDirectory

    folder = TemporaryDirectory(prefix="opplab-forked-")
    place = str(Path(folder.name) / "server")
    command = [sys.executable, __file__, "serve", place]
    # Without threads of BLAS, which would be gone after a fork.
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=alone)

    def end() -> None:
        server.communicate()
        folder.cleanup()

    atexit.register(end)
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
    return [sys.executable, "-ISs", __file__, "call", place]


def call(place: str, args: list[str]) -> int:
    """Have the server run a command with this process's streams; give its exit code."""
    text = json.dumps([args, os.getcwd(), dict(os.environ)]).encode()  # noqa: PTH109
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(place)
        socket.send_fds(server, [len(text).to_bytes(HEAD, "big")], [0, 1, 2])
        server.sendall(text)
        return int(server.recv(HEAD) or b"255")


def serve(place: str) -> list[str]:
    """Fork for each call until standard input ends; each child comes back from here with the words to run."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(place)
        server.listen(64)
        print("ready", flush=True)
        while sys.stdin not in select.select([sys.stdin, server], [], [])[0]:
            caller = server.accept()[0]
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                head, streams, _, _ = socket.recv_fds(caller, HEAD, 3)
                text = b""
                while len(text) < int.from_bytes(head, "big"):
                    text += caller.recv(1 << 16)
                child = os.fork()
                if child:
                    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                    caller.send(str(code if code >= 0 else 128 - code).encode())
                    os._exit(0)
                caller.close()
                args, folder, environment = json.loads(text)
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                    os.close(stream)
                os.chdir(folder)
                os.environ.clear()
                os.environ.update(environment)
                # As ``python -m`` has it.
                sys.path.insert(0, folder)
                return args
            caller.close()
    sys.exit()


def main() -> None:
    """Serve or call."""
    what, place, *args = sys.argv[1:]
    if what == "call":
        sys.exit(call(place, args))
    import atexit
    import gc
    import threading
    from importlib import import_module

    from opplab.__main__ import main as opplab
    from opplab.cli.main import COMMANDS

    for module in ("polars", "scipy.optimize", "scipy.stats", *(module for module, _ in COMMANDS.values())):
        import_module(module)
    gc.freeze()
    sys.argv = ["opplab", *serve(place)]
    code = 1
    try:
        opplab()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    # Not by the end of the interpreter, which looks at all that was imported: it would be copied.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()

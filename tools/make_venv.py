"""Make the virtual environment that the Makefile uses, with nothing but a Python interpreter.

``python3 tools/make_venv.py .venv REQUIREMENT...`` creates ``.venv`` if it is not there, sees to it that it has pip,
and installs the requirements; ``--locked NAME`` stands for those of requirements/NAME.txt, whose versions and hashes
are fixed (``make lock`` writes them from pyproject.toml).  With ``OPPLAB_UNLOCKED=1`` in the environment the ranges of
pyproject.toml are taken in their place: for an index or a platform that lacks one of the fixed files.
Debian ships ``venv`` without ``ensurepip`` unless python3-venv is installed; then pip's own wheel is fetched from the
package index, its checksum compared with the index's, and run from the wheel.

The index is the one that pip would use: ``PIP_INDEX_URL``, or ``index-url`` in pip's configuration files, or PyPI.
Only the standard library is used.  Nothing is written outside the target folder.
"""

from __future__ import annotations

import configparser
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import urllib.error
import urllib.parse
import urllib.request
import venv
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

OLDEST_PYTHON = (3, 11)


class Links(HTMLParser):
    """Collect the targets of all links of an index page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the target of an anchor."""
        if tag == "a":
            self.links += [value for name, value in attrs if name == "href" and value]


def fail(message: str) -> None:
    """End with one clear line."""
    sys.exit(f"tools/make_venv.py: {message}")


def index_url() -> str:
    """Give the package index that pip would use."""
    if url := os.environ.get("PIP_INDEX_URL"):
        return url
    home = Path(os.environ.get("XDG_CONFIG_HOME", Path.home() / ".config"))
    places = [
        Path(os.environ.get("PIP_CONFIG_FILE", os.devnull)),
        home / "pip" / "pip.conf",
        Path.home() / ".pip" / "pip.conf",
        Path("/etc/pip.conf"),
    ]
    for place in places:
        parser = configparser.ConfigParser(interpolation=None)
        try:
            parser.read(place)
        except (OSError, configparser.Error):
            continue
        for section in ("install", "global"):
            if url := parser.get(section, "index-url", fallback=""):
                return url
    return "https://pypi.org/simple"


def fetch(url: str) -> bytes:
    """Read a page or file from the index."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            data: bytes = answer.read()
            return data
    except (urllib.error.URLError, OSError) as error:
        fail(f"failed to fetch {url}: {error}; set PIP_INDEX_URL, or install python3-venv and try again")
        raise AssertionError from error


def fetch_pip(folder: Path) -> Path:
    """Fetch the newest pip wheel that has a plain version number into `folder`."""
    page_url = index_url().rstrip("/") + "/pip/"
    page = Links()
    page.feed(fetch(page_url).decode())
    wheels: list[tuple[tuple[int, ...], str]] = []
    for link in page.links:
        name = urllib.parse.unquote(urllib.parse.urlparse(link).path.rsplit("/", 1)[-1])
        if found := re.fullmatch(r"pip-(\d+(?:\.\d+)*)-py3-none-any\.whl", name):
            wheels.append((tuple(int(part) for part in found[1].split(".")), urllib.parse.urljoin(page_url, link)))
    if not wheels:
        fail(f"no pip wheel at {page_url}")
    url, _, fragment = max(wheels)[1].partition("#")
    data = fetch(url)
    if fragment.startswith("sha256=") and hashlib.sha256(data).hexdigest() != fragment.removeprefix("sha256="):
        fail(f"the checksum of {url} is not the index's")
    wheel = folder / url.rsplit("/", 1)[-1]
    wheel.write_bytes(data)
    return wheel


def has_module(python: Path, module: str) -> bool:
    """Report whether `python` can import `module`."""
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def make(target: Path) -> Path:
    """Make `target` a virtual environment with pip and give its interpreter."""
    python = target / "bin" / "python"
    if not python.exists() or not has_module(python, "sys"):
        print(f"creating {target} with Python {sys.version.split()[0]}", flush=True)
        venv.EnvBuilder(with_pip=False, symlinks=True, clear=target.exists()).create(target)
    if has_module(python, "pip"):
        return python
    if has_module(python, "ensurepip"):
        command = [str(python), "-m", "ensurepip", "--default-pip"]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0 and has_module(python, "pip"):
            return python
    print("no usable ensurepip: fetching pip from the package index", flush=True)
    with tempfile.TemporaryDirectory(dir=target) as folder:
        wheel = fetch_pip(Path(folder))
        command = [str(python), f"{wheel}/pip", "install", "--quiet", "--no-index", str(wheel)]
        if subprocess.run(command, check=False).returncode != 0:
            fail("failed to install pip into the virtual environment")
    return python


def expand(arguments: list[str]) -> Iterator[str]:
    """Replace ``--locked NAME`` by the file of requirements, or by what pyproject.toml lists."""
    whole = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    unlocked = os.environ.get("OPPLAB_UNLOCKED", "") not in ("", "0")
    rest = iter(arguments)
    for argument in rest:
        if argument != "--locked":
            yield argument
            continue
        name = next(rest)
        if not unlocked:
            yield from ("--require-hashes", "-r", f"requirements/{name}.txt")
        elif name == "build":
            yield from whole["build-system"]["requires"]
        elif (listed := Path(f"requirements/{name}.in")).exists():
            yield from listed.read_text(encoding="utf-8").split()
        else:
            yield from whole["project"]["dependencies"]
            yield from whole["project"]["optional-dependencies"].get(name, [])


def main() -> None:
    """Make the environment and install what was asked for."""
    if sys.version_info < OLDEST_PYTHON:
        fail(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}: make PYTHON=python3.12 ...")
    if len(sys.argv) < 2:
        fail("usage: make_venv.py FOLDER [REQUIREMENT...]")
    python = make(Path(sys.argv[1]))
    if requirements := list(expand(sys.argv[2:])):
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
        if subprocess.run(command, check=False).returncode != 0:
            fail("pip failed to install " + " ".join(requirements))


if __name__ == "__main__":
    main()

"""Builds what a release consists of, and tries it: ``python tools/dist.py [--quick]``.

``out/dist`` then holds the sdist, the abi3 wheel (tagged manylinux by maturin, which checks the symbols that it uses),
a bill of materials (CycloneDX), the licences of all that is linked, and checksums.  Both archives are installed into
clean environments in which ``opplab run juno-eas --iterations 1`` must work; ``--quick`` leaves the sdist out, which
compiles everything again.  The wheel is optimised for what `tools/train.py` runs (7 to 18 % less CPU time) where the
toolchain has llvm-profdata: ``rustup component add llvm-tools``.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from importlib import metadata
from pathlib import Path
from typing import Any

import licences

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "dist"


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> None:
    """Run a command; end with its exit code if it fails."""
    done = subprocess.run([str(word) for word in command], check=False, cwd=cwd, env={**os.environ, **environment})
    if done.returncode:
        sys.exit(f"tools/dist.py: {' '.join(map(str, command))}: exit code {done.returncode}")


def trained() -> list[str]:
    """Give maturin's options for a build that is optimised by profile, or none with the reason printed."""
    root = subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True).stdout.strip()
    if list(Path(root).glob("lib/rustlib/*/bin/llvm-profdata*")):
        return ["--pgo", "--interpreter", sys.executable]
    print("no profile-guided optimisation: `rustup component add llvm-tools` adds what it needs", file=sys.stderr)
    return []


def crates() -> list[dict[str, Any]]:
    """Give the packages that are linked into the extension."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    found: list[dict[str, Any]] = licences.linked(json.loads(answer.stdout), "opplab-py")
    return found


def bill(packages: list[dict[str, Any]], version: str) -> dict[str, Any]:
    """Give the bill of materials: linked crates, and the Python packages that are required."""
    components = [
        {
            "type": "library",
            "name": package["name"],
            "version": package["version"],
            "licenses": [{"expression": package["license"].replace("/", " OR ")}],
            "purl": f"pkg:cargo/{package['name']}@{package['version']}",
        }
        for package in packages
        if package["source"]
    ]
    with (ROOT / "pyproject.toml").open("rb") as file:
        required = tomllib.load(file)["project"]["dependencies"]
    for requirement in required:
        name = requirement.partition(">")[0]
        about = metadata.metadata(name)
        expression = about.get_all("License-Expression")
        # Without an expression the classifiers' words, which are names and no SPDX identifiers.
        words = [text.rpartition(" :: ")[2] for text in about.get_all("Classifier") or [] if text.startswith("License")]
        licenses: list[dict[str, Any]] = [{"license": {"name": name}} for name in words]
        components.append(
            {
                "type": "library",
                "name": name,
                "version": about["Version"],
                "licenses": [{"expression": expression[0]}] if expression else licenses,
                "purl": f"pkg:pypi/{name}@{about['Version']}",
                "scope": "required",
            }
        )
    main = {"type": "application", "name": "opplab", "version": version, "purl": f"pkg:pypi/opplab@{version}"}
    main["licenses"] = [{"expression": "GPL-2.0-only"}]  # type: ignore[assignment]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": main},
        "components": sorted(components, key=lambda one: str(one["purl"])),
    }


def licence_texts(packages: list[dict[str, Any]]) -> str:
    """Give the licence of every linked crate: its expression, and the texts that it ships."""
    parts = []
    for package in packages:
        if not package["source"]:
            continue
        parts.append(f"{'=' * 80}\n{package['name']} {package['version']}: {package['license']}\n")
        folder = Path(package["manifest_path"]).parent
        names = sorted(file for file in folder.iterdir() if file.is_file() and file.name.upper().startswith("LICEN"))
        parts += [file.read_text(encoding="utf-8", errors="replace") for file in names]
    return "\n".join(parts)


def try_archive(archive: Path) -> None:
    """Install an archive into a clean environment and run an experiment there."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        venv.create(place / "venv", with_pip=True)
        binaries = place / "venv" / "bin"
        # Crates that the working copy has compiled are not compiled again.
        run(binaries / "python", "-m", "pip", "install", "--quiet", archive, CARGO_TARGET_DIR=str(ROOT / "target"))
        run(binaries / "opplab", "--version", cwd=place)
        run(binaries / "opplab", "run", "juno-eas", "--iterations", "1", cwd=place)
        if not (place / "out" / "juno-eas" / "report.html").is_file():
            sys.exit(f"tools/dist.py: {archive.name} made no report")
    print(f"{archive.name}: installed and run")


def main(arguments: list[str]) -> None:
    """Build and try."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    maturin = Path(sys.executable).parent / "maturin"
    run(maturin, "sdist", "--out", OUT)
    run(maturin, "build", "--release", "--locked", "--out", OUT, *trained())
    packages = crates()
    (wheel,) = OUT.glob("*.whl")
    (sdist,) = OUT.glob("*.tar.gz")
    version = wheel.name.split("-")[1]
    text = json.dumps(bill(packages, version), indent=1) + "\n"
    (OUT / f"opplab-{version}.cdx.json").write_text(text, encoding="utf-8")
    (OUT / f"opplab-{version}-licences.txt").write_text(licence_texts(packages), encoding="utf-8")
    for archive in [wheel, *([] if "--quick" in arguments else [sdist])]:
        try_archive(archive)
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(OUT.iterdir())]
    (OUT / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")
    print(f"wrote {', '.join(file.name for file in sorted(OUT.iterdir()))} to {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Builds the extension server for ui.perfetto.dev into a folder: ``python tools/make_perfetto.py FOLDER``.

Static files in the form of Perfetto's extension server protocol: a manifest, macros and SQL modules. Their sources
are in ``crates/timeline/perfetto``, beside what writes the tracks that they name.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "crates" / "timeline" / "perfetto"
NAMESPACE = "org.opplab"
MODULE = "default"


def make(folder: Path) -> None:
    """Write the files that the protocol names."""
    modules = [
        {"name": f"{NAMESPACE}.{file.stem}", "sql": file.read_text(encoding="utf-8")}
        for file in sorted((SOURCES / "sql").glob("*.sql"))
    ]
    macros = json.loads((SOURCES / "macros.json").read_text(encoding="utf-8").replace("{namespace}", NAMESPACE))
    for macro in macros:
        macro["id"] = f"{NAMESPACE}.{macro['id']}"
    manifest = {
        "name": "opplab",
        "namespace": NAMESPACE,
        "features": [{"name": "macros"}, {"name": "sql_modules"}],
        "modules": [{"id": MODULE, "name": "opplab"}],
    }
    files = {
        "manifest": manifest,
        f"modules/{MODULE}/macros": {"macros": macros},
        f"modules/{MODULE}/sql_modules": {"sql_modules": modules},
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "out" / "perfetto")

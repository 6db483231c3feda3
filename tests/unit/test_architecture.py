"""ARCHITECTURE.md's table of crates, and the manifests of the crates."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def allowed() -> dict[str, set[str]]:
    """By crate, the crates that the table lets it depend on."""
    rows = re.findall(
        r"^\| `crates/(\w+)` \|.*?\| ([^|]*) \|[^|]*\|$", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE
    )
    return {crate: set() if on == "nothing of ours" else set(on.split(", ")) for crate, on in rows}


def test_crates_depend_on_what_the_table_says() -> None:
    table = allowed()
    crates = {path.parent.name: tomllib.loads(path.read_text()) for path in ROOT.glob("crates/*/Cargo.toml")}
    assert table.keys() == crates.keys()
    for crate, manifest in crates.items():
        ours = {name.removeprefix("opplab-") for name in manifest.get("dependencies", {}) if name.startswith("opplab-")}
        assert ours == table[crate], f"crates/{crate}: the manifest and ARCHITECTURE.md's table differ"
        others = set(manifest) & {"build-dependencies", "target"}
        assert not others, f"crates/{crate}: {others} are not checked here"


def test_no_two_crates_depend_on_each_other() -> None:
    table = allowed()
    done: set[str] = set()
    while left := [crate for crate in table if crate not in done]:
        ready = [crate for crate in left if table[crate] <= done]
        assert ready, f"a circle among {left}"
        done.update(ready)


def test_the_engine_map_names_every_file() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    files = [path.name for path in (ROOT / "crates/sim/src").glob("*/*.rs") if path.name != "mod.rs"]
    assert files
    assert [name for name in files if f"`{name}`" not in text] == []
    named = set(re.findall(r"`(\w+\.rs)`", text[text.index("| **`run/`** |") : text.index("`ids.rs` has")]))
    assert named <= set(files), named - set(files)

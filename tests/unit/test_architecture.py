"""ARCHITECTURE.md's table of crates, and the manifests of the crates."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python/opplab"


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
        tables = [manifest, *manifest.get("target", {}).values()]
        needed = {name for one in tables for name in one.get("dependencies", {})}
        ours = {name.removeprefix("opplab-") for name in needed if name.startswith("opplab-")}
        assert ours == table[crate], f"crates/{crate}: the manifest and ARCHITECTURE.md's table differ"
        assert not any("build-dependencies" in one for one in tables), f"crates/{crate}: not checked here"


def test_no_two_crates_depend_on_each_other() -> None:
    table = allowed()
    done: set[str] = set()
    while left := [crate for crate in table if crate not in done]:
        ready = [crate for crate in left if table[crate] <= done]
        assert ready, f"a circle among {left}"
        done.update(ready)


def imports(file: Path) -> Iterator[str]:
    """The modules that a file imports at run time, inside functions too; what only types name is no dependency."""

    def of(node: ast.AST) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.Import):
                yield from (alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                yield from (f"{child.module}.{alias.name}" for alias in child.names)
            yield from of(child)

    yield from of(ast.parse(file.read_text(encoding="utf-8")))


def circle(needs: dict[str, set[str]]) -> list[str]:
    """What is left where everything that needs nothing of the rest is taken away: a circle, and what needs it."""
    left = {name: needed & needs.keys() - {name} for name, needed in needs.items()}
    while ready := {name for name, needed in left.items() if not needed}:
        left = {name: needed - ready for name, needed in left.items() if name not in ready}
    return sorted(left)


@pytest.mark.parametrize("depth", [1, 9], ids=["packages", "modules"])
def test_the_python_package_has_no_circle(depth: int) -> None:
    """Neither among packages nor among modules; the root names what is public, and nothing imports it."""
    modules = {
        ".".join(file.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): file
        for file in PACKAGE.rglob("*.py")
        if file.parent != PACKAGE or file.stem not in ("__init__", "__main__")
    }

    def unit(name: str) -> str:
        return ".".join(name.split(".")[:depth])

    needs: dict[str, set[str]] = {unit(name): set() for name in modules}
    for name, file in modules.items():
        for imported in imports(file):
            if imported.startswith("opplab."):
                whole = imported.removeprefix("opplab.")
                found = next((part for part in (whole, whole.rpartition(".")[0]) if part in modules), "")
                needs[unit(name)] |= {unit(found)} if found else set()
    assert sum(map(len, needs.values())) > 50
    assert circle(needs) == []


def rust_paths(text: str, inner: set[str]) -> Iterator[list[str]]:
    """The paths of ``use`` trees, and those that begin with ``crate``, ``self``, ``super`` or an inner module."""

    def leaves(head: list[str], tree: str) -> Iterator[list[str]]:
        for part in re.findall(r"(?:[^,{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})+", tree):
            outer, brace, rest = part.partition("{")
            words = [word for word in outer.split(" as ")[0].strip().split("::") if word]
            if brace:
                yield from leaves(head + words, rest.rpartition("}")[0])
            elif words:
                yield head + words

    for tree in re.findall(r"\buse\s+([^;]*);", text):
        yield from leaves([], tree)
    for path in re.findall(r"(?<![:\w])\w+(?:::\w+)+", re.sub(r"\buse\s+[^;]*;", "", text)):
        if (words := path.split("::"))[0] in {"crate", "self", "super"} | inner:
            yield words


@pytest.mark.parametrize("crate", sorted(path.parent.name for path in ROOT.glob("crates/*/src")))
def test_modules_of_a_crate_have_no_circle(crate: str) -> None:
    """A module and those inside it are a folder, and may know each other; tests are left out."""
    source = ROOT / "crates" / crate / "src"
    texts: dict[tuple[str, ...], str] = {}
    for file in source.rglob("*.rs"):
        parts = file.relative_to(source).with_suffix("").parts
        if parts[0] not in ("bin", "main"):
            text = re.sub(r"//[^\n]*", "", file.read_text(encoding="utf-8")).partition("#[cfg(test)]\nmod ")[0]
            texts[parts[:-1] if parts[-1] in ("mod", "lib") else parts] = text
    inner = {name: {other[-1] for other in texts if other[:-1] == name and other} for name in texts}
    named = {
        (name, path[-1]): path
        for name, text in texts.items()
        for tree in re.findall(r"\bpub(?:\([^)]*\))?\s+(use\s+[^;]*;)", text)
        for path in rust_paths(tree, set())
    }

    def home(name: tuple[str, ...], path: list[str]) -> tuple[str, ...]:
        at, rest = (() if path[0] == "crate" else name), list(path[1:] if path[0] in ("crate", "self") else path)
        while rest and rest[0] == "super":
            at, rest = at[:-1], rest[1:]
        while rest and (*at, rest[0]) in texts:
            at, rest = (*at, rest[0]), rest[1:]
        again = named.get((at, rest[0])) if rest and at != name else None
        return home(at, again) if again else at

    needs: dict[str, set[str]] = {"::".join(name): set() for name in texts}
    for name, text in texts.items():
        for path in rust_paths(text, inner[name]):
            found = home(name, path)
            if found[: len(name)] != name[: len(found)]:
                needs["::".join(name)].add("::".join(found))
    assert circle(needs) == []


@pytest.mark.parametrize("main", sorted(ROOT.glob("crates/*/tests/main.rs")), ids=lambda path: path.parts[-3])
def test_no_file_of_tests_is_left_out(main: Path) -> None:
    """A crate whose tests are one program names each file there, or makes it a program of its own."""
    manifest = tomllib.loads((main.parents[1] / "Cargo.toml").read_text(encoding="utf-8"))
    named = {*re.findall(r"^mod (\w+);", main.read_text(encoding="utf-8"), re.MULTILINE), "main"}
    named |= {test["name"] for test in manifest["test"]}
    assert {file.stem for file in main.parent.glob("*.rs")} - named == set()


def test_the_product_does_not_know_the_lab() -> None:
    for file in [*PACKAGE.rglob("*.py"), *(ROOT / "tools").glob("*.py")]:
        assert not [name for name in imports(file) if name.split(".")[0] == "lab"], file


def test_the_engine_map_names_every_file() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    files = [path.name for path in (ROOT / "crates/sim/src").glob("*/*.rs") if path.name != "mod.rs"]
    assert files
    assert [name for name in files if f"`{name}`" not in text] == []
    named = set(re.findall(r"`(\w+\.rs)`", text[text.index("| **`run/`** |") : text.index("`ids.rs` has")]))
    assert named <= set(files), named - set(files)


def test_what_may_panic_was_reviewed() -> None:
    """A new `expect` or index in crates that read what users give is looked at: docs/panics.toml has the reasons."""
    tools = ROOT / "tools"
    done = subprocess.run([sys.executable, str(tools / "panics.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_binding_is_guarded() -> None:
    """A panic in what Python calls is `InternalError`: `#[guarded]` stands before each."""
    found = 0
    for file in sorted((ROOT / "crates/py/src").rglob("*.rs")):
        lines = file.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            if re.match(r"\s*#\[(pyfunction|pymethods)\b", line):
                found += 1
                assert lines[number - 1].strip() == "#[guarded]", f"{file}:{number + 1}: not behind #[guarded]"
    assert found > 60


def test_a_panic_in_a_binding_is_an_internal_error() -> None:
    """A class of the kernel's that nobody guarded by hand: so many tasks have no room."""
    import opplab
    from opplab._opplab import kernel

    with pytest.raises(opplab.InternalError, match=r"internal error: capacity overflow .*please report it"):
        kernel.PeltBatch(2**63)


def test_locked_requirements_are_those_of_the_project() -> None:
    """Each requirement of pyproject.toml is fixed with its hashes (`make lock`), in a version that it allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {name: project["dependencies"] + more for name, more in project["optional-dependencies"].items()}
    for name, requirements in {**wanted, "run": project["dependencies"]}.items():
        text = (ROOT / f"requirements/{name}.txt").read_text()
        locked = {found[1]: found[2] for found in re.finditer(r"(?m)^([\w.-]+)==([\w.]+)", text)}
        assert text.count("--hash=sha256:") >= len(locked)
        for requirement in requirements:
            package, least = re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement).groups()  # type: ignore[union-attr]
            assert [int(part) for part in locked[package].split(".")] >= [int(part) for part in least.split(".")]


def test_drivers_and_governors_are_parsed_once() -> None:
    """No product code compares one by its name: crate ``kernel`` parses it, the rest matches on what it is."""
    folder = ROOT / "crates/kernel/src/cpufreq"
    texts = [file.read_text() for kind in ("drivers", "governors") for file in sorted((folder / kind).glob("*.rs"))]
    names = {name for text in texts for name in re.findall(r'(?:    name: |    entry\()"([a-z_-]+)"', text)}
    assert {"intel_pstate", "amd-pstate-epp", "cppc_cpufreq", "scmi", "schedutil", "ondemand"} <= names
    name = '"(?:' + "|".join(sorted(names)) + ')"'
    value = r"(?:driver|governor)[\w.]*(?:\(\))?"
    alternatives = r'(?: \| "[a-z_-]+")* =>'
    compared = re.compile(rf"{value} *[!=]= *{name}|{value}\.starts_with\(|^ *{name}{alternatives}", re.MULTILINE)
    found = []
    for file in sorted(ROOT.glob("crates/*/src/**/*.rs")):
        # debugfs has a file called `performance`, which crate `verify` reads.
        if file.parts[len(ROOT.parts) + 1] in ("kernel", "verify") or file.name in ("tests.rs", "testing.rs"):
            continue
        product = file.read_text().split("#[cfg(test)]")[0]
        found += [f"{file.relative_to(ROOT)}: {match.group(0).strip()}" for match in compared.finditer(product)]
    assert not found

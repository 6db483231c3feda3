"""The stubs of the compiled module name all that it has, and nothing else; what is public is typed."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import opplab
from opplab import _opplab

PACKAGE = Path(opplab.__file__).parent


def _names(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    found: dict[str, ast.stmt] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
    return {name: node for name, node in found.items() if not name.startswith("_") and not name[0].isdigit()}


def _public(thing: object) -> set[str]:
    return {name for name in vars(thing) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("file", "module"), [("_opplab.pyi", _opplab), ("_opplab_kernel.pyi", _opplab.kernel)], ids=["module", "kernel"]
)
def test_the_stubs_are_whole(file: str, module: ModuleType) -> None:
    stub = _names(ast.parse((PACKAGE / file).read_text()).body)
    there = {name for name in _public(module) if not inspect.ismodule(getattr(module, name))}
    assert set(stub) >= there, there - set(stub)
    # A stub may have types of its own (TypedDict, aliases); what it says is a function or a class of the module is.
    for name in there:
        node, found = stub[name], getattr(module, name)
        if isinstance(node, ast.ClassDef):
            assert inspect.isclass(found), name
            missing = _public(found) - set(_names(node.body))
            assert not missing, f"{name}: {missing}"
            extra = {one for one, kind in _names(node.body).items() if isinstance(kind, ast.FunctionDef)} - set(
                dir(found)
            )
            assert not extra, f"{name}: the stub has {extra}"
        else:
            assert not inspect.isclass(found), name


def test_what_is_public_has_types() -> None:
    assert (PACKAGE / "py.typed").is_file()
    for name in opplab.__all__:
        found = getattr(opplab, name)
        functions = [found] if inspect.isfunction(found) else []
        if inspect.isclass(found):
            functions = [one for key, one in vars(found).items() if inspect.isfunction(one) and not key.startswith("_")]
        for function in functions:
            told = inspect.signature(function)
            assert told.return_annotation is not inspect.Signature.empty, f"{name}.{function.__name__}"
            for param in told.parameters.values():
                typed = param.annotation is not inspect.Parameter.empty or param.name in ("self", "cls")
                assert typed, f"{name}.{function.__name__}({param.name})"


def test_kernel_functions_are_an_attribute_of_the_package() -> None:
    code = "import opplab; assert 'kernel' in dir(opplab); print(opplab.kernel.map_util_perf(448))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "560\n"

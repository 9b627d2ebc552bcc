"""The arrows of the ground plan, read off every import statement.

1. ``widgets -> workbench <- kernels``: `gradwright` imports neither `gradwright_widgets` nor
   `gradwright_kernels`, and these two do not import each other. No exceptions: not inside
   functions, not under ``TYPE_CHECKING``, not through ``import_module("...")``.
2. Inside `gradwright`, a file imports only its own stage and stages to its left in `ORDER`. A stage
   is a module or a folder directly under ``workbench/gradwright``; files of one folder may import
   each other. ``gradwright/__init__.py`` is the public face: it stands right of all stages, so
   nothing inside imports it. An import inside a function counts as much as one at the top. Two
   kinds may point to the right: imports under ``if TYPE_CHECKING:``, which never run, and `DOORS`,
   methods such as ``Graph.save`` that import the later stage they hand over to when called.
3. Third-party libraries at the top of a file: the core ones anywhere, the others only where
   `THIRD_PARTY` says so; inside a function any optional library may be imported.
4. ``import gradwright`` loads numpy, ml_dtypes and our own core, and nothing else that is not in
   the standard library. Training, data and models load when their first name is asked for.
"""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import resolve_name
from pathlib import Path

import pytest

from gradwright.ops.namespaces import NAMESPACES

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "gradwright": ROOT / "workbench/gradwright",
    "gradwright_widgets": ROOT / "widgets/gradwright_widgets",
    "gradwright_kernels": ROOT / "kernels/gradwright_kernels",
}
ORDER = [
    *("errors", "shared", "words", "files", "spec", "op", "graph", "ops", "gradient", "init"),
    *("program", "rewrite", "fuse", "cpu", "plan", "session", "tracing", "debug", "formats"),
    *("data", "evaluation", "models", "train", "recording", "recipes", "testing"),
]
DOORS: dict[str, set[str]] = {}
"""Stage -> later stages that its methods may import when called."""
CORE = {"numpy", "ml_dtypes"}
THIRD_PARTY = {"train": {"tqdm"}}
"""Stage -> libraries that its files may import at the top, beside the core ones."""


@dataclass(frozen=True)
class Import:
    """One imported module: where, what, and whether it runs when the file is imported."""

    where: str
    module: str
    at_top: bool = True
    for_types: bool = False


def imports(source: str, where: str, package: str) -> Iterator[Import]:
    """Yield the imports of a file whose relative imports start from ``package``.

    >>> [i.module for i in imports("from ..graph import Tensor", "f.py", "gradwright.ops")]
    ['gradwright.graph.Tensor']
    """

    def visit(node: ast.AST, at_top: bool, for_types: bool) -> Iterator[Import]:
        line = f"{where}:{getattr(node, 'lineno', 0)}"
        match node:
            case ast.Import():
                modules = [alias.name for alias in node.names]
            case ast.ImportFrom():
                base = resolve_name("." * node.level + (node.module or ""), package)
                modules = [f"{base}.{alias.name}" for alias in node.names]
            case ast.Call(
                func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str() as name), *_],
            ):
                modules = [resolve_name(name, package)]
            case _:
                modules = []
        for module in modules:
            yield Import(line, module, at_top, for_types)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for child in node.body:
                yield from visit(child, at_top, True)
            for child in node.orelse:
                yield from visit(child, at_top, for_types)
            return
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, at_top and not inside, for_types)

    return visit(ast.parse(source), True, False)


def files(package: str) -> list[Path]:
    return sorted(PACKAGES[package].rglob("*.py"))


@functools.cache
def imports_of(path: Path, package: str) -> tuple[Import, ...]:
    parts = path.relative_to(PACKAGES[package]).parent.parts
    where = path.relative_to(ROOT).as_posix()
    return tuple(imports(path.read_text("utf-8"), where, ".".join([package, *parts])))


def stage(module: str) -> str:
    """Name the stage an absolute name inside `gradwright` belongs to; the face is ``__init__``."""
    parts = module.split(".")
    if len(parts) > 1 and parts[1] in NAMESPACES:  # modules that ``ops`` makes
        return "ops"
    return parts[1] if len(parts) > 1 and parts[1] in ORDER else "__init__"


def points_right(here: str, item: Import) -> bool:
    """Tell whether an import breaks the reading order for a file of stage ``here``."""
    if item.for_types or item.module.split(".")[0] != "gradwright" or here == "__init__":
        return False
    there = stage(item.module)
    if not item.at_top and there in DOORS.get(here, ()):
        return False
    return there == "__init__" or ORDER.index(there) > ORDER.index(here)


def stage_of(path: Path) -> str:
    return path.relative_to(PACKAGES["gradwright"]).with_suffix("").parts[0]


@pytest.mark.parametrize("package", PACKAGES)
def test_arrows_between_packages(package: str) -> None:
    foreign = set(PACKAGES) - {package, "gradwright"}
    wrong = [
        f"{item.where} imports {item.module}"
        for path in files(package)
        for item in imports_of(path, package)
        if item.module.split(".")[0] in foreign
    ]
    assert not wrong, "widgets -> workbench <- kernels is broken:\n" + "\n".join(wrong)


def test_every_file_has_a_stage() -> None:
    homeless = {stage_of(path) for path in files("gradwright")} - {*ORDER, "__init__"}
    assert not homeless, f"give {sorted(homeless)} a place in ORDER, the reading order"


def test_reading_order() -> None:
    wrong = [
        f"{item.where} imports {item.module}"
        for path in files("gradwright")
        for item in imports_of(path, "gradwright")
        if points_right(stage_of(path), item)
    ]
    assert not wrong, "a file imports only what stands to its left:\n" + "\n".join(wrong)


def test_every_door_is_used() -> None:
    used = {
        (stage_of(path), stage(item.module))
        for path in files("gradwright")
        for item in imports_of(path, "gradwright")
        if not item.at_top
    }
    assert {(here, there) for here, doors in DOORS.items() for there in doors} <= used


def test_third_party_at_the_top() -> None:
    wrong = [
        f"{item.where} imports {item.module}: move it into the function that needs it"
        for path in files("gradwright")
        for item in imports_of(path, "gradwright")
        if item.at_top
        and not item.for_types
        and (library := item.module.split(".")[0]) not in sys.stdlib_module_names
        and library not in {"gradwright", *CORE, *THIRD_PARTY.get(stage_of(path), ())}
    ]
    assert not wrong, "\n".join(wrong)


def test_import_loads_the_core_only() -> None:
    script = (
        "import sys; before = set(sys.modules); import gradwright;"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = {name.split(".")[0] for name in done.stdout.split()} - sys.stdlib_module_names
    assert loaded == {"gradwright", "numpy", "ml_dtypes"}
    stages = {stage(name) for name in done.stdout.split() if name.startswith("gradwright.")}
    assert not stages & {"tracing", "debug", "io", "data", "train", "models", "testing"}


@pytest.mark.parametrize(
    ("here", "line", "wrong"),
    [
        ("graph", "from ..ops import basic", True),
        ("ops", "from ..graph import Tensor", False),
        ("ops", "from . import basic", False),
        ("graph", "from .. import ops", True),
        ("graph", "import gradwright as gw", True),
        ("session", "def f():\n    from gradwright.train import Trainer", True),
        ("graph", "def f():\n    import_module('gradwright.train')", True),
        ("graph", "import importlib\nimportlib.import_module('..session', __package__)", True),
        ("op", "if TYPE_CHECKING:\n    from ..graph import Tensor", False),
        ("op", "if TYPE_CHECKING:\n    pass\nelse:\n    from ..graph import Tensor", True),
        ("graph", "from ..formats import save", True),
        ("graph", "def save(self):\n    from ..formats import save", True),
        ("session", "import plotly", False),
    ],
)
def test_the_rule_itself(here: str, line: str, wrong: bool) -> None:
    found = imports(line, "file.py", f"gradwright.{here}")
    assert any(points_right(here, item) for item in found) is wrong

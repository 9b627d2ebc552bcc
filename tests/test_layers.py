"""The rules of the house, read off every import statement and every folder.

1. ``widgets -> workbench <- kernels``: `gradwright` imports neither `gradwright_widgets` nor
   `gradwright_kernels`, and these two do not import each other. No exceptions: not inside
   functions, not under ``TYPE_CHECKING``, not through ``import_module("...")``.
2. Inside `gradwright`, a file imports only its own room and rooms to its left in `ORDER`. A room is
   a module or a folder directly under ``workbench/gradwright``. ``gradwright/__init__.py`` is the
   face: it stands right of all rooms, so nothing inside imports it. An import inside a function
   counts as much as one at the top; under ``if TYPE_CHECKING:`` only files of one room may point
   to each other. What methods of a graph hand over to is named in ``graph/doors.py``, and imported
   when they are called.
3. Files import each other in no circle but `CIRCLES`. An arrow is an import at the top of a file or
   inside a function, of a module or of a name of it; those for types are left out. (Before the
   house was rebuilt: one circle of 99 files and five small ones.)
4. Nobody imports `gradwright.cpu` but itself: plans, sessions and training know no device. Nor do
   they look at addresses, lay out memory, or compare the names of devices.
5. Third-party libraries at the top of a file: the core ones anywhere, the others only where
   `THIRD_PARTY` says so; inside a function any optional library may be imported.
6. ``import gradwright`` loads numpy, ml_dtypes and our own core, and nothing else that is not in
   the standard library. The CPU, training, data and models load when they are first asked for.
7. A file has at most `LINES` lines, a folder at most `ENTRIES` entries, the package's top 30.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
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
    *("data", "evaluation", "models", "adapters", "train", "recording", "recipes"),
    *("align", "testing"),
]
FACES = {"ops/stubs.py": "it describes the face", "train/__init__.py": "types of what stands above"}
"""Files that may point to the right, and why."""
CIRCLES = [
    "data.dataset data.prefetch data.row_stages data.stages",  # a data set makes stages of itself
    "train.schedules.base train.schedules.composed",  # schedules add and multiply to schedules
    "tracing.indexing tracing.lazy",  # lazy arrays are indexed by lazy arrays
]
"""Files that are one thought."""
NEUTRAL = ("plan", "session", "adapters", "train", "evaluation", "recording", "recipes", "align")
"""Rooms that know no device."""
LINES, ENTRIES = 400, 27
LONG = {
    "graph/graph.py": 500,  # one class: all that a graph can be told
    "graph/tensor.py": 410,  # one class: all that a tensor can be asked
    "op/op.py": 410,  # one class: all that an op can say
    "ops/core/movement.py": 410,
    "ops/draws/drawing.py": 430,  # a function a distribution, most of it documentation
    "ops/losses/cross_entropy.py": 425,
    "ops/losses/loss.py": 420,
    "ops/quantised/float8.py": 410,
    "session/session.py": 460,  # one class: all that a session can be told
    "spec/dims.py": 450,  # one algebra, and its reader
    "panels/tensor/panel.py": 460,  # one panel: all that a picture can be told
}
"""Files that may be longer, and how long."""
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

    calls = "import_module" in source  # else no expression imports, and most nodes are expressions

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
            if calls or not isinstance(child, ast.expr):
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
    if item.module.split(".")[0] != "gradwright" or here == "__init__":
        return False
    there = stage(item.module)
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
        if path.relative_to(PACKAGES["gradwright"]).as_posix() not in FACES
        for item in imports_of(path, "gradwright")
        if points_right(stage_of(path), item)
    ]
    assert not wrong, "a file imports only what stands to its left:\n" + "\n".join(wrong)


def circles(package: str) -> list[set[str]]:
    """Return the sets of files of a package that import each other in a circle (Tarjan 1972)."""
    files_of = {module_of(path, package): path for path in files(package)}
    arrows = {
        name: {
            there
            for item in imports_of(path, package)
            if not item.for_types
            and item.module.split(".")[0] == package
            and (there := _home(item.module, files_of)) not in (None, name)
        }
        for name, path in files_of.items()
    }
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    open_ones: list[str] = []
    found = []

    def visit(here: str) -> None:
        index[here] = low[here] = len(index)
        open_ones.append(here)
        for there in sorted(arrows[here]):
            if there not in index:
                visit(there)
                low[here] = min(low[here], low[there])
            elif there in open_ones:
                low[here] = min(low[here], index[there])
        if low[here] == index[here]:
            at = open_ones.index(here)
            found.append({*open_ones[at:]})
            del open_ones[at:]

    for name in arrows:
        if name not in index:
            visit(name)
    return [circle for circle in found if len(circle) > 1]


def module_of(path: Path, package: str) -> str:
    """Return the name of a file within its package; the package's own is empty."""
    parts = path.relative_to(PACKAGES[package]).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _home(module: str, files_of: Mapping[str, Path]) -> str | None:
    """Return the file that an imported name stands in."""
    _, _, name = module.partition(".")
    while name and name not in files_of:
        name = name.rpartition(".")[0]
    return name or None


@pytest.mark.parametrize("package", PACKAGES)
def test_no_circles(package: str) -> None:
    allowed = [set(circle.split()) for circle in CIRCLES]
    found = [circle for circle in circles(package) if circle not in allowed]
    assert not found, f"files that import each other: {sorted(map(sorted, found))}"


def test_nobody_imports_the_cpu() -> None:
    wrong = [
        f"{item.where} imports {item.module}"
        for path in files("gradwright")
        if stage_of(path) != "cpu"
        for item in imports_of(path, "gradwright")
        if f"{item.module}.".startswith("gradwright.cpu.")
    ]
    assert not wrong, "only a device knows what it is made of:\n" + "\n".join(wrong)


MACHINE = re.compile(
    r"\.ctypes\b|np\.ndarray\(|\bdevice(\.name)? *(==|!=|\bin\b)|isinstance\(.*Device"
)


def test_rooms_that_know_no_device() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{n}: {line.strip()}"
        for room in NEUTRAL
        for path in sorted((PACKAGES["gradwright"] / room).rglob("*.py"))
        for n, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if MACHINE.search(line)
    ]
    assert not wrong, "a device is asked, not looked at:\n" + "\n".join(wrong)


def test_files_and_folders_can_be_read() -> None:
    long = [
        f"{path.relative_to(ROOT)}: {n} lines"
        for package in PACKAGES
        for path in files(package)
        if (n := len(path.read_text("utf-8").splitlines()))
        > LONG.get(path.relative_to(PACKAGES[package]).as_posix(), LINES)
    ]
    folders = {path.parent for package in PACKAGES for path in files(package)}
    counts = {folder: len(_entries(folder)) for folder in sorted(folders)}
    wide = [
        f"{folder.relative_to(ROOT)}: {n} entries"
        for folder, n in counts.items()
        if n > (30 if folder in PACKAGES.values() else ENTRIES)
    ]
    assert not long + wide, "\n".join(["too much for one reading:", *long, *wide])


def _entries(folder: Path) -> list[Path]:
    """Return what is tracked of a folder: no stubs, and nothing that Python leaves behind."""
    return [
        p
        for p in folder.iterdir()
        if p.suffix == ".py" or p.name == "py.typed" or any(p.glob("*.py"))
    ]


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
        "import sys; before = set(sys.modules); import gradwright; core = set(sys.modules);"
        "print(*sorted(core - before)); import gradwright.align, gradwright.models;"
        "print(*sorted(set(sys.modules) - core))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    core, faces = map(str.split, done.stdout.splitlines())
    assert faces == ["gradwright.align", "gradwright.models"]
    loaded = {name.split(".")[0] for name in core} - sys.stdlib_module_names
    assert loaded == {"gradwright", "numpy", "ml_dtypes"}
    stages = {stage(name) for name in core if name.startswith("gradwright.")}
    later = ORDER[ORDER.index("tracing") :]
    assert not stages & {"cpu", *later}


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
        ("op", "if TYPE_CHECKING:\n    from ..graph import Tensor", True),
        ("op", "if TYPE_CHECKING:\n    pass\nelse:\n    from ..graph import Tensor", True),
        ("graph", "from ..formats import save", True),
        ("graph", "def save(self):\n    from ..formats import save", True),
        ("session", "import plotly", False),
    ],
)
def test_the_rule_itself(here: str, line: str, wrong: bool) -> None:
    found = imports(line, "file.py", f"gradwright.{here}")
    assert any(points_right(here, item) for item in found) is wrong

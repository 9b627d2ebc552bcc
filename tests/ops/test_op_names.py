"""Names of ops in strings: a fact of an op stands on the op, not in a table of names elsewhere.

What an op is called is written where another world is translated or a rule is registered (`ROOMS`),
in decorators, and where the registry is asked for it. Elsewhere code imports the class. Two things
are looked for: strings that can mean nothing but an op (they have an underscore or a digit), and
places where the name of some node's op is compared or looked up.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from gradwright.op import OPS
from gradwright.ops.loading import load

ROOT = Path(__file__).parents[2]
PACKAGES = "workbench/gradwright", "widgets/gradwright_widgets", "kernels/gradwright_kernels"
ROOMS = {
    "formats": "another world's names are translated",
    "tracing": "numpy's names are translated",
    "ops/reference": "SameDiff's and ONNX's names are translated",
    "ops/numerics/standard.py": "the Array API's names are translated",
    "words/spelling.py": "what people call ops elsewhere",
    "rewrite": "rules are registered by name",
    "fuse": "rules are registered by name",
    "cpu/lowerings": "lowerings are registered by name",
    "cpu/llvm": "what lowerings are made of",
    "fused": "functions of kernels, which bear the names of ops, as Triton has them",
    "rows/elements.py": "functions of terms, which bear the names of ops",
    "launch.py": "lowerings of gradients are registered by name",
}
"""Where names of ops belong."""
EXCEPTIONS = {
    "cpu/followed.py": "lowerings of others are registered by name",
    "cpu/untapped.py": "lowerings of others are registered by name",
    "graph/tensor.py": "Python's operators; the graph stands before its ops, and asks by name",
    "init": "distributions that bear the names of ops",
    "ops/arrays/matching.py": "conditions that bear the names of ops",
    "ops/attention": "a limit that bears the name of an op",
    "debug/stepping/breakpoints.py": "users say which ops to stop at",
    "train/optim": "an optimizer names the op that is its update",
    "drawing/words.py": "what cards call ops",
    "panels/graph/dot.py": "a label leaves out what a name says already",
    "bridge/failure.py": "a label leaves out what a name says already",
}
"""Where else they may be, and why."""
ASKED = "find_op", "WeightSite"
"""What takes the name of an op to find it, or a kind of layer."""


def names() -> dict[str, str]:
    """Return the names of our ops, and the files that define them."""
    load()
    ours = {name: op.__module__ for name, op in OPS.items()}
    return {name: module for name, module in ours.items() if module.startswith("gradwright.")}


def found(source: str, known: Mapping[str, str], module: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each name in a string, and of each use of the name of a node's op."""
    tree = ast.parse(source)
    skipped: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant() as documentation):
                skipped.add(id(documentation))
            case ast.Assign(targets=[ast.Name(id="element" | "__all__")]):
                skipped.update(map(id, ast.walk(node.value)))  # names of functions, of files
            case ast.Call(func=ast.Name(id=asked)) if asked in ASKED:
                skipped.update(map(id, node.args))
            case ast.FunctionDef() | ast.ClassDef():
                skipped.update(id(n) for d in node.decorator_list for n in ast.walk(d))
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        match node:
            case ast.Constant(value=str() as text) if _is_table(text, known, module):
                yield node.lineno, repr(text)
            case ast.Compare(ops=[ast.In() | ast.NotIn()]) if not _is_name_of_op(node.left):
                pass
            case ast.Compare() if any(map(_is_name_of_op, (node.left, *node.comparators))):
                yield node.lineno, ast.unparse(node)
            case ast.Subscript(slice=key) if _is_name_of_op(key):
                yield node.lineno, ast.unparse(node)
            case ast.Call(func=ast.Attribute(attr="get"), args=[key, *_]) if _is_name_of_op(key):
                yield node.lineno, ast.unparse(node)


def _is_table(text: str, known: Mapping[str, str], module: str) -> bool:
    """Tell whether a text is names of ops of other families, one of which means nothing else."""
    given, family = text.split(), module.rpartition(".")[0]
    elsewhere = [n for n in given if known.get(n, "").rpartition(".")[0] != family]
    sure = any("_" in n or any(map(str.isdigit, n)) for n in elsewhere)
    return sure and known.keys() >= set(given)


def _is_name_of_op(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr="name", value=ast.Name(id="op") | ast.Attribute(attr="op")):
            return True
    return False


WORDS = re.compile(r"""(?<=["'{}])[\w\s\\]*(?=["'{}])""")
"""Words between quotes, whichever belong together: more than the strings of a file."""


def worth_parsing(source: str, known: Mapping[str, str]) -> bool:
    """Tell whether ``found`` may find something: of 1,300 files 160, and parsing is its cost."""
    return "op.name" in source or any(
        _is_table(text.replace("\\", " "), known, "") for text in WORDS.findall(source)
    )


@functools.cache
def everywhere() -> list[tuple[str, str]]:
    """Return each file beyond `ROOMS` that has names of ops, and each place in it."""
    known, out = names(), []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            here = path.relative_to(ROOT / package).as_posix()
            source = path.read_text("utf-8")
            if is_in(here, ROOMS) or not worth_parsing(source, known):
                continue
            module = f"gradwright.{here.removesuffix('.py').replace('/', '.')}"
            uses = found(source, known, module)
            out += [(here, f"{package}/{here}:{line}: {text}") for line, text in uses]
    return out


def is_in(here: str, rooms: Iterable[str]) -> bool:
    return any(here == room or here.startswith(f"{room}/") for room in rooms)


def test_names_of_ops_stand_where_worlds_are_translated_or_rules_registered() -> None:
    assert not [place for here, place in everywhere() if not is_in(here, EXCEPTIONS)]


@pytest.mark.parametrize("exception", EXCEPTIONS)
def test_every_exception_is_used(exception: str) -> None:
    assert any(is_in(here, [exception]) for here, _ in everywhere())


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ('LOW = "layer_norm dropout"', True),
        ('LOW = {"layer_norm": 1}', True),
        ('if node.op.name in ("cond", "scan"): ...', True),
        ("rule = TABLE.get(op.name)", True),
        ('need = "layer_norm needs a matrix"', False),
        ('reduction = "sum"', False),
        ('op = find_op("layer_norm")', False),
        ('@rule("layer_norm")\ndef build(op): ...', False),
        ('if "/" in op.name: ...', False),
    ],
)
def test_the_rule_itself(line: str, wrong: bool) -> None:
    assert bool([*found(line, names(), "gradwright.plan.plan")]) is wrong
    assert worth_parsing(line, names()) or not wrong

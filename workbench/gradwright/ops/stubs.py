"""Writes what type checkers and editors read of the ops: ``python -m gradwright.ops.stubs``.

Functions and Tensor methods are derived from op classes in a running Python, which type checkers
never see. So their signatures are committed as stubs: one file per namespace in ``signatures/``,
and ``graph/methods.pyi``. Beside them stands ``catalogue/names.py``, which tells what to load for a
name. With ``--check`` nothing is written, and the exit code says whether all files are as they
should be.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..calling import function
from ..op import OPS
from . import namespace

PACKAGE = Path(__file__).parent.parent
NAMESPACES = (
    *("base", "math", "linalg", "bitwise", "random"),
    *("nn", "cnn", "rnn", "loss", "image", "audio", "signal"),
    *("training", "quant", "sequence", "strings"),
)
WIDTH = 100
IMPORTS: tuple[dict[str, list[str]], ...] = (
    {"collections.abc": ["Sequence"], "typing": ["Any"]},
    {"numpy.typing": ["ArrayLike", "DTypeLike"]},
    {"gradwright.graph": ["Tensor"], "gradwright.spec": ["AnyDim"]},
)
GIVEN = {
    r"\bAxis\b": "int | tuple[int, ...] | None",
    r"\bItem\b": "Any",
    r"np\.dtype\[Any\]": "DTypeLike",
    r"\btuple\[(\w+|tuple\[int, int\]), \.\.\.\]": r"Sequence[\1]",
}
"""What may be given for an attribute, where it is more than the attribute's own type."""


def stubs() -> dict[Path, str]:
    """Return the text of every stub file."""
    found = {}
    for name in NAMESPACES:
        functions = namespace(name)
        if name != "base":  # what a module writes out itself has its signature there
            own = vars(import_module(f"gradwright.{name}"))
            functions = {k: f for k, f in functions.items() if k not in own}
        path = PACKAGE / f"ops/signatures/{name}.pyi"
        body = [_stub(k, f) for k, f in sorted(functions.items())]
        found[path] = _file(f"Functions of the namespace {name}", body)
    methods = sorted(
        _stub(cls.name, function(cls), method=True)
        for cls in OPS.values()
        if cls.is_method and cls.__module__.startswith("gradwright.")
    )
    body = ["class TensorMethods:\n" + textwrap.indent("\n".join(methods), "    ")]
    found[PACKAGE / "graph/methods.pyi"] = _file("Methods of Tensor that are ops", body)
    found[PACKAGE / "catalogue/names.py"] = _names()
    return found


def _names() -> str:
    """Return the table from which names are loaded: the ops of each family of the catalogue."""
    families: dict[str, list[str]] = {}
    for cls in OPS.values():
        package, _, family = cls.__module__.partition(".catalogue.")
        if package == "gradwright":
            families.setdefault(family.partition(".")[0], []).append(cls.name)
    lines = ['"""The ops of each family; written by python -m gradwright.ops.stubs."""', ""]
    lines.append("NAMES = {")
    for family, names in sorted(families.items()):
        room = " " * 8
        text = textwrap.fill(
            " ".join(sorted(names)),
            WIDTH,
            initial_indent=room,
            subsequent_indent=room,
            break_on_hyphens=False,
        )
        lines += [f'    "{family}": """', text, '    """,']
    return "\n".join([*lines, "}", ""])


def _file(title: str, parts: Iterable[str]) -> str:
    """Return a stub file with what it needs to import."""
    body = "\n".join(parts)
    code = re.sub(r'""".*?"""', "", body, flags=re.DOTALL)
    groups = []
    for group in IMPORTS:
        used = {m: [n for n in names if re.search(rf"\b{n}\b", code)] for m, names in group.items()}
        lines = [f"from {m} import {', '.join(names)}" for m, names in used.items() if names]
        groups += ["\n".join(lines)] if lines else []
    head = f'"""{title}; written by python -m gradwright.ops.stubs."""'
    return "\n\n".join([head, *groups, body]) if body else head + "\n"


def _stub(name: str, call: Callable[..., Any], *, method: bool = False) -> str:
    """Return one function with its documentation."""
    parameters = list(inspect.signature(call).parameters.values())
    parts: list[str] = []
    for i, p in enumerate(parameters):
        if p.kind is p.KEYWORD_ONLY and not any(part.startswith("*") for part in parts):
            parts.append("*")
        parts.append("self" if method and i == 0 else _parameter(p))
    head, tail = f"def {name}(", f") -> {inspect.signature(call).return_annotation}:"
    line = head + ", ".join(parts) + tail
    room = WIDTH - 4 * method
    if len(line) > room:
        inner = "    " + ", ".join(parts)
        lines = [inner] if len(inner) <= room else [f"    {part}," for part in parts]
        line = "\n".join([head, *lines, tail])
    doc = inspect.cleandoc(call.__doc__ or "")
    text = f'"""{doc}"""' if "\n" not in doc else f'"""{doc}\n"""'
    return line + "\n" + textwrap.indent(text, "    ") + "\n"


def _parameter(p: inspect.Parameter) -> str:
    """Return a parameter with what may be given for it."""
    kind = p.annotation
    for pattern, wider in GIVEN.items():
        kind = re.sub(pattern, wider, kind)
    kind = kind.replace("Tensor", "Tensor | ArrayLike")
    if p.kind is p.VAR_POSITIONAL:  # several tensors, or one sequence of them
        return f"*{p.name}: Tensor | ArrayLike | Sequence[Tensor]"
    if p.default is p.empty:
        return f"{p.name}: {kind}"
    value = p.default
    text = f'"{value.name}"' if isinstance(value, np.dtype) else repr(value).replace("'", '"')
    optional = " | None" if value is None and "None" not in kind else ""
    return f"{p.name}: {kind}{optional} = {text}"


def main(arguments: list[str]) -> int:
    """Write the stubs, or with ``--check`` tell which are not as they should be."""
    stale = {
        path: text
        for path, text in stubs().items()
        if not path.exists() or path.read_text("utf-8") != text
    }
    for path, text in stale.items():
        if "--check" not in arguments:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
        sys.stdout.write(f"{path.relative_to(PACKAGE)}\n")
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

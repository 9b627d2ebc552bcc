"""Writes what type checkers and editors read: ``python -m gradwright.ops.stubs``.

Functions, namespaces, Tensor methods and the package's face are derived in a running Python, which
type checkers never see. So their signatures are written as stubs, ``nn.pyi`` and the like, from the
description of all ops (`gw.ops.descriptors`), which is written beside them, as is the index that
tells which file defines an op. All are made by the build and by ``make``, and travel in wheels;
none is tracked. With ``--check`` nothing is written, and the exit code says whether all files are
as they should be.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import gradwright

from . import loading
from .namespaces import NAMESPACES
from .reference.description import FILE, descriptors, written

PACKAGE = Path(__file__).parent.parent
WIDTH = 100
IMPORTS: tuple[dict[str, list[str]], ...] = (
    {"collections.abc": ["Callable", "Sequence"], "typing": ["Any"]},
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


Function = Mapping[str, Any]
"""A function as the description tells it."""


def stubs() -> dict[Path, str]:
    """Return the text of every stub file."""
    description = descriptors()
    of: dict[str, list[Function]] = {space: [] for space in ("base", *NAMESPACES)}
    for function in description["functions"]:
        of[function["namespace"]].append(function)
    found = {loading.INDEX: loading.written(), FILE: written(description)}
    found[PACKAGE / "__init__.pyi"] = _face(of)
    for name, functions in of.items():
        path = PACKAGE / ("ops" if name == "base" else "") / f"{name}.pyi"
        found[path] = _file(f"Functions of the namespace {name}", map(_stub, functions))
    methods = sorted(_stub(f, method=True) for f in description["functions"] if f["method"])
    body = ["class TensorMethods:\n" + textwrap.indent("\n".join(methods), "    ")]
    found[PACKAGE / "graph/methods.pyi"] = _file("Methods of Tensor that are ops", body)
    return found


def _face(of: Mapping[str, Iterable[Function]]) -> str:
    """Return the face of the package as imports, which is what it does when it is asked."""
    face = vars(gradwright)
    homes = {**face["CORE"], **face["LATER"]}
    taken = {name for names in homes.values() for name in names.split()}
    lines = ['"""Written by python -m gradwright.ops.stubs from the tables of the face."""', ""]
    for name, module in {
        **face["MODULES"],
        **{r: r for r in (*face["ROOMS"], *NAMESPACES)},
    }.items():
        room, _, module = module.rpartition(".")
        lines.append(f"from .{room} import {module} as {name}")
    for home, names in homes.items():
        lines += [f"from .{home} import {name} as {name}" for name in names.split()]
    for name in face["TOP"]:
        home = "ops.base" if name == "base" else name
        stated = sorted({function["name"] for function in of[name]} - taken)
        lines += [f"from .{home} import {f} as {f}" for f in stated]
    return "\n".join([*lines, "", "__version__: str", ""])


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


def _stub(function: Function, *, method: bool = False) -> str:
    """Return one function with its documentation."""
    parts: list[str] = []
    for i, p in enumerate(function["parameters"]):
        if p["keyword"] and not any(part.startswith("*") for part in parts):
            parts.append("*")
        parts.append("self" if method and i == 0 else _parameter(p))
    head, tail = f"def {function['name']}(", f") -> {function['returns']}:"
    line = head + ", ".join(parts) + tail
    room = WIDTH - 4 * method
    if len(line) > room:
        inner = "    " + ", ".join(parts)
        lines = [inner] if len(inner) <= room else [f"    {part}," for part in parts]
        line = "\n".join([head, *lines, tail])
    doc = function["doc"]
    quotes = 'r"""' if "\\" in doc else '"""'
    text = f'{quotes}{doc}"""' if "\n" not in doc else f'{quotes}{doc}\n"""'
    return line + "\n" + textwrap.indent(text, "    ") + "\n"


def _parameter(p: Mapping[str, Any]) -> str:
    """Return a parameter with what may be given for it."""
    kind = p["type"]
    for pattern, wider in GIVEN.items():
        kind = re.sub(pattern, wider, kind)
    kind = kind.replace("Tensor", "Tensor | ArrayLike")
    if p["variadic"]:  # several tensors, or one sequence of them
        return f"*{p['name']}: Tensor | ArrayLike | Sequence[Tensor]"
    if "default" not in p:
        return f"{p['name']}: {kind}"
    optional = " | None" if p["default"] == "None" and "None" not in kind else ""
    return f"{p['name']}: {kind}{optional} = {p['default']}"


def main(arguments: list[str]) -> int:
    """Write the stubs, or with ``--check`` tell which are not as they should be."""
    stale = {
        path: text
        for path, text in stubs().items()
        if not path.exists() or path.read_text("utf-8") != text
    }
    for path, text in stale.items():
        if "--check" not in arguments:
            path.write_text(text, "utf-8")
        sys.stdout.write(f"{path.relative_to(PACKAGE)}\n")
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

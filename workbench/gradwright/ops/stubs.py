"""Writes what type checkers and editors read: ``python -m gradwright.ops.stubs``.

Functions, namespaces, Tensor methods and the package's face are derived in a running Python, which
type checkers never see. So their signatures are written as stubs, ``nn.pyi`` and the like, and with
them the index that tells which file defines an op. All are made by the build and by ``make``, and
travel in wheels; none is tracked. With ``--check`` nothing is written, and the exit code says
whether all files are as they should be.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import gradwright

from ..op import OPS
from ..op.calling import function
from .loading import INDEX, written
from .namespaces import NAMESPACES, members

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


def stubs() -> dict[Path, str]:
    """Return the text of every stub file."""
    found = {INDEX: written(), PACKAGE / "__init__.pyi": _face()}
    for name in ("base", *NAMESPACES):
        path = PACKAGE / ("ops" if name == "base" else "") / f"{name}.pyi"
        body = [_stub(k, f) for k, f in sorted(members(name).items())]
        found[path] = _file(f"Functions of the namespace {name}", body)
    methods = sorted(
        _stub(cls.name, function(cls), method=True)
        for cls in OPS.values()
        if cls.is_method and cls.__module__.startswith("gradwright.")
    )
    body = ["class TensorMethods:\n" + textwrap.indent("\n".join(methods), "    ")]
    found[PACKAGE / "graph/methods.pyi"] = _file("Methods of Tensor that are ops", body)
    return found


def _face() -> str:
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
        lines += [f"from .{home} import {f} as {f}" for f in sorted({*members(name)} - taken)]
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
            path.write_text(text, "utf-8")
        sys.stdout.write(f"{path.relative_to(PACKAGE)}\n")
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

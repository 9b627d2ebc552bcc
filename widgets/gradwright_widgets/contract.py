"""What Python and TypeScript agree on: traits and kinds of messages, written for ``tsc``.

``python -m gradwright_widgets.contract`` writes ``widgets/frontend/src/core/contract.d.ts`` anew.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import traitlets

import gradwright_widgets

from .host.base import ANYWIDGET
from .host.host import Host

PATH = Path(__file__).parents[1] / "frontend/src/core/contract.d.ts"
_TYPES = {traitlets.Unicode: "string", traitlets.Bool: "boolean", traitlets.Int: "number",
          traitlets.Float: "number", traitlets.Dict: "object"}  # fmt: skip
_HEAD = """\
// Traits and messages, as Python has them: written by `python -m gradwright_widgets.contract`.
"""


def contract() -> str:
    """Return the declarations of all traits, requests and messages."""
    hosts = [found for name in gradwright_widgets.__all__ if is_host(found := named(name))]
    traits: dict[str, str] = {}
    for host in hosts:
        for name, trait in host.class_traits(sync=True).items():
            if name not in ANYWIDGET:
                traits[name] = type_of(trait)
    parts = {part for host in hosts for part in (host.desk_type, *host.panels)}
    requests = {f"{part.name}.{verb}" for part in parts for verb in part.verbs()}
    told = {kind for part in parts for kind in kinds_told(part)}
    fields = "".join(f"  {name}: {traits[name]};\n" for name in sorted(traits))
    return (
        f"{_HEAD}\n/** Traits of the widgets. */\nexport interface Traits {{\n{fields}}}\n\n"
        f"/** What a page asks for. */\nexport type Request ={union(requests)}\n\n"
        f"/** What the kernel tells a page. */\nexport type Told ={union(told)}\n"
    )


def named(name: str) -> Any:
    """Return a widget by its name."""
    return getattr(gradwright_widgets, name)


def is_host(found: Any) -> bool:
    """Tell whether a widget is made of panels."""
    return inspect.isclass(found) and issubclass(found, Host)


def type_of(trait: traitlets.TraitType[Any, Any]) -> str:
    """Return the type of a trait in TypeScript.

    >>> type_of(traitlets.List(traitlets.Unicode())), type_of(traitlets.Enum(["a", "b"]))
    ('string[]', '"a" | "b"')
    """
    if isinstance(trait, traitlets.Enum):
        found = " | ".join(json.dumps(value) for value in trait.values or ())
    elif isinstance(trait, traitlets.List):
        inner = type_of(trait._trait)
        found = f"({inner})[]" if " " in inner and "<" not in inner else f"{inner}[]"
    else:
        found = next(word for kind, word in _TYPES.items() if isinstance(trait, kind))
    return f"{found} | null" if trait.allow_none else found


def union(kinds: Iterable[str]) -> str:
    """Return a union of texts, one on each line."""
    return "".join(f'\n  | "{kind}"' for kind in sorted(kinds)) + ";"


def kinds_told(part: type[Any]) -> Iterator[str]:
    """Yield the kinds of messages that are written in the folder of a panel."""
    folder = Path(inspect.getfile(part)).parent
    for path in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Dict):
                yield from _kinds_in(node)


def _kinds_in(node: ast.Dict) -> Iterator[str]:
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == "kind":
            for found in ast.walk(value):
                if isinstance(found, ast.Constant) and isinstance(found.value, str):
                    yield found.value


if __name__ == "__main__":
    PATH.write_text(contract(), "utf-8")

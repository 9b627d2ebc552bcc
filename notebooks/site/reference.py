"""Writes the reference: the public face a page a room, and the ops a page a family.

Signatures and texts are read off the objects themselves, under the names that users write
(``gw.nn.softmax``), which no module has: ``autodoc`` would call them by where they are defined.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import docstrings

import gradwright as gw
import gradwright_widgets
from gradwright import errors
from gradwright.graph.methods import TensorMethods
from gradwright.ops.reference.kinds import shown_types

FAMILIES = {
    "core": "The core: arrays and arithmetic",
    "arithmetic": "Functions of elements, distances, bits",
    "arrays": "Segments, partitions, sparse writes",
    "layers": "Activations, norms, blocks",
    "attention": "Attention, positions, caches, sampling",
    "adapters": "Adapters",
    "experts": "Mixtures of experts",
    "convolutions": "Convolutions and poolings",
    "recurrent": "Recurrent layers, state-space models",
    "losses": "Losses",
    "matrices": "Linear algebra",
    "images": "Images",
    "signals": "Sound and signals",
    "draws": "Random numbers",
    "quantised": "Quantised and scaled numbers",
    "sequences": "Sequences and optionals",
    "texts": "Text",
    "updates": "Updates of parameters",
    "control": "Control flow",
}
"""Folder of ops -> title of its page; one that is new here is called by its folder."""
ROOMS = {
    "graph": "Graphs and tensors",
    "gradient": "Gradients",
    "session": "Running",
    "debug": "Stepping and checking",
    "train": "Training",
    "recording": "Runs",
    "recipes": "Recipes",
    "models": "Models",
    "formats": "Files",
    "evaluation": "Evaluation",
    "tracing": "numpy code as a graph",
    "rewrite": "Recognition",
    "op": "Ops of one's own",
    "ops": "Functions as ops",
    "spec": "Sizes and dtypes",
    "program": "Lowerings",
}
"""Room -> title of its chapter, in the order of the reference."""
WIDGETS = """\
Every widget has ``to_html(path)``, a page that shows it without a kernel and a network;
``to_svg()`` and ``to_table()``, a still picture and a table; ``static()``, both for readers without
JavaScript; and ``close()``."""


def write(source: Path) -> None:
    """Write the reference and the catalogue of ops below ``source``."""
    _write_ops(source / "ops")
    _write_names_of_samediff(source / "coming_from")
    _write_face(source / "reference")


# -- ops -----------------------------------------------------------------------------------------


def _write_ops(folder: Path) -> None:
    families: dict[str, list[Any]] = {name: [] for name in FAMILIES}
    for entry in gw.ops.table():
        families.setdefault(entry.op.__module__.split(".")[2], []).append(entry)
    for family, entries in families.items():
        spaces = sorted({e.op.namespace for e in entries})
        parts = []
        for space in spaces:
            if len(spaces) > 1:
                parts.append(heading("gw" if space == "base" else f"gw.{space}", "-"))
            found = (e for e in entries if e.op.namespace == space)
            parts += [op_entry(e) for e in sorted(found, key=lambda e: e.name)]
        package = importlib.import_module(f"gradwright.ops.{family}")
        intro = docstrings.as_rst(package.__doc__)
        save(folder / f"{family}.rst", FAMILIES.get(family, family), intro, parts)
    ops = gw.ops.table()
    rows = [
        f"   * - :py:func:`{e.call}`\n     - {docstrings.plain(e.summary)}\n"
        f"     - {', '.join(e.samediff)}\n     - {e.onnx}"
        for e in sorted(ops, key=lambda e: e.call)
    ]
    table = (
        ".. list-table::\n   :class: site-filtered\n   :header-rows: 1\n   :widths: 32 38 20 10\n\n"
        "   * - op\n     - what it is\n     - SameDiff\n     - ONNX\n" + "\n".join(rows)
    )
    columns = f".. container:: site-columns\n\n{textwrap.indent(tree(families), '   ')}"
    field = (
        '.. raw:: html\n\n   <p><input id="site-filter" type="search" aria-label="Filter ops" '
        'placeholder="a name, ours or SameDiff\'s or ONNX\'s, or words"><span id="site-count" '
        'role="status"></span></p>'
    )
    intro = (
        f"All {len(ops)} ops, each with its formula, its attributes and an example that the tests "
        "run. In Python ``gw.ops.find`` knows them by any of their names, ``gw.ops.search`` by "
        "words, and ``OpReference`` of ``gradwright_widgets`` runs each example where you read it."
    )
    save(folder / "index.rst", "Ops", intro, [columns, field, table])


def _write_names_of_samediff(folder: Path) -> None:
    spaces: dict[str, list[tuple[str, Any]]] = {}
    for entry in gw.ops.table():
        for name in entry.samediff:
            spaces.setdefault(name.partition(".")[0], []).append((name, entry))
    parts = []
    for space in sorted(spaces, key=lambda space: (space != "base", space)):
        rows = [
            f"   * - ``sd.{name.removeprefix('base.')}``\n     - :py:func:`{e.call}`\n"
            f"     - {docstrings.plain(e.summary)}"
            for name, e in sorted(spaces[space], key=lambda row: row[0])
        ]
        table = ".. list-table::\n   :widths: 34 30 36\n\n" + "\n".join(rows)
        parts += [heading("sd" if space == "base" else f"sd.{space}", "-"), table]
    intro = "Each op of SameDiff beside the same here."
    save(folder / "samediff_ops.rst", "SameDiff's ops", intro, parts)


def op_entry(entry: Any) -> str:
    """Return the description of one op."""
    told = []
    for attribute in entry.descriptor["attributes"]:
        text = f"{attribute['doc']} ({shown_types(attribute['types'])})"
        told.append(f":param {attribute['name']}: {docstrings.plain(text)}")
    doc = entry.doc.partition("\nAttributes:")[0]
    also = [f"ONNX {entry.onnx}"] if entry.onnx else []
    also += [f"SameDiff {', '.join(entry.samediff)}"] if entry.samediff else []
    also.append(entry.kind)
    body = [docstrings.as_rst(doc), "\n".join(told)]
    body.append(f".. rst-class:: site-also\n\n{docstrings.plain('; '.join(also))}")
    return described("function", entry.signature, "\n\n".join(part for part in body if part))


# -- the face ------------------------------------------------------------------------------------


def _write_face(folder: Path) -> None:
    rooms: dict[str, list[str]] = {room: [] for room in ROOMS}
    ops = {e.call for e in gw.ops.table()}
    for home, names in (gw.CORE | gw.LATER).items():
        own = [name for name in names.split() if f"gw.{name}" not in ops]
        rooms.setdefault(home.split(".")[0], []).extend(own)
    chapters = [(room, ROOMS.get(room, room), None, "gw", names) for room, names in rooms.items()]
    for name in gw.MODULES:
        module = getattr(gw, name)
        own = [n for n in offered(module) if not stands_elsewhere(module, n)]
        chapters.append((f"gw_{name}", f"gw.{name}", module, f"gw.{name}", own))
    own = [n for n in vars(errors) if defined_in(getattr(errors, n)) == errors.__name__]
    chapters.append(("gw_errors", "gw.errors", errors, "gw.errors", own))
    widgets = gradwright_widgets
    chapters.append(("widgets", widgets.__name__, widgets, widgets.__name__, widgets.__all__))
    chapters = [chapter for chapter in chapters if chapter[-1]]
    for page, title, module, prefix, names in chapters:
        intro = docstrings.as_rst(module.__doc__) if module else ""
        if module is gradwright_widgets:
            intro += f"\n\n{WIDGETS}"
        parts = [
            entry(f"{prefix}.{name}", getattr(module or gw, name))
            for name in sorted(names, key=str.lower)
        ]
        save(folder / f"{page}.rst", title, intro, parts)
    intro = (
        "All that is public, from its documentation. Each example is run by the tests. "
        "``import gradwright as gw`` is understood."
    )
    save(folder / "index.rst", "Reference", intro, [tree(page for page, *_ in chapters)])


def offered(module: Any) -> list[str]:
    """Return the names that a module offers."""
    names = getattr(module, "__all__", None)
    if names is None:
        names = [n for n, o in vars(module).items() if defined_in(o) == module.__name__]
    return [name for name in names if not name.startswith("_")]


def stands_elsewhere(module: Any, name: str) -> bool:
    """Tell whether a name is described elsewhere: at the top of ``gw``, or as a module."""
    value = getattr(module, name)
    return inspect.ismodule(value) or (module is not gw.ops and getattr(gw, name, None) is value)


def defined_in(value: Any) -> str:
    """Return the name of the module that defines a function or class, "" of other values."""
    return value.__module__ if isinstance(value, type) or inspect.isroutine(value) else ""


def entry(name: str, value: Any) -> str:
    """Return the description of a public class, function or value."""
    if not isinstance(value, type) and not inspect.isroutine(value):
        ours = type(value).__module__.startswith("gradwright")
        return described("data", name, docstrings.as_rst(type(value).__doc__) if ours else "")
    head, doc = name + signature(value), docstrings.as_rst(value.__doc__)
    if not isinstance(value, type):
        return described("function", head, doc)
    kind = "exception" if issubclass(value, BaseException) else "class"
    return described(kind, head, "\n\n".join([doc, *(member(*own) for own in members(value))]))


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the methods and properties that a class documents, with those of its inner bases.

    Left out are bases that have an entry of their own, and methods of tensors that are ops.
    """
    known = {TensorMethods, *public_classes()}
    told: set[str] = set()
    for base in cls.__mro__:
        inner = base.__module__.startswith("gradwright.") and base not in known
        for name, value in vars(base).items() if base is cls or inner else ():
            plain = getattr(value, "__func__", value)
            documented = not name.startswith("_") and name not in told and plain.__doc__
            if documented and (inspect.isfunction(plain) or isinstance(value, property)):
                told.add(name)
                yield name, value


@functools.cache
def public_classes() -> frozenset[type]:
    """Return the classes at the top of ``gw``."""
    names = " ".join((gw.CORE | gw.LATER).values()).split()
    return frozenset(c for name in names if isinstance(c := getattr(gw, name), type))


def member(name: str, value: Any) -> str:
    """Return the description of a method or property."""
    if isinstance(value, property):
        return described("property", name, docstrings.as_rst(value.__doc__))
    kind = {classmethod: "classmethod", staticmethod: "staticmethod"}.get(type(value), "method")
    plain = getattr(value, "__func__", value)
    head = name + signature(plain, skip=0 if kind == "staticmethod" else 1)
    return described(kind, head, docstrings.as_rst(plain.__doc__))


def signature(value: Any, skip: int = 0) -> str:
    """Return names and defaults of the parameters; their types are in the stubs."""
    try:
        found = list(inspect.signature(value).parameters.values())[skip:]
    except (TypeError, ValueError):
        return "()"
    shown = [p.replace(annotation=p.empty) for p in found if not p.name.startswith("_")]
    plain = [
        p.replace(default=...) if p.default is not p.empty and "<" in repr(p.default) else p
        for p in shown
    ]
    return str(inspect.Signature(plain)).replace("Ellipsis", "...")


# -- reStructuredText ----------------------------------------------------------------------------


def described(kind: str, signature: str, body: str) -> str:
    """Return a description of a Python object."""
    return f".. py:{kind}:: {signature}\n\n{textwrap.indent(body, '   ')}\n"


def heading(text: str, line: str) -> str:
    """Return a heading."""
    return f"{text}\n{line * len(text)}"


def tree(names: Iterable[Any]) -> str:
    """Return the tree of pages below this one."""
    return ".. toctree::\n   :maxdepth: 1\n\n" + "\n".join(f"   {name}" for name in names)


def save(path: Path, title: str, intro: str, parts: Iterable[str]) -> Path:
    """Write a page and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join([heading(title, "="), intro, *parts])
    path.write_text(text + "\n", "utf-8")
    return path

"""Ops found by a name, in whatever world it is one, or by words."""

from __future__ import annotations

import functools

from ...errors import GraphError, UnsupportedOpError
from ...op import OPS
from ...op.calling import called
from ...op.registry import registry_revision
from ...words.spelling import elsewhere
from ..loading import load
from .entries import Entries, Entry, table
from .onnx import NONE, PARTS
from .samediff import SAMEDIFF
from .search import Index, Page, words_of


def find(name: str) -> Entry:
    """Return an op by any name it goes by: ours, SameDiff's, or ONNX's.

    A namespace or a domain may stand before it: ``gw.nn.gelu`` is ours, ``nn.gelu`` and
    ``math.max`` are SameDiff's, if it has that name, ``ai.onnx.ml.Scaler`` and
    ``com.microsoft.FastGelu`` are ONNX's. An operator that is several ops here gives the most
    telling one. Raises UnsupportedOpError for a name that is none, and for an operator that no op
    computes, with the reason.

    >>> import gradwright as gw
    >>> gw.ops.find("maxPooling2d").call, gw.ops.find("math.max").call, gw.ops.find("MatMul").call
    ('gw.cnn.max_pool2d', 'gw.maximum', 'gw.matmul')
    >>> gw.ops.find("ReduceLogSum").call, gw.ops.find("ai.onnx.ml.Imputer").call
    ('gw.sum', 'gw.where')
    """
    load()
    if not isinstance(name, str):
        raise UnsupportedOpError(f"no op goes by the name {name!r}", need="text")
    if name in OPS:
        return Entry(OPS[name])
    space, _, short = name.removeprefix("gw.").replace(":", ".").rpartition(".")
    ours = [short] if short in OPS and space in ("", OPS[short].namespace) else []
    theirs = [t[short] for s, t in SAMEDIFF.items() if short in t and space in ("", s)]
    theirs += _operators(space, short)
    for found in theirs + ours if space and not name.startswith("gw.") else ours + theirs:
        if found in OPS:
            return Entry(OPS[found])
    for known, reason in NONE.items():
        if _is_named(known, space, short):
            raise UnsupportedOpError(f"no op is ONNX's {known}", hint=reason)
    close = called(short)
    hint = f"did you mean {close}?" if close else "gw.ops.search('...') looks in names and texts"
    raise UnsupportedOpError(f"no op goes by the name {name!r}", hint=hint)


def _operators(domain: str, short: str) -> list[str]:
    """Return our ops that are, or are part of, an operator of ONNX, the plainest first."""
    whole = [
        cls.name
        for cls in list(OPS.values())
        if cls.onnx
        and cls.onnx.op_type == short
        and (not domain or domain == (cls.onnx.domain or "ai.onnx"))
    ]
    # Several ops may be one operator there: its namesake, the one for images, the one that writes.
    found = [n for n in whole if n == short.lower() or n.endswith(("2d", "_update"))] + whole
    for known, ours in PARTS.items():
        found += ours if _is_named(known, domain, short) else ()
    return found


def _is_named(known: str, domain: str, short: str) -> bool:
    """Tell whether a name, its domain left out or not, is that of a known operator."""
    owner, _, name = known.rpartition(".")
    return name == short and domain in ("", owner or "ai.onnx")


def search(text: str, *, namespace: str = "", most: int = 20) -> Entries:
    """Return the ops that some words are about, the likeliest first, at most ``most`` of them.

    Words are looked for in names, ours, SameDiff's, ONNX's and those of torch, Keras and numpy, and
    in documentation; not all have to occur, and they may be misspelt. What is no op, but has a
    place here, is noted below the table.

    >>> import gradwright as gw
    >>> [entry.call for entry in gw.ops.search("tpo k", most=1)]
    ['gw.top_k']
    >>> found = gw.ops.search("layer norm backward")
    >>> found[0].call, found.notes
    ('gw.nn.layer_norm', ('backward: gw.gradients',))
    """
    for argument, words in {"text": text, "namespace": namespace}.items():
        if not isinstance(words, str):
            raise GraphError(f"{argument}={words!r} is no text")
    if type(most) is not int or most < 0:
        raise GraphError(f"most={most!r} is no number of ops", need="0 or more")
    entries, asked = table(namespace), words_of(text)
    pages = _pages(namespace, registry_revision())
    notes = {
        word: ours
        for word in asked
        if (ours := elsewhere(word)) and ours.rpartition(".")[2] not in OPS
    }
    sought = " ".join(word for word in asked if word in pages.own or word not in notes)
    found = pages.ranked(sought)[:most]
    return Entries([entries[i] for i in found], [f"{w}: {ours}" for w, ours in notes.items()])


@functools.lru_cache(maxsize=4)
def _pages(namespace: str, revision: int) -> Index:
    return Index([Page.of(e.name, e.names, e.summary, e.doc) for e in table(namespace)])

"""Damaged ONNX files: an error of ours or a good graph, soon, and nothing else happens.

    python -m tests.formats.damaged_onnx [count] [--seed N]    files of the seeds N, N + 1, ...
    python -m tests.formats.damaged_onnx --seed N --one        one of them, here

A seed takes one of a dozen small models of all kinds and damages it: flipped bits, other bytes,
a cut, a splice of another model, or fields of its messages that hold what others hold, what no
model holds, too much, or nothing. The file is read from a folder of its own, where its external
data lies. It is to be refused by an error of ours or be a graph that can be looked at, written,
and run if it is small; within a second of the processor's time and 200 MB, while no file is opened
beside those of the folder and of Python, nothing is written, no process begins, and no code is
compiled.
"""

from __future__ import annotations

import functools
import os
import random
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.errors import GradwrightError
from gradwright.formats import registry
from tests.formats.damaged_models import models
from tests.support.campaign import Campaign

SECONDS, GROWTH = 1.0, 200 << 20
LARGE = 1 << 16
"""Elements of a tensor up to which a graph is run."""
NUMBERS = (
    *(0, 1, -1, 2, 3, 7, 64, 65, 255, 1 << 15, -(1 << 31), 1 << 31, (1 << 31) - 1, 1 << 40),
    *(-(1 << 63), (1 << 63) - 1, 1 << 62),
)
FLOATS = (0.0, -1.0, 0.5, float("nan"), float("inf"), -float("inf"), 1e30, -1e-40, 65504.0)
TEXTS = ("", "x", "y", "é\n\u200d", "a" * 70000, "../secret", "/etc/passwd", "<b>", "\0", "c:0")


# -- damage ----------------------------------------------------------------------------------------


def damaged(seed: int) -> tuple[str, bytes]:
    """Return what is done, and the file."""
    draw = random.Random(seed)
    names = list(models())
    name = draw.choice(names)
    data = models()[name]
    kind = draw.choice(["bits", "bytes", "cut", "splice", *["fields"] * 6])
    if kind == "fields":
        return f"{name}, fields", _fields(data, draw)
    made = bytearray(data)
    if kind in ("bits", "bytes"):
        for _ in range(draw.choice([1, 1, 2, 8])):
            at = draw.randrange(len(made))
            made[at] = draw.randrange(256) if kind == "bytes" else made[at] ^ 1 << draw.randrange(8)
    elif kind == "cut":
        del made[draw.randrange(len(made)) :]
    else:
        other = models()[draw.choice(names)]
        start, end = sorted(draw.randrange(len(other)) for _ in range(2))
        at = draw.randrange(len(made))
        made[at : at + draw.choice([0, end - start])] = other[start:end]
    return f"{name}, {kind}", bytes(made)


def _fields(data: bytes, draw: random.Random) -> bytes:
    """Return a model some of whose fields are others; it is well-formed as a message."""
    from google.protobuf.message import EncodeError
    from onnx import ModelProto

    proto = ModelProto.FromString(data)
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        held = list(_messages(proto))
        message = draw.choice(held)
        alike = [m for m in held if m.DESCRIPTOR is message.DESCRIPTOR]
        field = draw.choice(message.DESCRIPTOR.fields)
        _damage(message, field, draw, alike)
    try:
        return proto.SerializeToString()  # type: ignore[no-any-return]
    except (EncodeError, ValueError):
        return data


def _messages(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                yield from _messages(inner)


def _damage(message: Any, field: Any, draw: random.Random, alike: list[Any]) -> None:
    """Change one field of a message."""
    other = getattr(draw.choice(alike), field.name)
    if field.is_repeated:
        held = getattr(message, field.name)
        items = list(held)
        kind = draw.choice(["delete", "double", "shuffle", "other", "value", "many"])
        if kind == "delete" and items:
            items.pop(draw.randrange(len(items)))
        elif kind == "double" and items:
            items.append(draw.choice(items))
        elif kind == "shuffle":
            draw.shuffle(items)
        elif kind == "other":
            items = list(other)
        elif kind == "many" and items:
            items = [items[0]] * draw.choice([70, 1000])
        elif field.message_type is None:
            at = draw.randint(0, len(items))
            items[at : at + 1] = [_value(field, draw)]
        copies = [_copied(item) for item in items]
        message.ClearField(field.name)
        held = getattr(message, field.name)
        held.extend(copies)
    elif field.message_type is not None:
        if draw.random() < 0.4:
            message.ClearField(field.name)
        elif sum(1 for _ in _messages(other)) < 2000:
            getattr(message, field.name).CopyFrom(_copied(other))
    elif draw.random() < 0.2:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, other if draw.random() < 0.4 else _value(field, draw))


def _copied(item: Any) -> Any:
    if not hasattr(item, "CopyFrom"):
        return item
    made = type(item)()
    made.CopyFrom(item)
    return made


def _value(field: Any, draw: random.Random) -> Any:
    """Return a value that may stand in a field."""
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return draw.choice(FLOATS)
    if field.type == field.TYPE_BYTES:
        return draw.choice([b"", b"\xff\xfe", b"a" * 100, bytes(8), b"\1" * 9])
    if field.type == field.TYPE_STRING:
        if field.name == "op_type" or draw.random() < 0.3:
            return draw.choice(_operators())
        return draw.choice(TEXTS)
    if field.enum_type is not None:
        return draw.choice(field.enum_type.values).number
    bits = 32 if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32) else 64
    low = 0 if field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64) else -(1 << bits - 1)
    return draw.choice([n for n in NUMBERS if low <= n < 1 << bits - 1])


@functools.cache
def _operators() -> list[str]:
    import onnx

    return sorted({schema.name for schema in onnx.defs.get_all_schemas()})


# -- what becomes of it ----------------------------------------------------------------------------


def problem(seed: int) -> str:
    """Return what is wrong with how a damaged file is read; empty if nothing."""
    what, data = damaged(seed)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as place:
        warnings.simplefilter("ignore")
        warm()
        path = _put(Path(place), data)
        before = sorted(Path(place).rglob("*"))
        for use in (_inspected, _read):
            says = watched(lambda use=use: use(path), str(path.parent))  # type: ignore[misc]
            if says:
                return f"{what}: {use.__name__[1:]} {says}"
        left = set(Path(place).rglob("*")).difference(before)
    return f"{what}: it left {left}" if left else ""


def _put(place: Path, data: bytes) -> Path:
    """Put a model into a folder, with its data beside it, and what is not its own above."""
    folder = place / "model"
    folder.mkdir()
    (folder / "w.bin").write_bytes(bytes(96))
    (place / "secret").write_bytes(bytes(96))
    path = folder / "model.onnx"
    path.write_bytes(data)
    return path


def _inspected(path: Path) -> None:
    str(gw.inspect(path))


def _read(path: Path) -> Callable[[], None]:
    graph = gw.onnx.load(path)
    str(graph.summary())
    return lambda: _used(graph)


def _used(graph: gw.Graph) -> None:
    """Write a graph, and run it if it is small and surely ends."""
    gw.onnx.to_model(graph)
    specs = [t.spec for node in graph.nodes for t in node.outputs]
    loops = {"while_loop", "scan", "onnx_op"} & {node.op.name for node in graph.nodes}
    is_small = all(s.size <= LARGE for s in specs if s.is_concrete and not s.by_reference)
    if loops or not is_small:
        return
    feeds = {}
    for t in graph.placeholders:
        if t.spec.by_reference or any(isinstance(d, int) and d > 1000 for d in t.shape):
            return
        feeds[t.name] = np.ones([d if isinstance(d, int) else 2 for d in t.shape], t.dtype)
    ends = [t for node in graph.nodes for t in node.outputs if not t.uses]
    with gw.Session(graph, kernels="off") as session:
        session.run(ends[-3:], feeds)


_watching = False
_seen: list[str] = []
_folder = ""
_QUIET = ("open", "os.listdir", "os.scandir", "import", "object.__getattr__", "sys._getframe")
_WRITES = ("os.", "shutil.", "subprocess.", "socket.", "ctypes.dlopen", "exec", "compile", "pty.")


def _audit(event: str, args: tuple[Any, ...]) -> None:
    """Note what reading a model must not do; what imports of modules do is theirs."""
    if not _watching or event in _QUIET[1:] or not (event == "open" or event.startswith(_WRITES)):
        return
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code is not watched.__code__:
        name = frame.f_globals.get("__name__", "")
        if name.startswith(("importlib", "collections", "dataclasses", "functools", "ast")):
            return
        frame = frame.f_back
    if event == "open":
        if isinstance(args[0], int):  # a file that is open
            return
        path, flags = str(args[0]), args[2] or 0
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        if not writes and path.startswith((_folder, "/proc/", sys.prefix, sys.base_prefix)):
            return
        if not writes and path.endswith((".py", ".json", "linecache")):
            return
    _seen.append(f"{event} {args!r}"[:200])


@functools.cache
def warm() -> None:
    """Do once what is only done once, such as importing readers, and begin to listen."""
    for data in models().values():
        with tempfile.TemporaryDirectory() as place:
            path = _put(Path(place), data)
            _inspected(path)
            _read(path)()
    listen()


@functools.cache
def listen() -> None:
    """Import all formats, and begin to note what must not be done; it never ends."""
    list(registry.known())
    sys.addaudithook(_audit)


def watched(use: Callable[[], Any], folder: str) -> str:
    """Return what is wrong with how something ends."""
    global _watching, _folder
    _seen.clear()
    _folder = folder
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.thread_time()
    _watching = True
    then = None
    try:
        then = use()
    except GradwrightError as error:
        str(error)
    except Exception as error:
        return f"raises {type(error).__name__}: {str(error)[:200]}"
    finally:
        _watching = False
    took = time.thread_time() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    if _seen:
        return f"does {_seen[0]}"
    if took > SECONDS or grown > GROWTH:
        return f"takes {took:.1f} s, {grown >> 20} MB"
    try:
        if then is not None:
            then()
    except GradwrightError:
        pass
    except Exception as error:
        return f"gives a graph that raises {type(error).__name__}: {str(error)[:200]}"
    return ""


def _shown(seed: int) -> Iterator[str]:
    what, data = damaged(seed)
    yield f"{what}, {len(data):,} bytes"
    with tempfile.TemporaryDirectory() as place:
        try:
            _read(_put(Path(place), data))()
            yield "a good graph"
        except Exception as error:
            yield f"{type(error).__name__}: {error}"


CAMPAIGN = Campaign(
    "tests.formats.damaged_onnx", "damaged files", problem, _shown, "as it should be",
    count=20_000, batch=1000,
)  # fmt: skip


if __name__ == "__main__":
    CAMPAIGN.main(__doc__)

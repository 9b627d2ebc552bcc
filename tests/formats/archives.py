"""What the tests of the archive share: a rich graph, equality to the bit, and forged archives."""

from __future__ import annotations

import enum
import json
import zipfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError
from gradwright.formats.archive.container import Writer
from gradwright.graph.expand import run_nodes
from gradwright.op import Op
from gradwright.spec import FLOATS

DTYPES = [
    *FLOATS,
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("int4", "uint4", "int2", "uint2", "complex64", "complex128", "bool"),
]


class Mode(enum.Enum):
    FAST = enum.auto()
    EXACT = enum.auto()


@gw.register("archive/noise")
class Noise(Op):
    """The input plus numbers that depend on the stream; the second output is a residual."""

    n_public = 1
    stream: int = gw.attr(doc="Which numbers.")
    mode: Mode = gw.attr(Mode.FAST, doc="How.", choices=tuple(Mode))

    def infer(self, x):
        return x.with_shape(x.shape), gw.TensorSpec((), "int64")

    def forward(self, x):
        return x + np.asarray(self.stream, x.dtype), np.asarray(x.size)

    def vjp(self, gs, ys, xs):
        return (gs[0],)


@gw.register("archive/halves")
class Halves(Op):
    """The input divided by two, and its negation."""

    def infer(self, x):
        return x.with_shape(x.shape), x.with_shape(x.shape)

    def forward(self, x):
        return x / 2, -x

    def vjp(self, gs, ys, xs):
        return (sum(g * f for g, f in zip(gs, (0.5, -1.0), strict=True) if g is not gw.ZERO),)


@gw.register("archive/holder")
class Holder(Op):
    """The input; holds any attribute."""

    value: Any = gw.attr((None, Mode.FAST), doc="Anything, or members of Mode.")
    mode: Mode = gw.attr(Mode.EXACT, doc="An enum without choices.")

    def infer(self, x, other=None):
        return x.with_shape(x.shape)

    def forward(self, x, other=None):
        return x


def rich(rng: np.random.Generator) -> gw.Graph:
    """Return a graph with one of everything: 20 values, cond in cond, two outputs, updates."""
    g = gw.Graph("rich")
    x = g.placeholder("x", ("B", 4), "float64")
    with g.scope("deep"), g.scope("er"):
        w = g.variable("w", (4, 3), init=rng.standard_normal((4, 3)), dtype="float64")
        frozen = g.variable("frozen", init=rng.standard_normal(3), trainable=False)
        h = gw.exp(x @ w) * frozen
    steps = g.variable("steps", init=np.int64(7))
    a, b = Halves()(h, name="größe/halves")
    noisy = Noise(stream=g.next_stream(), mode=Mode.EXACT)(b)
    shape = g.constant(np.array([-1, 3]), name="shape")

    def then():
        inner = gw.cond(flag, lambda: a * frozen, lambda: noisy + 1.0)
        return inner - 2.0, inner

    flag = g.placeholder("flag", (), "bool")
    y, z = gw.cond(flag, then, lambda: (-a, noisy), name="choice")
    y.reshape(shape).rename("top")
    Holder(value=(1, (2.5, "two")))(z, None)
    g.update(steps, steps + g.constant(1))
    g.update(w, gw.gradients(y.sum(), [w])[0])
    return g


def run(g: gw.Graph, training: bool = False) -> dict[str, np.ndarray]:
    """Return all values of all nodes but sources, by the plainest engine."""
    feeds = {"x": np.linspace(-1, 1, 8).reshape(2, 4), "flag": np.array(True)}
    given = {t: feeds[t.name] for t in g.placeholders}
    given.update((t, g.values[t.name]) for t in g.variables)
    tensors = [t for n in g.all_nodes for t in n.outputs if n.kind == "array"]
    found = run_nodes(gw.graph.ancestors(tensors), given, tensors, training=training)
    return {t.name: v for t, v in zip(tensors, found, strict=True)}


def assert_same(saved: gw.Graph, loaded: gw.Graph) -> None:
    """Check that names, ops, specs, values, updates are equal; derived nodes may have been left."""
    kept = {n.name for n in loaded.all_nodes}
    assert all(n.derived for n in saved.all_nodes if n.name not in kept)
    assert describe(saved, kept) == describe(loaded, kept)


def describe(g: gw.Graph, kept: Collection[str]) -> Any:
    chosen = [n for n in g.all_nodes if n.name in kept]
    nodes = [
        (
            n.name,
            n.op.key(),
            tuple(None if t is None else t.name for t in n.inputs),
            tuple(t.spec.key() for t in n.outputs),
            tuple(sorted(u.name for t in n.outputs for u in t.uses if u.name in kept)),
            (n.op.n_public, n.trainable, n.derived, n.origin and n.origin.name),
        )
        for n in chosen
    ]
    values = {k: (v.dtype, v.shape, v.tobytes()) for k, v in g.values.items() if k in kept}
    return g.name, nodes, values, {k.name: v.name for k, v in g.updates.items()}


# -- forging -------------------------------------------------------------------------------------


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {n: archive.read(n) for n in archive.namelist() if n != "manifest.json"}


def forge(path: Path, change: Callable[[dict[str, bytes]], Any]) -> None:
    """Rewrite an archive with changed members and right checksums, as an attacker would."""
    held = members(path)
    change(held)
    with path.open("wb") as file, Writer(file) as writer:
        for name, data in held.items():
            writer.add(name, len(data), [data])


def put(path: Path, member: str, data: bytes) -> None:
    """Write another member into an archive, with right sums."""
    forge(path, lambda held: held.update({member: data}))


def forge_document(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    def edit(held: dict[str, bytes]) -> None:
        document = json.loads(held["graph.json"])
        change(document)
        held["graph.json"] = json.dumps(document).encode()

    forge(path, edit)


def safetensors(header: Mapping[str, Any] | bytes, data: bytes = b"") -> bytes:
    """Return a member with any header and any bytes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    return len(text).to_bytes(8, "little") + text + data


def path(tmp_path: Path) -> Path:
    """A fixture: where an archive may be written."""
    return tmp_path / "graph.gw"


def small(tmp_path: Path) -> Path:
    """A fixture: the archive of x -> halves -> two outputs, with a variable and a constant."""
    path = tmp_path / "graph.gw"
    g = gw.Graph("small")
    x = g.placeholder("x", ("B", 3))
    w = g.variable("w", init=np.arange(3.0, dtype="float32"))
    a, b = Halves()(x, name="halves")
    y = (a * w).rename("y")
    gw.exp(b, name="z")
    g.constant(np.arange(4), name="c")
    g.update(w, w * 2.0)
    assert y.name == "y"
    gw.save(g, path, state={"optimizer": {"m": np.ones(3)}})
    return path


def refused(path: Path, match: str, **options: bool) -> None:
    """Check that the archive is refused with a message that names the file."""
    with pytest.raises(ArchiveError, match=match) as caught:
        gw.load(path, **options)
    assert str(caught.value).startswith(str(path))

"""The graphs of the kept archives: between them, whatever an archive can hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import gradwright as gw
from tests.house import models
from tests.house.facts import everything, inner
from tests.house.models import Arrays, affine, cross_entropy, normal, weight


class Case(NamedTuple):
    """A graph, what it is fed with, and the names of what is computed."""

    graph: gw.Graph
    feeds: Arrays
    fetches: list[str]


LISTS = (gw.SequenceSpec, gw.OptionalSpec)
CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    """Note a case under the name of its function."""
    CASES[make.__name__] = make
    return make


def case_of(loss: gw.Tensor, feeds: Arrays, *fetches: str) -> Case:
    """Return a case of a loss and, by name, of what else is to be seen."""
    return Case(loss.graph, feeds, ["loss", *fetches])


@case
def mlp() -> Case:
    """Scopes in scopes, a frozen variable, an update, names beyond ASCII."""
    g = gw.Graph("mlp")
    x, t = g.placeholder("x", ("B", 6)), g.placeholder("t", ("B",), "int64")
    with g.scope("körper"), g.scope("hidden"):
        frozen = g.variable("scale", init=normal(3, 12), trainable=False)
        h = gw.nn.relu(affine(x, "in", 6, 12)) * frozen
        mean = g.variable("mean", (12,), trainable=False)
        g.update(mean, mean * 0.9 + gw.mean(h, axis=0) * 0.1)
    logits = gw.identity(affine(h, "out", 12, 3), name="logits")
    return case_of(cross_entropy(t, logits), models.rows(9), "logits", "körper/hidden/mean")


@case
def cnn() -> Case:
    """Statistics of a batch norm that has been trained."""
    loss, data = models.cnn()
    trainer = gw.Trainer(loss.graph, loss, gw.optim.SGD(0.1), deterministic=True)
    trainer.fit(data, batch_size=5, progress=False)
    return case_of(loss, data, "norm/running_mean", "norm/running_var")


@case
def recurrent() -> Case:
    loss, batches = models.recurrent()
    return case_of(loss, batches[0])


@case
def transformer() -> Case:
    loss, data = models.transformer()
    return case_of(loss, {"ids": data["ids"][:3]}, "layer_1/up/w")


@case
def control() -> Case:
    """Loops, branches, a function that is called twice, an update that reads a gradient."""
    loss, batches = models.loops()
    g, w = loss.graph, loss.graph["w"]

    @gw.function("damped")
    def damped(x: gw.Tensor) -> gw.Tensor:
        return gw.cond(gw.sum(x) > 0.0, lambda: x * 0.5, lambda: gw.tanh(x))

    with g:
        last, powers = gw.loop(lambda i, c: (c < 50.0, c * 1.7, c), g.constant(1.0), trip=20)
        both = damped(damped(w - 1.0)) + damped(w)
        gw.add(gw.sum(both), last + gw.sum(powers), name="more")
    (slope,) = gw.gradients(loss, [w])
    g.update(w, w - 0.1 * slope)
    return case_of(loss, batches[0], "more")


@case
def sizes() -> Case:
    """Arithmetic of sizes that nobody knows yet."""
    g = gw.Graph("sizes")
    x, y = g.placeholder("x", ("B", "T", 4)), g.placeholder("y", ("B", "S", 4))
    b, t = x.shape[:2]
    flat = x.reshape(b * t, 4) @ weight(g, "w", 4, 4)
    scores = gw.einsum("btd,bsd->bts", flat.reshape(b, t, 4), y)
    best, at = gw.top_k(scores, 2)
    parts = [x[:, 1:], x[:, : t // 2], gw.pad(y, ((0, 0), (1, 2), (0, 0)))]
    joined = gw.concat(*parts, axis=1)
    gw.identity(joined, name="joined")
    gw.identity(at, name="at")
    position = gw.cast(gw.size_at(x, 1), "float32")
    loss = gw.add(gw.sum(best) / position, gw.mean(joined * joined), name="loss")
    return case_of(loss, {"x": normal(1, 2, 5, 4), "y": normal(2, 2, 3, 4)}, "joined", "at")


@case
def dtypes() -> Case:
    """Variables and constants of few bits, of complex numbers, and of truth."""
    import ml_dtypes

    g = gw.Graph("dtypes")
    x, noise = g.placeholder("x", ("B", 4)), normal(1, 4, 4)
    total = gw.cast(x, "float64")
    for name in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        w = g.variable(name, init=noise.astype(gw.spec.dtype(name)), trainable=False)
        total = total + gw.cast(x @ gw.cast(w, "float32"), "float64")
    for name in ("int8", "uint8", "int16", "int32", "int64", "int4", "uint4"):
        whole = np.abs(np.round(noise * 2)).astype(gw.spec.dtype(name))
        total = total + gw.cast(g.variable(name, init=whole, trainable=False), "float64").sum()
    codes = g.constant(np.round(noise * 9).astype("int8"), name="codes")
    half = gw.quant.dequantize_linear(codes, g.constant(np.float32(0.25)))
    gw.cast(gw.cast(x @ half, "bfloat16") * 1.5, "float32").rename("narrow")
    mask = g.variable("mask", init=noise > 0, trainable=False)
    turned = g.variable("turned", init=(noise + 1j * noise.T).astype("complex64"))
    gw.abs(turned * gw.cast(mask, "complex64")).rename("lengths")
    assert ml_dtypes.bfloat16 in {t.dtype.type for t in g.variables}
    gw.mean(total, name="loss")
    return case_of(g["loss"], {"x": normal(2, 3, 4)}, "narrow", "lengths")


@case
def texts() -> Case:
    """Texts, sequences, optionals."""
    g = gw.Graph("texts")
    words, x = g.placeholder("words", ("B",), "str"), g.placeholder("x", ("B", 4))
    calm = gw.strings.string_normalizer(words, "LOWER", stopwords=("the",))
    gw.strings.string_concat(calm, g.constant(["!"]), name="loud")
    gw.strings.regex_full_match(words, r"[a-z]+", name="small")
    found = gw.strings.label_encoder(words, ("cat", "Dog"), (3, 4), -1, np.dtype("int64"))
    gw.strings.string_split(words, "a", name="parts")
    items = gw.sequence.insert(gw.sequence.split_to_sequence(x, axis=1), x * 2.0)
    kept = gw.sequence.erase(gw.sequence.map(lambda item: item + 1.0, items), g.constant(0))
    gw.sequence.concat_from_sequence(kept, 1, name="joined")
    held = gw.sequence.optional(gw.sequence.at(kept, g.constant(-1)))
    gw.sequence.optional_has_element(held, name="has")
    loss = gw.add(
        gw.mean(gw.sequence.optional_get_element(held)),
        gw.cast(gw.sum(found), "float32"),
        name="loss",
    )
    feeds = {"words": np.array(["cat", "the", "Dog", "banana"]), "x": normal(1, 4, 4)}
    return case_of(loss, feeds, "loud", "small", "joined", "has")


@case
def every_op() -> Case:
    """Each op that an archive can name, on the shortest of its own samples."""
    everything()
    g, fetches = gw.Graph("every_op"), []
    for name, op in sorted(inner().ops.items()):
        sample = _shortest(op)
        if sample is None:
            continue
        with g.scope(f"on_{name.replace('/', '_')}"):
            xs = [None if x is None else g.constant(x) for x in sample.inputs]
            made: Any = op(**sample.attrs)(*xs, name="y")
        outputs = made if isinstance(made, tuple) else (made,)
        fetches += [t.name for t in outputs if not isinstance(t.spec, LISTS)]
    return Case(g, {}, fetches)


def _shortest(op: type[gw.Op]) -> Any:
    """Return the sample of the fewest bytes, but for ops of which a constant holds no sample."""
    try:
        samples = list(op.samples(np.random.default_rng(0)))
    except NotImplementedError:
        return None
    arrays = [[np.asarray(x) for x in s.inputs if x is not None] for s in samples]
    if any(a.dtype == object for held in arrays for a in held):
        return None
    bytes_of = {i: sum(a.nbytes for a in held) for i, held in enumerate(arrays)}
    full = [i for i, held in enumerate(arrays) if all(a.size for a in held)] or list(bytes_of)
    return samples[min(full, key=bytes_of.__getitem__)]

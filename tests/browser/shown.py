"""What scenes show: graphs, trainings, runs and models, well and broken."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import gradwright as gw


def digits() -> tuple[gw.Trainer, dict[str, Any], dict[str, Any]]:
    """Return the tour's network with its trainer, and data to train and to validate on."""
    images, labels = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(images))
    train, test = rows[360:], rows[:360]
    g = gw.Graph("digits")
    x = g.placeholder("x", (None, 64))
    t = g.placeholder("t", (None,), dtype="int64")
    with g.scope("hidden"):
        w = g.variable("w", (64, 128), init=gw.init.he_normal(seed=0))
        b = g.variable("b", (128,))
        h = gw.nn.dropout(gw.nn.relu(x @ w + b), p=0.2)
    with g.scope("head"):
        w2 = g.variable("w", (128, 10), init=gw.init.xavier_uniform(seed=1))
        b2 = g.variable("b", (10,))
        logits = h @ w2 + b2
    gw.nn.softmax(logits, name="p")
    loss = gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
    accuracy = gw.metrics.accuracy(t, logits)
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.Adam(2e-3), metrics={"accuracy": accuracy})
    pixels = (images / 16.0).astype("float32")
    return trainer, *({"x": pixels[part], "t": labels[part]} for part in (train, test))


def tower(blocks: int = 24) -> gw.Graph:
    """Return a deep network of nested scopes, more than fits on a screen."""
    g = gw.Graph("tower")
    h = g.placeholder("tokens", (None, 32))
    for k in range(blocks):
        with g.scope(f"block_{k}"):
            with g.scope("attention"):
                q = h @ g.variable("query", (32, 32), init=gw.init.he_normal(seed=k))
                h = gw.nn.softmax(q) * h + h
            with g.scope("mlp"):
                u = gw.nn.relu(h @ g.variable("up", (32, 64), init=gw.init.he_normal(seed=k)))
                h = h + u @ g.variable("down", (64, 32), init=gw.init.he_normal(seed=k))
    gw.mean(h, name="score")
    return g


class Square(gw.Op):
    """y = x², with a gradient that forgets the factor 2."""

    def infer(self, x):
        return x

    def forward(self, x):
        return x * x

    def vjp(self, gs, ys, xs):
        return (gs[0] * xs[0],)


gw.register("tour/square")(Square)


def nested() -> gw.Graph:
    """A call, a loop and a branch, one in the other's way; a weight gets no gradient."""
    g = gw.Graph("nested")
    block = gw.function("block")(lambda x, w: gw.nn.relu(gw.nn.layer_norm(x @ w) - 9.0))
    x = g.placeholder("x", (None, 4))
    with g.scope("encoder"):
        h = block(x, g.variable("w", (4, 4), init=gw.init.identity()))
    first = g.variable("first", (4,), init=0.1)
    c, _ = gw.scan(lambda c, row: (gw.tanh(c + row), None), first, h, name="loop")
    y = gw.cond(gw.sum(c) > 0.0, lambda: c * 2.0, lambda: gw.exp(c), name="choose")
    gw.mean(gw.square(y), name="loss")
    return g


def broken() -> tuple[gw.Graph, dict[str, Any]]:
    """Return the tour's graph with a wrong op, and feeds."""
    g = gw.Graph("broken")
    a = g.placeholder("a", (None, 64))
    v = g.variable("v", (64, 5), init=gw.init.he_normal(seed=2))
    Square()(gw.nn.tanh(a @ v), name="energy").sum(name="total")
    return g, {"a": np.random.default_rng(0).random((4, 64), "float32")}


class Slow(gw.Callback):
    """Makes a training last long enough to be watched and sampled."""

    def on_step_end(self, trainer, record):
        time.sleep(0.004)


class Fails(gw.Callback):
    """Ends a training with an error."""

    def on_step_end(self, trainer, record):
        if record.step == 40:
            raise OSError("No space left on device: 'digits.gw'")


def trained() -> tuple[gw.Trainer, dict[str, Any], dict[str, Any]]:
    trainer, train, test = digits()
    trainer.fit(train, epochs=12, batch_size=64, validation=test, progress=False)
    return trainer, train, test


@contextlib.contextmanager
def off(op: type[gw.Op]) -> Iterator[None]:
    """Have an op compute a hundredth too much."""
    right: Any = op.forward
    op.forward = lambda self, x: (right(self, x) * 1.01).astype(x.dtype)
    yield
    op.forward = right


def recorded() -> gw.train.Store:
    """Return runs of several settings, some with names that nobody would choose."""
    store = gw.train.Store(tempfile.mkdtemp())
    names = ("baseline", "wide & fast", "sgd", "sgd", "<img src=x onerror=alert(1)>", "step")
    for k, name in enumerate(names):
        plain, train, test = digits()
        g = plain.graph
        kind = gw.optim.SGD if name == "sgd" else gw.optim.Adam
        trainer = gw.Trainer(
            g,
            "loss",
            optimizer=kind((0.1 if name == "sgd" else 1e-3) * (1 + k)),
            metrics={"accuracy": gw.metrics.accuracy(g["t"], g["p"])},
            callbacks=[gw.Run(name=name, tags=["digits", kind.__name__], store=store)],
        )
        trainer.fit(train, epochs=6 + k, batch_size=64, validation=test, progress=False)
    return store


RHYME = "the cat sat on the mat and the rat ran to the cat, so the mat was flat.\n"


def beginner() -> gw.models.Decoder:
    """Return a small decoder that knows the letters of a rhyme."""
    tokenizer = gw.models.CharTokenizer.train(RHYME)
    config = gw.models.DecoderConfig(
        vocabulary=len(tokenizer), width=48, layers=3, heads=4, kv_heads=2, context=256
    )
    return gw.models.Decoder(config, name="storyteller", tokenizer=tokenizer)


def storyteller() -> gw.models.Decoder:
    """Return a small decoder that has read one rhyme some hundred times."""
    model = beginner()
    trainer = gw.Trainer(model.graph, model.loss, gw.optim.AdamW(4e-3))
    tokens = model.tokenizer.encode(RHYME * 3)
    rows = [tokens[k : k + 96] for k in range(0, 72, 9)]
    for _ in range(90):
        trainer.step(model.examples(rows))
    return model


def adapted() -> tuple[gw.models.Decoder, gw.Trainer, Path]:
    """Return a small decoder whose ranks have fallen where they count least, and files."""
    model = beginner()
    folder = Path(tempfile.mkdtemp())
    for name, r in (("rhymes", 4), ("letters", 8)):
        saved = gw.adapters.add(model, gw.adapters.LoRA(r=r), where="q|v", name=name)
        gw.adapters.save(saved, folder / name)
        saved.remove()
    method = gw.adapters.AdaLoRA(init_r=6, target_r=2, total_step=60, tinit=5, tfinal=10)
    gw.adapters.add(model, method, where="q|v|up", name="story")
    return model, gw.Trainer(model.graph, model.loss, gw.optim.AdamW(2e-2)), folder

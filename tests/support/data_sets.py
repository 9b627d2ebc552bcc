"""Rows and streams that several tests read, a trainer of them, and their prefetching threads."""

from __future__ import annotations

import gc
import itertools
import threading

import numpy as np

import gradwright as gw
from gradwright.data import batches

X = np.arange(23, dtype="float32")[:, None] * [1, 10, 100]
T = np.arange(23) % 3


def rows():
    return {"x": X.astype("float32"), "t": T}


def stream(n=23):
    return gw.data.stream(lambda: ({"x": X[i].astype("float32"), "t": T[i]} for i in range(n)))


def plain(items):
    """Return items as what == compares."""
    return [{k: np.asarray(v).tolist() for k, v in item.items()} for item in items]


def seen(data, epoch=0, skip=0):
    """Return the first numbers of the rows, batch by batch."""
    return [np.asarray(b["x"])[:, 0].astype(int).tolist() for b in data.epoch(epoch, skip)]


def flat(data, epoch=0):
    return list(itertools.chain(*seen(data, epoch)))


def line(**options):
    g = gw.Graph("line")
    x, t = g.placeholder("x", (None, 3)), g.placeholder("t", (None,))
    w = g.variable("w", (3,), init=[0.1, -0.1, 0.05])
    options.setdefault("session", gw.Session(g, deterministic=True))
    return gw.Trainer(g, gw.mean((x @ w - t) ** 2.0), gw.optim.SGD(1e-7), **options)


def fed(trainer, data, batch_size=None, **options):
    """Return data as the batches that ``fit`` makes of it."""
    needed = list(trainer.graph.placeholders)
    return batches(trainer.graph, data, needed, batch_size, **options)


def taken(source, epoch=0, skip=0):
    return [
        plain([{t.name: a for t, a in feeds.items()}])[0] for feeds, _ in source.epoch(epoch, skip)
    ]


def threads():
    return [t for t in threading.enumerate() if t.name == "gradwright-prefetch"]


def no_thread_is_left():
    """A fixture: no test leaves a thread that prefetches."""
    yield
    if threads():
        gc.collect()
    assert not threads()

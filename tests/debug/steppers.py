"""A small network with a composite inside, and a stepper through it and its gradient."""

from __future__ import annotations

import numpy as np

import gradwright as gw


@gw.register("test/centre")
class Centre(gw.Op):
    """Subtract the mean and scale by a half."""

    def expand(self, x):
        half = (x - gw.mean(x, axis=-1, keepdims=True)) * 0.5
        return half


def net():
    g = gw.Graph("net")
    x = g.placeholder("x", (None, 3))
    with g.scope("hidden"):
        w = g.variable("w", (3, 2), init=np.arange(6.0).reshape(3, 2) / 10)
        h = gw.exp(x @ w, name="h")
    y = Centre()(h, name="centred")
    loss = (y * y).sum(name="loss")
    (dw,) = gw.gradients(loss, [w])
    return g, loss, dw


FEEDS = {"x": np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]])}


def stepper(net, **options):
    g, loss, dw = net
    return gw.Stepper(g, fetches=[loss, dw], feeds=FEEDS, **options)

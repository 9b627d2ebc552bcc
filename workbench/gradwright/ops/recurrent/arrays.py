"""A recurrent layer's inputs and cotangents as its loops want them: time first, by direction."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import GraphError
from ...spec import at_least_float32, promote
from ..core.special import widened

if TYPE_CHECKING:
    from .layer import RecurrentLayer

Array = np.ndarray[Any, Any]


class Arrays:
    """Inputs of a layer, time first, in the dtype they are computed in."""

    def __init__(self, op: RecurrentLayer, inputs: Sequence[Any]) -> None:
        given = dict(zip((p.name for p in type(op).inputs), inputs, strict=False))
        self.given = {k: v for k, v in given.items() if v is not None}
        lengths = self.given.pop("lengths", None)
        self.out = functools.reduce(promote, (v.dtype for v in self.given.values()))
        self.dtype = at_least_float32(self.out)
        moved = {k: v.astype(self.dtype, copy=False) for k, v in self.given.items()}
        self.layout = op.layout
        if op.layout:
            turned = ("x", *(f"initial_{s}" for s in op.states))
            moved |= {k: moved[k].swapaxes(0, 1) for k in turned if k in moved}
        self.x, self.w, self.r = (np.ascontiguousarray(moved[k]) for k in ("x", "w", "r"))
        self.n_steps, self.n_batch = self.x.shape[:2]
        self.b, self.p = moved.get("b"), moved.get("p")
        zero = np.zeros((op.n_directions, self.n_batch, self.r.shape[2]), self.dtype)
        self.initial = [moved.get(f"initial_{s}", zero) for s in op.states]
        self.valid = None
        if lengths is not None:
            wrong = lengths[(lengths < 0) | (lengths > self.n_steps)]
            if wrong.size:
                need = f"0 to {self.n_steps}, the steps of x"
                raise GraphError(f"a sequence has a length of {wrong[0]}", need=need)
            self.valid = np.arange(self.n_steps)[:, None, None] < lengths[:, None]
            self.x = np.where(self.valid, self.x, 0)  # what stands there may be anything, NaN too

    def projected(self, d: int, out: Array, *, apart: int = 0) -> Array:
        """Fill [G, T, B, H] with the input's part of all gates, with biases; return it.

        The last ``apart`` gates lack the bias of r.
        """
        rows = self.x.reshape(self.n_steps * self.n_batch, self.x.shape[2])
        for k, w in enumerate(gates_of(self.w[d], len(out))):
            np.matmul(rows, w.T, out=out[k].reshape(len(rows), len(w)))
        if self.b is not None:
            of_w, of_r = self.b[d].reshape(2, len(out), 1, 1, out.shape[-1])
            out += of_w
            out[: len(out) - apart] += of_r[: len(out) - apart]
        return out

    def before(self, d: int, order: range, states: Array, initial: Array) -> Array:
        """Return the states before each step: those after the step taken before it."""
        shifted = np.empty_like(states)
        if order.step > 0:
            shifted[1:], shifted[:1] = states[:-1], initial
        else:
            shifted[:-1], shifted[-1:] = states[1:], initial
            if self.valid is not None and len(shifted) > 1:
                shifted[:-1] = np.where(self.valid[1:], shifted[:-1], initial)
        return shifted

    def outwards(self, y: Array) -> Array:
        """Return a result in the layout and dtype of the layer."""
        if self.layout:
            y = y.transpose(2, 0, 1, 3) if y.ndim == 4 else y.swapaxes(0, 1)
        return y.astype(self.out, copy=False)


def gates_of(w: Array, n: int) -> Array:
    """Return a direction's weight [G·H, I] as one per gate, [G, H, I]."""
    return w.reshape(n, len(w) // n, w.shape[1])


class Cotangents:
    """Cotangents of a layer's results in one direction; None where nothing flows."""

    def __init__(self, layer: Arrays, op: RecurrentLayer, gs: Sequence[Any], d: int) -> None:
        y, *more = (None if g is None else widened(g) for g in gs)
        n = len(op.states)
        if op.layout:
            y = None if y is None else y.transpose(1, 2, 0, 3)
            more[:n] = [None if g is None else g.swapaxes(0, 1) for g in more[:n]]
        shape = layer.n_steps, layer.n_batch, layer.r.shape[2]
        self.y = np.zeros(shape, layer.dtype) if y is None else y[:, d]
        if layer.valid is not None:
            self.y = self.y * layer.valid
        zero = np.zeros(shape[1:], layer.dtype)
        self.last = [zero if g is None else g[d] for g in more[:n]]
        self.saved = [None if g is None else g[d] for g in more[n:]]

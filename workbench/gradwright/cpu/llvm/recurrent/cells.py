"""Cells of recurrent layers as kernels over [B, H]: one step forward, and one back.

Operands have names: gates are letters, ``before_h`` is h before the step, ``bw_i`` a bias of gate i
beside w, ``d_i`` the cotangent of what goes into gate i, ``dh`` that of h from the steps after.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....fuse.builder import Term, call
from ..steps import Load

Terms = dict[str, Term]


def _gate(load: Load, name: str, *, biased: bool) -> Term:
    """Return what goes into a gate."""
    z = load(name)
    return z + (load(f"bw_{name}", 1) + load(f"br_{name}", 1)) if biased else z


def _of_h(load: Load, of_y: bool) -> Term:
    """Return the cotangent of a step's h."""
    return load("dh") + load("dy") if of_y else load("dh")


def _lstm(load: Load, biased: bool) -> Terms:
    i, o, f = (call("sigmoid", _gate(load, k, biased=biased)) for k in "iof")
    g = call("tanh", _gate(load, "g", biased=biased))
    c = f * load("before_c") + i * g
    return {"i": i, "o": o, "f": f, "g": g, "c": c, "h": o * call("tanh", c)}


def _lstm_grad(load: Load, of_y: bool) -> Terms:
    i, o, f, g, dh = *map(load, "iofg"), _of_h(load, of_y)
    shown = call("tanh", load("c"))
    dc = dh * o * (1 - shown * shown) + load("dc")
    return {
        "d_i": dc * g * (i * (1 - i)),
        "d_o": dh * shown * (o * (1 - o)),
        "d_f": dc * load("before_c") * (f * (1 - f)),
        "d_g": dc * i * (1 - g * g),
        "dc": dc * f,
    }


def _rnn(load: Load, biased: bool) -> Terms:
    h = call("tanh", _gate(load, "n", biased=biased))
    return {"n": h, "h": h}


def _rnn_grad(load: Load, of_y: bool) -> Terms:
    h = load("n")
    return {"d_n": _of_h(load, of_y) * (1 - h * h)}


def _gru(load: Load, biased: bool) -> Terms:
    """Apply the reset gate to the product p with h."""
    z, r = (call("sigmoid", _gate(load, k, biased=biased)) for k in "zr")
    n, part = load("n"), load("p")
    if biased:
        n, part = n + load("bw_n", 1), part + load("br_p", 1)
    n = call("tanh", n + r * part)
    return {"z": z, "r": r, "n": n, "p": part, "h": (load("before_h") - n) * z + n}


def _gru_grad(load: Load, of_y: bool) -> Terms:
    z, r, n, dh = *map(load, "zrn"), _of_h(load, of_y)
    dn = dh * (1 - z) * (1 - n * n)
    return {
        "d_z": dh * (load("before_h") - n) * (z * (1 - z)),
        "d_r": dn * load("p") * (r * (1 - r)),
        "d_n": dn,
        "d_p": dn * r,
        "dh": dh * z,
    }


def _reset(load: Load, biased: bool) -> Terms:
    """Apply the reset gate to h."""
    z, r = (call("sigmoid", _gate(load, k, biased=biased)) for k in "zr")
    return {"z": z, "r": r, "rh": r * load("before_h")}


def _reset_gru(load: Load, biased: bool) -> Terms:
    n = call("tanh", _gate(load, "n", biased=biased))
    return {"n": n, "h": (load("before_h") - n) * load("z") + n}


def _reset_gru_grad(load: Load, of_y: bool) -> Terms:
    z, n, dh = load("z"), load("n"), _of_h(load, of_y)
    return {
        "d_z": dh * (load("before_h") - n) * (z * (1 - z)),
        "d_n": dh * (1 - z) * (1 - n * n),
        "dh": dh * z,
    }


def _reset_grad(load: Load) -> Terms:
    r, h, through = load("r"), load("before_h"), load("d_rh")
    return {"d_r": through * h * (r * (1 - r)), "dh": load("dh") + through * r, "rh": r * h}


@dataclass(frozen=True)
class Cell:
    """A cell: its gates as they are saved, and kernels forward and backward.

    Products with x go into the first ``n_x`` gates, those with h into the first ``n_h`` and into
    the ``rest``; those of the rest are with r⊙h where there is a ``reset``: a kernel before that
    product, and one after it on the way back. ``carries`` tells whether h goes on by itself, too.
    """

    gates: str
    n_x: int
    n_h: int
    forward: Callable[..., Terms]
    backward: Callable[..., Terms]
    carries: bool = False
    reset: tuple[Callable[..., Terms], ...] = ()

    @property
    def rest(self) -> slice:
        """Return the gates that the last blocks of r belong to."""
        return slice(self.n_h, self.n_x) if self.reset else slice(self.n_x, None)


LSTM = Cell("iofg", 4, 4, _lstm, _lstm_grad)
RNN = Cell("n", 1, 1, _rnn, _rnn_grad)
GRU = Cell("zrnp", 3, 2, _gru, _gru_grad, carries=True)
RESET_GRU = Cell(
    "zrn", 3, 2, _reset_gru, _reset_gru_grad, carries=True, reset=(_reset, _reset_grad)
)


def cell_of(op: Any) -> Cell | None:
    """Return the cell of a layer, if it is a plain one."""
    usual = op.functions * op.n_directions
    if op.clip is not None or tuple(map(str.lower, op.activations or usual)) != usual:
        return None
    if op.name == "lstm":
        return None if op.input_forget else LSTM
    if op.name == "gru":
        return GRU if op.linear_before_reset else RESET_GRU
    return RNN

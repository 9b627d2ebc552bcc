"""Recurrent layers beside PyTorch's; state-space models beside their loops, written with torch."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradwright as gw
from tests.oracle.rows import Case, Row, normal

LSTM = (0, 2, 3, 1)  # torch's blocks i, f, g, o out of ours, i, o, f, g
GRU = (1, 0, 2)  # torch's r, z, n out of ours, z, r, n
RNN = (0,)


def blocks(t: Any, w: Any, order: tuple[int, ...]) -> Any:
    """Return the blocks of rows of a weight or bias in torch's order."""
    parts = t.chunk(w, len(order))
    return t.cat([parts[k] for k in order])


def parameters(t: Any, w: Any, r: Any, b: Any, order: tuple[int, ...]) -> list[Any]:
    """Return a layer's parameters as torch lists them, direction by direction."""
    found = []
    for d in range(len(w)):
        biases = b[d].chunk(2)
        found += [blocks(t, m, order) for m in (w[d], r[d], *biases)]
    return found


def layer(kind: str, order: tuple[int, ...]) -> Any:
    """Return torch's layer as a function of our inputs."""

    def theirs(t: Any, x: Any, w: Any, r: Any, b: Any, *states: Any, **attrs: Any) -> Any:
        lengths, first = attrs.get("lengths"), attrs.get("layout", 0) == 1
        if first:
            states = tuple(s.swapaxes(0, 1) for s in states)
        given = states if len(states) > 1 else states[0]
        settings = True, 1, 0.0, False, attrs.get("direction") == "bidirectional"
        flat = parameters(t, w, r, b, order)
        run = getattr(t, kind)
        if lengths is None:
            y, *last = run(x, given, flat, *settings, first)
        else:
            packed = t.nn.utils.rnn.pack_padded_sequence(
                x, lengths, batch_first=first, enforce_sorted=False
            )
            sort = packed.sorted_indices
            sorted_ = [s[:, sort] for s in states]
            given = tuple(sorted_) if len(sorted_) > 1 else sorted_[0]
            data, *last = run(packed.data, packed.batch_sizes, given, flat, *settings)
            packed = packed._replace(data=data)
            y, _ = t.nn.utils.rnn.pad_packed_sequence(packed, batch_first=first)
            last = [s[:, packed.unsorted_indices] for s in last]
        y = y.reshape(*y.shape[:2], len(w), -1)
        y = y if first else y.swapaxes(1, 2)
        return (y, *(s.swapaxes(0, 1) if first else s for s in last))

    return theirs


def ours(name: str) -> Any:
    """Return our layer as a function of the inputs that torch's takes."""

    def call(x: Any, w: Any, r: Any, b: Any, *states: Any, **attrs: Any) -> Any:
        lengths = attrs.pop("lengths", None)
        if lengths is not None:
            lengths = x.graph.constant(np.array(lengths))
        return getattr(gw.rnn, name)(x, w, r, b, lengths, *states, **attrs)

    return call


def cases(n_gates: int, n_states: int, **more: Any) -> list[Case]:
    """Return layers of one direction and two, batch first, with lengths, one step, one feature."""
    found: list[Case] = []
    for n_steps, batch, width, size, n, attrs in (
        (5, 3, 4, 6, 1, {}),
        (4, 2, 3, 5, 2, {"direction": "bidirectional"}),
        (6, 3, 2, 3, 2, {"direction": "bidirectional", "layout": 1}),
        (4, 3, 2, 3, 2, {"direction": "bidirectional", "lengths": [2, 4, 1]}),
        (1, 1, 1, 1, 1, {}),
    ):
        first = attrs.get("layout") == 1
        state = (batch, n, size) if first else (n, batch, size)
        found.append(
            (
                normal(batch, n_steps, width) if first else normal(n_steps, batch, width),
                normal(n, n_gates * size, width),
                normal(n, n_gates * size, size),
                normal(n, n_gates * size * 2),
                *(normal(*state) for _ in range(n_states)),
                {**attrs, **more},
            )
        )
    return found


def cell(kind: str, order: tuple[int, ...]) -> Any:
    """Return torch's cell as a function of our inputs."""

    def theirs(t: Any, x: Any, *rest: Any, **attrs: Any) -> Any:
        *states, w, r, b = rest
        weights = (blocks(t, m, order) for m in (w, r, *b.chunk(2)))
        return getattr(t, kind)(x, states if len(states) > 1 else states[0], *weights)

    return theirs


def cell_case(n_gates: int, n_states: int, **attrs: Any) -> Case:
    states = (normal(3, 4) for _ in range(n_states))
    n = n_gates * 4
    return (normal(3, 2), *states, normal(n, 2), normal(n, 4), normal(2 * n), attrs)


def peepholes(t: Any, x: Any, w: Any, r: Any, b: Any, h: Any, c: Any, p: Any, **attrs: Any) -> Any:
    """LSTM with peepholes (Gers and Schmidhuber 2000), gate by gate."""
    w_i, w_o, w_f, w_g = w[0].chunk(4)
    r_i, r_o, r_f, r_g = r[0].chunk(4)
    b_i, b_o, b_f, b_g = sum(b[0].chunk(2)).chunk(4)
    p_i, p_o, p_f = p[0].chunk(3)
    h, c, ys = h[0], c[0], []
    for step in x:
        i = t.sigmoid(step @ w_i.T + h @ r_i.T + b_i + p_i * c)
        f = t.sigmoid(step @ w_f.T + h @ r_f.T + b_f + p_f * c)
        c = f * c + i * t.tanh(step @ w_g.T + h @ r_g.T + b_g)
        h = t.sigmoid(step @ w_o.T + h @ r_o.T + b_o + p_o * c) * t.tanh(c)
        ys.append(h)
    return t.stack(ys)[:, None], h[None], c[None]


def lstm_block(t: Any, x: Any, w: Any, r: Any, b: Any, h: Any, c: Any, **attrs: Any) -> Any:
    """What each step of torch's cell goes through."""
    rows = []
    for step in x:
        z = step @ w.T + h @ r.T + sum(b.chunk(2))
        i, o, f, g = z.chunk(4, 1)
        i, o, f, g = t.sigmoid(i), t.sigmoid(o), t.sigmoid(f + 1.0), t.tanh(g)
        c = f * c + i * g
        h = o * t.tanh(c)
        rows.append((i, c, f, o, g, t.tanh(c), h))
    return tuple(t.stack(column) for column in zip(*rows, strict=True))


def sru_cell(t: Any, x: Any, c: Any, w: Any, b: Any) -> Any:
    w_u, w_f, w_r = w.chunk(3)
    b_f, b_r = b.chunk(2)
    f, r = t.sigmoid(x @ w_f.T + b_f), t.sigmoid(x @ w_r.T + b_r)
    c = t.lerp(x @ w_u.T, c, f)
    return t.lerp(x, t.tanh(c), r), c


def sru(t: Any, x: Any, w: Any, b: Any, c: Any) -> Any:
    steps = []
    for step in x:
        h, c = sru_cell(t, step, c, w, b)
        steps.append((h, c))
    return tuple(t.stack(column) for column in zip(*steps, strict=True))


def linear_scan(t: Any, a: Any, b: Any, h: Any, **attrs: Any) -> Any:
    """The recurrence in closed form: products of all factors between two steps."""
    a, b = (x.movedim(attrs.get("axis", 0), 0) for x in (a, b))
    if attrs.get("reverse"):
        a, b = a.flip(0), b.flip(0)
    ys = []
    for n in range(len(b)):
        y = t.prod(a[: n + 1], 0) * h
        for k in range(n + 1):
            y = y + t.prod(a[k + 1 : n + 1], 0) * b[k]
        ys.append(y)
    y = t.stack(ys)
    y = y.flip(0) if attrs.get("reverse") else y
    return y.movedim(0, attrs.get("axis", 0))


ROWS: dict[str, Row] = {
    "rnn": Row(layer("rnn_tanh", RNN), cases(1, 1), ours("rnn")),
    "rnn, relu": Row(layer("rnn_relu", RNN), cases(1, 1, activations=("Relu",))[:1], ours("rnn")),
    "rnn_cell": Row(cell("rnn_tanh_cell", RNN), [cell_case(1, 1)]),
    "lstm": Row(layer("lstm", LSTM), cases(4, 2), ours("lstm")),
    "lstm, peepholes": Row(
        peepholes,
        [
            tuple(normal(*s) for s in ((4, 2, 3), (1, 8, 3), (1, 8, 2), (1, 16)))
            + tuple(normal(*s) for s in ((1, 2, 2), (1, 2, 2), (1, 6)))
        ],
        lambda x, w, r, b, h, c, p: gw.rnn.lstm(x, w, r, b, None, h, c, p),
    ),
    "lstm_cell": Row(cell("lstm_cell", LSTM), [cell_case(4, 2)]),
    "lstm_block": Row(
        lstm_block,
        [tuple(normal(*s) for s in ((4, 2, 3), (8, 3), (8, 2), (16,), (2, 2), (2, 2)))],
    ),
    "gru": Row(layer("gru", GRU), cases(3, 1, linear_before_reset=True), ours("gru")),
    "gru_cell": Row(cell("gru_cell", GRU), [cell_case(3, 1, linear_before_reset=True)]),
    "sru": Row(sru, [tuple(normal(*s) for s in ((4, 2, 3), (9, 3), (6,), (2, 3)))]),
    "sru_cell": Row(sru_cell, [tuple(normal(*s) for s in ((2, 3), (2, 3), (9, 3), (6,)))]),
    "linear_scan": Row(
        linear_scan,
        [
            (normal(5, 2), normal(5, 2), normal(2)),
            (normal(2, 4, 1), normal(2, 4, 3), normal(2, 3), {"axis": 1, "reverse": True}),
        ],
    ),
}

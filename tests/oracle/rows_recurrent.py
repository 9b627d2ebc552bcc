"""Recurrent layers beside PyTorch's; state-space models beside their loops, written with torch."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradwright as gw
from tests.oracle.rows import Case, Row, normal, uniform

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


# -- state-space models: step by step --------------------------------------------------------------


def causal_conv(t: Any, x: Any, w: Any, b: Any, past: Any, activation: str = "none") -> Any:
    whole = t.cat([past, x], 2)
    y = t.conv1d(whole, w, b, groups=w.shape[0])
    return (t.nn.functional.silu(y) if activation == "silu" else y), whole[:, :, x.shape[2] :]


def selective(
    t: Any,
    x: Any,
    delta: Any,
    a: Any,
    b: Any,
    c: Any,
    d: Any,
    z: Any,
    shift: Any,
    h: Any,
    **attrs: Any,
) -> Any:
    step = delta + shift
    if attrs.get("delta_softplus"):
        step = t.nn.functional.softplus(step)
    ys = []
    for i in range(x.shape[1]):
        h = t.exp(t.einsum("bd,dn->bdn", step[:, i], a)) * h
        h = h + t.einsum("bd,bd,bn->bdn", step[:, i], x[:, i], b[:, i])
        ys.append(t.einsum("bdn,bn->bd", h, c[:, i]) + d * x[:, i])
    return t.stack(ys, 1) * t.nn.functional.silu(z), h


def mamba2(
    t: Any, x: Any, delta: Any, a: Any, b: Any, c: Any, d: Any, h: Any, chunk_size: int = 64
) -> Any:
    times = x.shape[2] // b.shape[2]
    b, c = (v.repeat_interleave(times, 2) for v in (b, c))
    ys = []
    for i in range(x.shape[1]):
        h = t.exp(delta[:, i] * a)[..., None, None] * h
        h = h + t.einsum("bh,bhn,bhp->bhnp", delta[:, i], b[:, i], x[:, i])
        ys.append(t.einsum("bhnp,bhn->bhp", h, c[:, i]) + d[:, None] * x[:, i])
    return t.stack(ys, 1), h


def delta_rule(
    t: Any, q: Any, k: Any, v: Any, g: Any, beta: Any, s: Any, chunk_size: int = 32, **attrs: Any
) -> Any:
    if attrs.get("normalize"):
        q, k = (x / t.sqrt((x * x).sum(-1, keepdim=True) + 1e-6) for x in (q, k))
    scale = attrs.get("scale") or q.shape[-1] ** -0.5
    ys = []
    for i in range(q.shape[1]):
        s = s * t.exp(g[:, i])[..., None, None]
        wrong = v[:, i] - t.einsum("bhkv,bhk->bhv", s, k[:, i])
        s = s + t.einsum("bhk,bh,bhv->bhkv", k[:, i], beta[:, i], wrong)
        ys.append(t.einsum("bhkv,bhk->bhv", s, q[:, i]) * scale)
    return t.stack(ys, 1), s


def delta_net(
    t: Any, x: Any, wq: Any, wk: Any, wv: Any, wz: Any, wb: Any, wa: Any, conv: Any, *more: Any
) -> Any:
    a_log, bias, norm, wo = more
    f = t.nn.functional
    mixed = t.cat([x @ wq, x @ wk, x @ wv], -1).mT
    mixed = f.silu(t.conv1d(f.pad(mixed, (conv.shape[2] - 1, 0)), conv, groups=len(conv))).mT
    heads = [
        p.unflatten(-1, (len(a_log), -1))
        for p in mixed.split([w.shape[1] for w in (wq, wk, wv)], -1)
    ]
    gate = -a_log.exp() * f.softplus(x @ wa + bias)
    start = x.new_zeros(len(x), len(a_log), heads[0].shape[-1], len(norm))
    y, _ = delta_rule(t, *heads, gate, t.sigmoid(x @ wb), start, normalize=True)
    y = f.rms_norm(y, norm.shape, norm, 1e-6) * f.silu((x @ wz).unflatten(-1, y.shape[2:]))
    return y.flatten(2) @ wo


def spaces(batch: int, steps: int, heads: int, groups: int, n: int, p: int, **attrs: Any) -> Case:
    state = normal(batch, heads, n, p)
    both = (normal(batch, steps, groups, n) for _ in range(2))
    x, delta = normal(batch, steps, heads, p), uniform(0, 1, batch, steps, heads)
    return (x, delta, uniform(-1, 0, heads), *both, normal(heads), state, attrs)


def memories(batch: int, steps: int, heads: int, k: int, v: int, **attrs: Any) -> Case:
    shape = batch, steps, heads
    qk = (normal(*shape, k) / 2 for _ in range(2))
    gates = uniform(-1, 0, *shape), uniform(0, 1, *shape)
    return (*qk, normal(*shape, v), *gates, normal(batch, heads, k, v), attrs)


BLOCK = (
    *((2, 5, 6), (6, 8), (6, 8), (6, 4), (6, 4), (6, 2), (6, 2)),
    *((20, 1, 3), (2,), (2,), (2,), (4, 6)),
)
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
    "causal_conv1d": Row(
        causal_conv,
        [
            (normal(2, 3, 6), normal(3, 1, 4), normal(3), normal(2, 3, 3)),
            (normal(1, 2, 2), normal(2, 1, 4), normal(2), normal(1, 2, 3), {"activation": "silu"}),
            (normal(2, 2, 3), normal(2, 1, 1), normal(2), normal(2, 2, 0)),
        ],
    ),
    "selective_scan": Row(
        selective,
        [
            (
                *(normal(2, 5, 3), uniform(-1, 1, 2, 5, 3), uniform(-1, 0, 3, 4)),
                *(normal(2, 5, 4), normal(2, 5, 4), normal(3), normal(2, 5, 3), normal(3)),
                *(normal(2, 3, 4), {"delta_softplus": softplus}),
            )
            for softplus in (True, False)
        ],
    ),
    "mamba2_ssm": Row(
        mamba2,
        [
            spaces(2, 7, 4, 2, 3, 5, chunk_size=3),
            spaces(1, 6, 2, 1, 2, 3, chunk_size=2),
            spaces(2, 1, 2, 2, 1, 1),
        ],
    ),
    "gated_delta_rule": Row(
        delta_rule,
        [
            memories(2, 7, 2, 3, 4, chunk_size=3),
            memories(1, 6, 1, 4, 2, normalize=True, scale=1.0, chunk_size=2),
            memories(1, 40, 1, 3, 2, normalize=True),
        ],
    ),
    "gated_delta_net_block": Row(delta_net, [tuple(normal(*s) / 2 for s in BLOCK)]),
}

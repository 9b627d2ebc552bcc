"""Networks whose work is done inside: scans, whiles, maps, branches and functions, nested too."""

from __future__ import annotations

import gradwright as gw
from tests.mutants.straight import Network


def recurrent(net: Network) -> Network:
    """A plain recurrent cell in a scan."""
    w, u, b = net.weight("w", 3, 4), net.weight("u", 4, 4), net.weight("b", 4)

    def cell(h, x):
        h = gw.tanh(x @ w + h @ u + b)
        return h, h

    _, hs = gw.scan(cell, net.graph.constant([[0.0] * 4] * 2), net.data("x", 5, 2, 3), name="scan")
    return net.ends(gw.mean(gw.square(hs @ net.weight("v", 4, 1) - net.data("t", 5, 2, 1))))


def lstm(net: Network) -> Network:
    """An LSTM cell written out, in a scan over two carries."""
    w, u, b = net.weight("w", 2, 12), net.weight("u", 3, 12), net.weight("b", 12)

    def cell(carry, x):
        h, c = carry
        i, f, o, g = gw.split(x @ w + h @ u + b, (3, 3, 3, 3), axis=-1)
        c = gw.nn.sigmoid(f) * c + gw.nn.sigmoid(i) * gw.tanh(g)
        h = gw.nn.sigmoid(o) * gw.tanh(c)
        return (h, c), h

    start = net.weight("h0", 2, 3), net.weight("c0", 2, 3)
    (h, _), hs = gw.scan(cell, start, net.data("x", 4, 2, 2), name="lstm")
    y = (gw.mean(hs, 0) + h) @ net.weight("v", 3, 3)
    return net.ends(gw.loss.sparse_softmax_cross_entropy(net.classes("t", 3, 2), y))


def gru(net: Network) -> Network:
    """A GRU cell that goes backwards, with attention over its states."""
    w, u = net.weight("w", 2, 9), net.weight("u", 3, 9)

    def cell(h, x):
        wx, uh = x @ w, h @ u
        z = gw.nn.sigmoid(wx[:, :3] + uh[:, :3])
        r = gw.nn.sigmoid(wx[:, 3:6] + uh[:, 3:6])
        new = gw.tanh(wx[:, 6:] + r * uh[:, 6:])
        h = (1.0 - z) * new + z * h
        return h, h

    last, hs = gw.scan(cell, net.weight("h0", 2, 3), net.data("x", 4, 2, 2), reverse=True)
    weights = gw.nn.softmax(gw.sum(hs * last, -1), axis=0)
    y = gw.sum(gw.expand_dims(weights, -1) * hs, 0)
    return net.ends(gw.mean(gw.square(y - net.data("t", 2, 3))))


def nested(net: Network) -> Network:
    """Words in sentences: a scan in a scan."""
    w, u, v = net.weight("w", 2, 3), net.weight("u", 3, 3), net.weight("v", 3, 3)

    def word(h, x):
        h = gw.tanh(x @ w + h @ u)
        return h, gw.square(h)

    def sentence(s, xs):
        h, squares = gw.scan(word, s * 0.5, xs, name="words")
        s = gw.nn.softplus(h @ v + s)
        return s, gw.sum(squares, 0)

    last, sums = gw.scan(
        sentence, net.weight("s0", 2, 3), net.data("x", 3, 2, 2, 2), name="sentences"
    )
    return net.ends(gw.mean(gw.square(last)) + gw.mean(gw.exp(-sums)))


def mapped(net: Network) -> Network:
    """A map over rows within each step of a scan."""
    w, b = net.weight("w", 3, 3), net.weight("b", 3)

    def step(h, x):
        def row(r):
            return gw.nn.silu(gw.reshape(gw.expand_dims(r, 0) @ w, (3,)) + b)

        h = h + gw.map_fn(row, h * x, name="rows")
        return h, gw.mean(h)

    h, means = gw.scan(step, net.weight("h0", 2, 3), net.data("x", 3, 2, 3), name="steps")
    return net.ends(gw.sum(gw.square(means)) + gw.mean(gw.square(h)))


def branched(net: Network) -> Network:
    """One of two layers by the sign of an input, in each step of a scan."""
    w, v = net.weight("w", 3, 3), net.weight("v", 3, 3)

    def step(h, x):
        h = gw.cond(
            gw.sum(x) > 0.0,
            lambda: gw.tanh(h @ w) + x,
            lambda: gw.nn.sigmoid(h @ v) * x,
            name="choose",
        )
        return h, gw.sum(gw.square(h))

    _, sums = gw.scan(step, net.weight("h0", 2, 3), net.data("x", 5, 2, 3), name="steps")
    return net.ends(gw.mean(gw.log(1.0 + sums)))


def repeated(net: Network) -> Network:
    """A fixed point by iteration: a while that stops by its count."""
    w, b = net.weight("w", 3, 3), net.weight("b", 3)
    x = net.data("x", 2, 3)

    def step(carry):
        n, h = carry
        return n + 1.0, gw.tanh(h @ w * 0.5 + x) + b

    start = net.graph.constant(0.0), x * net.weight("s", 3, about=1.0)
    _, h = gw.while_loop(lambda c: c[0] < 4.0, step, start, name="iterate")
    return net.ends(gw.mean(gw.square(h - net.data("t", 2, 3))))


def scan_in_while(net: Network) -> Network:
    """Sweeps over a sequence, repeated."""
    w = net.weight("w", 3, 3)
    xs = net.data("x", 3, 2, 3)

    def sweep(carry):
        n, h = carry

        def step(h, x):
            h = h + 0.3 * gw.sin(h @ w + x)
            return h, None

        h, _ = gw.scan(step, h, xs, name="sweep")
        return n + 1.0, h

    start = net.graph.constant(0.0), net.weight("h0", 2, 3)
    _, h = gw.while_loop(lambda c: c[0] < 2.0, sweep, start, name="again")
    return net.ends(gw.mean(gw.nn.softplus(h)))


@gw.function("dense")
def dense(x, w, b):
    """A layer."""
    return gw.nn.gelu(x @ w + b)


@gw.function("two_layers")
def two_layers(x, w, b, v):
    """A layer in a function in a function."""
    return dense(x, w, b) @ v + x


def called(net: Network) -> Network:
    """Functions that call functions."""
    h = net.data("x", 4, 3)
    for i in range(2):
        h = two_layers(
            h, net.weight(f"w{i}", 3, 5), net.weight(f"b{i}", 5), net.weight(f"v{i}", 5, 3)
        )
    return net.ends(gw.mean(gw.square(h - net.data("t", 4, 3))))


def called_in_scan(net: Network) -> Network:
    """Functions as the body of a scan."""
    w, b, v = net.weight("w", 3, 4), net.weight("b", 4), net.weight("v", 4, 3)

    def step(h, x):
        h = gw.tanh(two_layers(h + x, w, b, v))
        return h, gw.sum(h, -1)

    _, sums = gw.scan(step, net.weight("h0", 2, 3), net.data("x", 3, 2, 3), name="steps")
    return net.ends(gw.mean(gw.square(sums - 1.0)))


def integrated(net: Network) -> Network:
    """A differential equation: Heun's steps in a scan, deeper in a branch at the top."""
    w, v = net.weight("w", 2, 4), net.weight("v", 4, 2)

    def slope(y):
        return gw.tanh(y @ w) @ v

    def run():
        def step(y, t):
            k = slope(y)
            y = y + 0.1 * (k + slope(y + 0.2 * k)) * t
            return y, y

        _, path = gw.scan(step, net.weight("y0", 3, 2), net.data("t", 4), name="path")
        return gw.mean(gw.square(path - 0.3))

    start = net.weight("go", 1, about=1.0)
    return net.ends(gw.sum(gw.square(start)) + run())


def chosen(net: Network) -> Network:
    """A cond at the top that holds a scan, a function and a cond."""
    w, b, v = net.weight("w", 3, 4), net.weight("b", 4), net.weight("v", 4, 3)
    x, xs = net.data("x", 2, 3), net.data("xs", 3, 2, 3)

    def long():
        def step(h, x):
            h = gw.cond(
                gw.mean(x) > 0.0, lambda: gw.exp(-gw.square(h)) + x, lambda: h * x, name="sign"
            )
            return h, None

        return gw.scan(step, two_layers(x, w, b, v), xs, name="steps")[0]

    y = gw.cond(gw.mean(gw.square(x)) > 0.0, long, lambda: gw.tanh(x @ w) @ v, name="which")
    return net.ends(gw.mean(gw.square(y)))


def long(net: Network) -> Network:
    """Forty turns of a leaky state, with dropout."""
    net.training = True
    w, u = net.weight("w", 2, 3), net.weight("u", 3, 3)

    def step(h, x):
        h = 0.8 * h + 0.5 * gw.nn.dropout(gw.tanh(x @ w + h @ u), 0.2)
        return h, gw.mean(gw.square(h))

    _, sizes = gw.scan(step, net.weight("h0", 2, 3), net.data("x", 40, 2, 2), name="steps")
    return net.ends(gw.mean(gw.sqrt(sizes + 0.1)))


LOOPED = (
    *(recurrent, lstm, gru, nested, mapped, branched, repeated, scan_in_while),
    *(called, called_in_scan, integrated, chosen, long),
)

"""Mixtures of experts beside their definition, written with torch expert by expert."""

from __future__ import annotations

from typing import Any

from tests.oracle.rows import Case, Row, ints, normal


def gate(t: Any, x: Any, w: Any, k: int = 2, renormalize: bool = False) -> Any:
    p = t.softmax(x @ w, -1)
    weights, experts = t.topk(p, k)
    if renormalize:
        weights = weights / weights.sum(-1, keepdim=True)
    n = w.shape[1]
    counts = t.bincount(experts.flatten(), minlength=n).to(p.dtype)
    balance = n * (counts / counts.sum()) @ p.reshape(-1, n).mean(0)
    return weights, experts, balance


def mixture(
    t: Any, x: Any, g: Any, w1: Any, w2: Any, w3: Any, b1: Any, b2: Any, **attrs: Any
) -> Any:
    """Every expert computes all tokens; those that did not choose it weigh 0."""
    f = getattr(t.nn.functional, attrs.pop("activation", "silu"))
    weights, experts, balance = gate(t, x, g, **attrs)
    y = t.zeros_like(x)
    for e in range(g.shape[1]):
        hidden = f(x @ w1[e] + b1[e]) * (x @ w3[e])
        own = (weights * (experts == e)).sum(-1, keepdim=True)
        y = y + own * (hidden @ w2[e] + b2[e])
    return y, balance


def shared(
    t: Any,
    x: Any,
    g: Any,
    w1: Any,
    w2: Any,
    s1: Any,
    s2: Any,
    w3: Any,
    s3: Any,
    sg: Any,
    **attrs: Any,
) -> Any:
    b1, b2 = t.zeros_like(w1[:, 0]), t.zeros_like(w2[:, 0])
    f = getattr(t.nn.functional, attrs.get("activation", "silu"))
    y, balance = mixture(t, x, g, w1, w2, w3, b1, b2, **attrs)
    return y + t.sigmoid(x @ sg) * ((f(x @ s1) * (x @ s3)) @ s2), balance


def experts(n: int, d: int, f: int, *lead: int, **attrs: Any) -> Case:
    w = normal(n, d, f), normal(n, f, d), normal(n, d, f), normal(n, f), normal(n, d)
    return (normal(*lead, d), normal(d, n), *w, attrs)


ROWS: dict[str, Row] = {
    "moe_gate": Row(
        gate,
        [
            (normal(7, 3), normal(3, 5)),
            (normal(2, 3, 4), normal(4, 6), {"k": 3, "renormalize": True}),
            (normal(3), normal(3, 4), {"k": 1}),
        ],
    ),
    "mixture_of_experts": Row(
        mixture,
        [
            experts(5, 3, 4, 9),
            experts(4, 2, 3, 2, 1, 3, k=3, renormalize=True, activation="gelu"),
            experts(8, 3, 2, 2, k=1),
        ],
    ),
    "moe_shared_experts": Row(
        shared,
        [
            (
                *(normal(*s) for s in ((2, 3, 4), (4, 5), (5, 4, 3), (5, 3, 4), (4, 6), (6, 4))),
                *(normal(*s) for s in ((5, 4, 3), (4, 6), (4, 1))),
            )
        ],
    ),
    "grouped_matmul": Row(
        lambda t, x, w, sizes: t.einsum(
            "md,mdf->mf", x, w[t.repeat_interleave(t.arange(len(w)), sizes)]
        ),
        [(normal(6, 3), normal(4, 3, 2), ints(2, 3, 4) - [1, 1, 2, 0] + [0, 0, 0, 2])],
    ),
}

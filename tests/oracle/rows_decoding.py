"""Attention by states, and choices of tokens and labels, beside PyTorch step by step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import gradwright as gw
from tests.oracle.rows import Case, Row, normal, uniform

ELSEWHERE = {
    "token_sample": "random: its frequencies are tested in test_sampling.py",
    "top_k_sample": "random: its frequencies are tested in test_sampling.py",
    "top_p_sample": "random: its frequencies are tested in test_sampling.py",
    "xtc_filter": "random: held against its rule, row by row, in test_sampling.py",
}


def stepwise(
    t: Any, q: Any, k: Any, v: Any, state: Any = None, decay: Any = None, beta: Any = None,
    q_num_heads: int = 1, kv_num_heads: int = 1, update_rule: str = "", scale: Any = None,
    chunk_size: int = 0,
) -> Any:  # fmt: skip
    """Return the recurrence, one position after the other."""
    q = q.unflatten(2, (q_num_heads, -1))
    k, v = (x.unflatten(2, (kv_num_heads, -1)) for x in (k, v))
    share = q_num_heads // kv_num_heads
    if state is None:
        state = k.new_zeros(k.shape[0], kv_num_heads, k.shape[3], v.shape[3])
    ys = []
    for i in range(q.shape[1]):
        if decay is not None:
            rate = decay[:, i].unflatten(1, (kv_num_heads, -1))
            state = state * rate.exp()[..., None]
        write = v[:, i]
        if beta is not None:
            write = beta[:, i, :, None] * (write - t.einsum("bhe,bhed->bhd", k[:, i], state))
        state = state + t.einsum("bhe,bhd->bhed", k[:, i], write)
        read = state.repeat_interleave(share, 1)
        ys.append(t.einsum("bhe,bhed->bhd", q[:, i], read).flatten(1))
    return t.stack(ys, 1) * (scale or 1 / math.sqrt(q.shape[3])), state


def one_step(
    t: Any, q: Any, k: Any, v: Any, state: Any, decay: Any = None, beta: Any = None
) -> Any:
    rest = [None if x is None else x.flatten(1)[:, None] for x in (decay, beta)]
    shape = {"q_num_heads": q.shape[1], "kv_num_heads": k.shape[1]}
    y, state = stepwise(t, *(x.flatten(1)[:, None] for x in (q, k, v)), state, *rest, **shape)
    return y[:, 0].unflatten(1, (q.shape[1], -1)), state


def lightning(
    t: Any, q: Any, k: Any, v: Any, rate: Any, state: Any = None, chunk_size: int = 0
) -> Any:
    n = q.shape[1]
    packed = (x.transpose(1, 2).flatten(2) for x in (q, k, v))
    decay = -rate.expand(q.shape[0], q.shape[2], n)
    y, state = stepwise(t, *packed, state, decay, q_num_heads=n, kv_num_heads=n, scale=1.0)
    return y.unflatten(2, (n, -1)).transpose(1, 2), state


def typical(t: Any, logits: Any, p: float = 0.95) -> Any:
    """Return Hugging Face's rule."""
    log = logits.detach().double().log_softmax(-1)
    away = ((-log) - -(log * log.exp()).nansum(-1, keepdim=True)).abs()
    ranked, order = away.sort(descending=False, stable=True)
    total = logits.detach().double().gather(-1, order)
    total = log.exp().gather(-1, order).cumsum(-1) + 0 * total
    last = (total < p).sum(-1, keepdim=True).clamp(max=log.shape[-1] - 1)
    struck = (ranked > ranked.gather(-1, last)).scatter(-1, order, ranked > ranked.gather(-1, last))
    return logits.masked_fill(struck, -math.inf)


def greedy(t: Any, logits: Any, n: Any = None, blank: int = 0) -> Any:
    t_max, b, _ = logits.shape
    ends = [t_max] * b if n is None else n.tolist()
    labels, counts, scores = t.full((b, t_max), -1), [], []
    for i, end in enumerate(ends):
        best, path = logits[:end, i].max(-1)
        path = t.unique_consecutive(path)
        path = path[path != blank]
        labels[i, : len(path)] = path
        counts.append(len(path))
        scores.append(best.sum())
    return labels, t.tensor(counts), t.stack(scores)


def remembered(rule: str, by_feature: bool = False) -> Case:
    q, k, v = normal(2, 7, 8), normal(2, 7, 6) / 3, normal(2, 7, 4)
    q = normal(2, 7, 12)
    more: list[Any] = [normal(2, 2, 3, 2)]
    if rule != "linear":
        more.append(-uniform(0, 1, 2, 7, 6 if by_feature else 2) if "gated" in rule else None)
    if "delta" in rule:
        more.append(uniform(0, 1, 2, 7, 2))
    heads = {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": rule, "chunk_size": 3}
    return q, k, v, *more, heads


DELTA = remembered("delta")
STEP = normal(2, 4, 3), normal(2, 2, 3), normal(2, 2, 5), normal(2, 2, 3, 5)
LIGHT = normal(2, 3, 7, 4), normal(2, 3, 7, 4), normal(2, 3, 7, 2), uniform(0, 0.5, 3)

ROWS: dict[str, Row] = {
    "linear_attention": Row(
        stepwise,
        [
            remembered("linear"),
            remembered("gated"),
            remembered("gated", by_feature=True),
            remembered("gated_delta"),
            remembered("gated_delta", by_feature=True),
        ],
    ),
    "linear_attention, that corrects": Row(
        lambda t, q, k, v, s, b, **attrs: stepwise(t, q, k, v, s, None, b, **attrs),
        [(*DELTA[:4], *DELTA[5:])],
        lambda q, k, v, s, b, **attrs: gw.nn.linear_attention(q, k, v, s, None, b, **attrs),
    ),
    "linear_attention_decode": Row(
        one_step,
        [
            STEP,
            (*STEP, -uniform(0, 1, 2, 2, 3)),
            (*STEP, -uniform(0, 1, 2, 2), uniform(0, 1, 2, 2)),
        ],
    ),
    "lightning_attention": Row(
        lightning, [(*LIGHT, {"chunk_size": 3}), (*LIGHT, normal(2, 3, 4, 2))]
    ),
    "typical_p_filter": Row(
        typical, [(normal(4, 9) * 2, {"p": p}) for p in (0.0, 0.2, 0.6, 0.95, 1.0)] + [(normal(1),)]
    ),
    "ctc_greedy_decoder": Row(
        greedy,
        [
            (normal(9, 3, 3),),
            (normal(9, 3, 3), np.array([9, 0, 4]), {"blank": 2}),
            (normal(1, 2, 2),),
        ],
    ),
}

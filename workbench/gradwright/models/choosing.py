"""The next token of rows: what strategies leave of their logits, and a draw of their own for each.

A draw is a function of a row's seed and of how many tokens it has, so that it is the same whichever
rows are beside it. Rows are chosen for together, pieces of them as large as caches of processors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import GraphError
from ..ops.draws import philox
from .sampling import OF_ROWS, Greedy, Sampling, Strategy, Temperature, in_order, softmax

Array = np.ndarray[Any, Any]
_AT_ONCE = 1 << 16
"""How many logits are looked at together, at the least those of a row: 0.5 MB as float64."""
_BLOCK, _FEW = 64, 1 << 13
"""Probabilities that are added up together before they are looked at one by one, and how many are
looked at one by one at once: 8 µs, not 50."""
_AHEAD = 64
"""How many draws of a row are made together: one alone takes 5 µs, 1 µs of many."""


def probabilities(
    logits: Any, sampling: Sampling = (), tokens: Sequence[int] = (), n_prompt: int = 0
) -> Array:
    """Return the probabilities f64[V] from which the next token is drawn.

    ``tokens`` are those so far, of which ``n_prompt`` are the prompt's.

    >>> from gradwright.models import TopK
    >>> from gradwright.models import probabilities
    >>> probabilities([1.0, 1.0, 0.0], TopK(2)).tolist()
    [0.5, 0.5, 0.0]
    """
    rows = np.asarray(logits)[None]
    _checked_top(rows)
    return np.asarray(softmax(_left(rows, in_order(sampling), [tokens], [n_prompt])[0]))


def choose(
    logits: Any,
    sampling: Sampling = (),
    tokens: Sequence[int] = (),
    n_prompt: int = 0,
    *,
    seed: int = 0,
) -> int:
    """Return the next token for logits f32[V] after ``tokens``.

    What is drawn is a function of the seed and the number of tokens so far, and of nothing else:
    not of the rows beside it, nor of where generation was interrupted. Raises GraphError for logits
    that are NaN, or +∞, or −∞ altogether.

    >>> from gradwright.models import choose
    >>> [choose([1.0, 1.0, 1.0], (), [0] * n) for n in range(6)]
    [0, 0, 1, 1, 0, 0]
    """
    draws, row = Draws([seed], 1), np.asarray(logits)[None]
    (token,), _ = chosen(row, in_order(sampling), [tokens], [n_prompt], draws, [0])
    return token


class Draws:
    """Uniform draws of rows: multiples of 2⁻⁵³ in [0, 1), each a function of a seed and a number.

    Args:
        seeds: of the rows.
        ahead: how many of a row are made together, at the most.

    >>> draws = Draws([7, 8], 4)
    >>> bool(draws.of([1], [5]) == Draws([8], 1).of([0], [5]))
    True
    """

    def __init__(self, seeds: Sequence[int], ahead: int) -> None:
        self._seeds = np.array([seed % 2**64 for seed in seeds], np.uint64)
        self._first = np.full(len(seeds), -1, np.int64)
        """The number of the first draw that is there of each row; −1 where there is none."""
        self._made = np.zeros((len(seeds), min(ahead, _AHEAD)))

    def of(self, rows: Sequence[int], numbers: Sequence[int]) -> Array:
        """Return the draw f64[n] of each row that has a number."""
        row, number = np.array(rows, np.int64), np.array(numbers, np.int64)
        n = self._made.shape[1]
        at = number - self._first[row]
        lacking = (self._first[row] < 0) | (at < 0) | (at >= n)
        if lacking.any():
            new = row[lacking]
            self._first[new] = number[lacking]
            each = np.stack(
                np.broadcast_arrays(
                    self._seeds[new, None],
                    (self._first[new, None] + np.arange(n)).astype(np.uint64),
                ),
                -1,
            )
            words = philox.fold_in_each(each.reshape(-1, 2), 0)[:, 0]
            self._made[new] = ((words >> np.uint64(11)) * 2.0**-53).reshape(-1, n)
            at = number - self._first[row]
        return np.asarray(self._made[row, at])


def chosen(
    logits: Array,
    rules: Sequence[Strategy],
    tokens: Sequence[Sequence[int]],
    n_prompt: Sequence[int],
    draws: Draws,
    rows: Sequence[int],
    said_at: float | None = None,
) -> tuple[list[int], Array | None]:
    """Return the next token of rows, for logits f32[n, V], by strategies that are in order.

    With ``said_at`` it returns what `said` at this temperature does, f32[2, n], too.
    """
    greedy = bool(rules) and type(rules[-1]) is Greedy
    drawn = None if greedy else draws.of(rows, [len(held) for held in tokens])
    found: list[int] = []
    told = None if said_at is None else np.empty((2, len(logits)), np.float32)
    is_said_whole = said_at is not None and tuple(rules) == _softmax_at(said_at)
    step = max(1, _AT_ONCE // logits.shape[-1])
    for at in range(0, len(logits), step):
        part, x, powers = slice(at, at + step), logits[at : at + step], None
        top = _checked_top(x)
        y = _left(x, rules[:-1] if greedy else rules, tokens[part], n_prompt[part])
        if drawn is None:
            new = y.argmax(-1)
        else:
            powers = _Powers(y, top if y is x else y.max(-1))
            new = _drawn(powers, drawn[part])
        found += new.tolist()
        if told is not None and said_at is not None:
            if is_said_whole and powers is not None and powers.sizes is None:
                told[:, part] = _told(powers.low, powers.p, new)
            else:
                told[:, part] = said(x, new, said_at)
    return found, told


def _softmax_at(temperature: float) -> tuple[Strategy, ...]:
    """Return the strategies that draw from the whole softmax at a temperature."""
    return () if temperature == 1 else (Temperature(temperature),)


class _Powers:
    """Logits f32[n, V] of rows less their maxima, e to the power of these, and how many are left.

    ``sizes`` is None where all are.
    """

    def __init__(self, y: Array, top: Array) -> None:
        self.low = y - top[:, None]
        self.sizes = self.tokens = None
        if self.low.min(initial=0) == -np.inf:
            left = self.low > -np.inf
            self.sizes = left.sum(-1)
            if 2 * self.sizes.max() < y.shape[-1]:
                self.tokens, self.low = _together(self.low, left, self.sizes)
        self.p = np.exp(self.low)


def _together(low: Array, left: Array, sizes: Array) -> tuple[Array, Array]:
    """Return which tokens are left of each row, one after another, and what they are."""
    row, token = np.nonzero(left)
    place = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    tokens = np.zeros((len(low), sizes.max()), np.int64)
    few = np.full(tokens.shape, -np.inf, low.dtype)
    tokens[row, place], few[row, place] = token, low[row, token]
    return tokens, few


def _drawn(powers: _Powers, uniform: Array) -> Array:
    """Return the token of each row whose share of the total exceeds a draw first.

    So one of probability 0 is never drawn. Where few tokens are left, others are not looked at.
    """
    at, tokens = _reached(powers.p, uniform), powers.tokens
    return np.asarray(at if tokens is None else tokens[np.arange(len(at)), at])


def _reached(p: Array, uniform: Array) -> Array:
    """Return where sums along rows of p >= 0 first exceed a share of their totals.

    Rows are added up block by block, and number by number within the block alone that holds it.
    Sums are float64, so that which tokens are looked at, which rows beside may decide, does not.
    """
    n, columns = p.shape
    rows, whole = np.arange(n), columns // _BLOCK * _BLOCK
    if not whole or p.size <= _FEW:
        total = np.cumsum(p, -1, dtype=np.float64)
        return _within(p, total, uniform * total[:, -1])
    blocks = np.einsum("nbk->nb", p[:, :whole].reshape(n, -1, _BLOCK), dtype=np.float64)
    if whole < columns:
        rest = p[:, whole:].sum(-1, keepdims=True, dtype=np.float64)
        blocks = np.concatenate([blocks, rest], -1)
    total = np.cumsum(blocks, -1)
    share = np.minimum(uniform * total[:, -1], np.nextafter(total[:, -1], 0))
    block = (total <= share[:, None]).sum(-1)
    share -= np.where(block > 0, total[rows, block - 1], 0)
    first = block * _BLOCK
    place = first[:, None] + np.arange(_BLOCK)
    if whole < columns:
        held = np.where(place < columns, p[rows[:, None], np.minimum(place, columns - 1)], 0)
    else:
        held = p.reshape(n, -1, _BLOCK)[rows, block]
    return np.asarray(first + _within(held, np.cumsum(held, -1, dtype=np.float64), share))


def _within(p: Array, total: Array, share: Array) -> Array:
    """Return where running totals of rows first exceed a share; at the last p > 0 if none does."""
    at = (total <= share[:, None]).sum(-1)
    if at.max(initial=0) == p.shape[-1]:  # where sums differ by rounding
        at = np.minimum(at, p.shape[-1] - 1 - (p[:, ::-1] > 0).argmax(-1))
    return np.asarray(at)


def said(logits: Array, tokens: Array, temperature: float) -> Array:
    """Return the log-probability of a token of each row, and the entropy, f32[2, n].

    They are those of softmax(logits/temperature), whatever strategies leave of it.

    >>> said(np.zeros((1, 2), "f4"), np.array([1]), 1.0).tolist()
    [[-0.6931471824645996], [0.6931471824645996]]
    """
    x = logits if temperature == 1 else logits / logits.dtype.type(temperature)
    x = np.maximum(x - x.max(-1, keepdims=True), np.finfo(x.dtype).min)  # 0·−∞ is nothing
    return _told(x, np.exp(x), tokens)


def _told(low: Array, p: Array, tokens: Array) -> Array:
    """Return what `said` does, for logits less their maxima and e to the power of these."""
    total = p.sum(-1)
    norm = np.log(total)
    of_token = low[np.arange(len(low)), tokens]
    return np.stack([of_token - norm, norm - np.vecdot(p, low) / total])


def _checked_top(logits: Array) -> Array:
    """Return the largest logit of rows; refuse those from which there is no token to choose."""
    top = np.asarray(logits.max(-1))
    if not ((top > -np.inf) & (top < np.inf)).all():
        wrong = next(float(t) for t in top if not -np.inf < t < np.inf)
        raise GraphError(
            f"the largest logit of a row is {wrong}: no token to choose",
            need="no NaN, no ∞, and something above −∞",
        )
    return top


def _left(
    logits: Array,
    rules: Sequence[Strategy],
    tokens: Sequence[Sequence[int]],
    n_prompt: Sequence[int],
) -> Array:
    """Return what strategies leave of the logits of rows, f32[n, V]."""
    for rule in rules:
        if type(rule) in OF_ROWS:
            logits = rule(logits, (), 0)
        else:
            each = zip(logits, tokens, n_prompt, strict=True)
            logits = np.stack([rule(y, held, n) for y, held, n in each])
    if rules and (logits.max(-1) == -np.inf).any():
        raise GraphError(f"{list(rules)} forbid every token", hint="weaker ones")
    return logits

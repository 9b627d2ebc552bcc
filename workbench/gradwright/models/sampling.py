"""Strategies of choosing the next token: small settings that are combined in a list.

They act on the logits of a row in numpy, outside the graph: what they look up depends on all
tokens so far, whose number grows, and 10 µs in numpy are less than another plan. In whatever order
they are listed, they act in that of transformers' ``generate``: penalties, what is forbidden,
temperature, then the filters top-k, top-p and min-p, each on what the one before has left.
The last four take the logits of several rows at once, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import GraphError
from ..words.jsonable import jsonable
from .tokenizers import TextCodec

Array = np.ndarray[Any, Any]


class Strategy:
    """A rule that changes the logits of the next token, f32[V]; −∞ forbids one.

    >>> import numpy as np
    >>> from gradwright.models import Greedy, Strategy, choose
    >>> class NotTwice(Strategy):
    ...     def __call__(self, logits, tokens, n_prompt):
    ...         return np.where(np.arange(len(logits)) == tokens[-1], -np.inf, logits)
    >>> choose(np.array([0.0, 2.0, 1.0]), [NotTwice(), Greedy()], [0, 1])
    2
    """

    order: ClassVar[int] = 0
    """Rules act by rising order."""

    def __call__(self, logits: Array, tokens: Sequence[int], n_prompt: int) -> Array:
        """Return new logits, given all tokens of the row, of which ``n_prompt`` are the prompt's.

        What comes in is left as it is.
        """
        raise NotImplementedError

    def bound(self, tokenizer: TextCodec | None, eos: frozenset[int], vocabulary: int) -> Strategy:
        """Return what acts in a generation with a tokenizer and tokens that end a row."""
        return self

    def ended(self, tokens: Sequence[int], n_prompt: int) -> bool:
        """Tell whether nothing can follow in a row; its end is not one of the tokens."""
        return False


def _check(ok: bool, strategy: Any, need: str) -> None:
    if not ok:
        raise GraphError(f"{strategy} makes no sense", need=need)


@jsonable
@dataclass(frozen=True)
class Greedy(Strategy):
    """The token of the largest logit, the first of several; nothing is drawn.

    >>> import numpy as np
    >>> from gradwright.models import Greedy, choose
    >>> choose(np.array([0.0, 2.0, 1.0]), [Greedy()])
    1
    """

    order: ClassVar[int] = 9

    def __call__(self, logits: Array, tokens: Sequence[int], n_prompt: int) -> Array:
        chosen = np.full_like(logits, -np.inf)
        best = logits.argmax()
        chosen[best] = logits[best]
        return chosen


@jsonable
@dataclass(frozen=True)
class RepetitionPenalty(Strategy):
    """Tokens that were there already, in the prompt too, become less likely (Keskar et al. 2019).

    x → x/penalty where x > 0, else x·penalty

    >>> import numpy as np
    >>> from gradwright.models import RepetitionPenalty
    >>> RepetitionPenalty(2.0)(np.array([3.0, -1.0, 1.0]), [0, 1, 0], 1).tolist()
    [1.5, -2.0, 1.0]
    """

    penalty: float = 1.1
    order: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _check(self.penalty > 0, self, "penalty > 0; 1 does nothing")

    def __call__(self, logits: Array, tokens: Sequence[int], n_prompt: int) -> Array:
        y, at = logits.copy(), np.array(tokens, np.intp)
        held = logits[at]
        y[at] = np.where(held < 0, held * self.penalty, held / self.penalty)
        return y


@jsonable
@dataclass(frozen=True)
class FrequencyPenalty(Strategy):
    """Tokens lose by how often they were generated: x → x − penalty·count.

    >>> import numpy as np
    >>> from gradwright.models import FrequencyPenalty
    >>> FrequencyPenalty(0.5)(np.zeros(3), [2, 0, 1, 1], 1).tolist()
    [-0.5, -1.0, 0.0]
    """

    penalty: float = 0.5
    order: ClassVar[int] = 1

    def __call__(self, logits: Array, tokens: Sequence[int], n_prompt: int) -> Array:
        counts = np.bincount(np.array(tokens[n_prompt:], np.intp), minlength=len(logits))
        return np.asarray(logits - (self.penalty * counts).astype(logits.dtype))


@jsonable
@dataclass(frozen=True)
class PresencePenalty(Strategy):
    """Tokens that were generated at all lose the same: x → x − penalty.

    >>> import numpy as np
    >>> from gradwright.models import PresencePenalty
    >>> PresencePenalty(0.5)(np.zeros(3), [2, 0, 1, 1], 1).tolist()
    [-0.5, -0.5, 0.0]
    """

    penalty: float = 0.5
    order: ClassVar[int] = 1

    def __call__(self, logits: Array, tokens: Sequence[int], n_prompt: int) -> Array:
        y = logits.copy()
        y[np.unique(np.array(tokens[n_prompt:], np.intp))] -= self.penalty
        return y


@jsonable
@dataclass(frozen=True)
class NoRepeatNgram(Strategy):
    """No n tokens in a row come twice, the prompt included: what would complete them is forbidden.

    >>> import numpy as np
    >>> from gradwright.models import NoRepeatNgram
    >>> NoRepeatNgram(2)(np.zeros(3), [0, 1, 2, 0], 0).tolist()
    [0.0, -inf, 0.0]
    """

    n: int = 3
    order: ClassVar[int] = 2

    def __post_init__(self) -> None:
        _check(isinstance(self.n, int) and self.n >= 1, self, "an int n >= 1")

    def __call__(self, logits: Array, tokens: Sequence[int], n_prompt: int) -> Array:
        y, seen = logits.copy(), np.array(tokens, np.intp)
        if len(seen) >= self.n:
            runs = np.lib.stride_tricks.sliding_window_view(seen, self.n)
            begun = seen[len(seen) + 1 - self.n :]
            y[runs[(runs[:, :-1] == begun).all(1), -1]] = -np.inf
        return y


@jsonable
@dataclass(frozen=True)
class Temperature(Strategy):
    """Logits divided by a temperature: below 1 the likely becomes likelier, above 1 less so.

    >>> import numpy as np
    >>> from gradwright.models import Temperature
    >>> Temperature(0.5)(np.array([1.0, 2.0]), [], 0).tolist()
    [2.0, 4.0]
    """

    temperature: float = 1.0
    order: ClassVar[int] = 3

    def __post_init__(self) -> None:
        _check(self.temperature > 0, self, "a temperature > 0; Greedy() is the limit at 0")

    def __call__(self, logits: Array, tokens: Sequence[int], n_prompt: int) -> Array:
        return np.asarray(logits / logits.dtype.type(self.temperature))


@jsonable
@dataclass(frozen=True)
class TopK(Strategy):
    """Only the k likeliest are left (Fan et al. 2018); equal ones at the border all stay.

    >>> import numpy as np
    >>> from gradwright.models import TopK
    >>> TopK(2)(np.array([1.0, 3.0, 2.0]), [], 0).tolist()
    [-inf, 3.0, 2.0]
    """

    k: int = 50
    order: ClassVar[int] = 4

    def __post_init__(self) -> None:
        _check(isinstance(self.k, int) and self.k >= 1, self, "an int k >= 1")

    def __call__(self, logits: Array, tokens: Sequence[int], n_prompt: int) -> Array:
        at = max(logits.shape[-1] - self.k, 0)
        return np.where(logits < np.partition(logits, at)[..., at, None], -np.inf, logits)


@jsonable
@dataclass(frozen=True)
class TopP(Strategy):
    """Only the fewest likeliest are left that have the mass p together (Holtzman et al. 2020).

    Equal ones at the border all stay.

    >>> import numpy as np
    >>> from gradwright.models import TopP
    >>> TopP(0.7)(np.log([0.5, 0.2, 0.3]), [], 0).round(2).tolist()
    [-0.69, -inf, -1.2]
    """

    p: float = 0.9
    order: ClassVar[int] = 5

    def __post_init__(self) -> None:
        _check(0 <= self.p <= 1, self, "0 <= p <= 1")

    def __call__(self, logits: Array, tokens: Sequence[int], n_prompt: int) -> Array:
        rows = logits.reshape(-1, logits.shape[-1])
        left, least = rows > -np.inf, np.full((len(rows), 1), -np.inf)
        sizes = left.sum(-1)
        for n in set(sizes.tolist()) - {0}:  # few, after top-k, and of most rows as many
            at = np.flatnonzero(sizes == n)
            rising = np.sort(rows[at][left[at]].reshape(-1, n))
            n_struck = (np.cumsum(softmax(rising), -1) <= 1 - self.p).sum(-1, keepdims=True)
            least[at] = np.take_along_axis(rising, np.minimum(n_struck, n - 1), -1)
        return np.where(logits < least.reshape(*logits.shape[:-1], 1), -np.inf, logits)


@jsonable
@dataclass(frozen=True)
class MinP(Strategy):
    """Only those at least p times as likely as the likeliest are left (Nguyen et al. 2024).

    >>> import numpy as np
    >>> from gradwright.models import MinP
    >>> MinP(0.5)(np.log([0.5, 0.2, 0.3]), [], 0).round(2).tolist()
    [-0.69, -inf, -1.2]
    """

    p: float = 0.05
    order: ClassVar[int] = 6

    def __post_init__(self) -> None:
        _check(0 <= self.p <= 1, self, "0 <= p <= 1")

    def __call__(self, logits: Array, tokens: Sequence[int], n_prompt: int) -> Array:
        with np.errstate(divide="ignore"):  # ln 0: all are left
            return np.where(
                logits < logits.max(-1, keepdims=True) + np.log(self.p), -np.inf, logits
            )


Sampling = Strategy | Sequence[Strategy]
"""One strategy or several; none draws from softmax(logits)."""


def in_order(sampling: Sampling) -> tuple[Strategy, ...]:
    """Return strategies as they act; raises GraphError for what is none, or there twice.

    >>> from gradwright.models import Temperature, TopK, in_order
    >>> in_order([TopK(5), Temperature(0.8)])
    (Temperature(temperature=0.8), TopK(k=5))
    """
    listed: list[Any] = list(sampling) if isinstance(sampling, list | tuple) else [sampling]
    for item in listed:
        if not isinstance(item, Strategy):
            raise GraphError(
                f"{item!r} is no sampling strategy",
                need="one of gw.models, or several in a list",
                hint="sampling=[gw.models.Temperature(0.8), gw.models.TopP(0.9)]",
            )
    if len({type(s) for s in listed}) < len(listed):
        raise GraphError(f"{listed} has a strategy twice", need="one of each")
    return tuple(sorted(listed, key=lambda s: s.order))


OF_ROWS: tuple[type[Strategy], ...] = (Temperature, TopK, TopP, MinP)
"""Strategies that take f32[rows, V], too, and look at no tokens; what derives from one may not."""


def softmax(logits: Array) -> Array:
    """Return the probabilities f64[..., V] of logits, of which all may be −∞."""
    x = logits.astype(np.float64)
    p = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    return np.asarray(p / p.sum(-1, keepdims=True))

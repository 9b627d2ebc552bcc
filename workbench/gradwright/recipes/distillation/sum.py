"""Distillation: the weighted sum of terms that a student is trained on."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping

from ...errors import ShapeError, TrainingError
from ...graph import Tensor


class Distillation:
    """A loss that is a weighted sum of terms, each of which is a metric, too.

    loss = Σₖ weightₖ · termₖ

    Args:
        terms: scalars by name, each alone or as ``(weight, term)``.

    The teacher may stand in the same graph (``gw.clone(logits, share=False)`` makes a frozen copy),
    or anywhere else: ``gw.predict(teacher, {"teacher_logits": t}, data)`` gives what it says of all
    examples once, to be fed to placeholders of that name.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> x, t = g.placeholder("x", (None, 4)), g.placeholder("t", (None,), "int64")
    >>> said = g.placeholder("said", (None, 3))
    >>> logits = x @ g.variable("w", (4, 3), init=0.0)
    >>> distilled = gw.distillation.Distillation({
    ...     "labels": (0.1, gw.loss.sparse_softmax_cross_entropy(t, logits)),
    ...     "teacher": gw.distillation.soft_targets(logits, said),
    ... })
    >>> trainer = gw.Trainer(g, distilled.loss, gw.optim.Adam(0.1), metrics=distilled.metrics)
    >>> data = {"x": np.eye(4), "t": [0, 1, 2, 0], "said": 5.0 * np.eye(4, 3)}
    >>> record = trainer.fit(data, epochs=60, progress=False).last()
    >>> record["teacher"] < 0.05
    True
    """

    def __init__(self, terms: Mapping[str, Tensor | tuple[float, Tensor]]) -> None:
        if not isinstance(terms, Mapping):
            raise TrainingError(
                f"the terms are of type {type(terms).__name__}",
                need="a dict of them by name: each is recorded as a metric",
                hint='Distillation({"labels": (0.1, loss), "teacher": soft_targets(...)})',
            )
        if not terms:
            raise TrainingError("a distillation needs at least one term")
        self.weights: dict[str, float] = {}
        self.metrics: dict[str, Tensor] = {}
        """The terms without their weights, by name."""
        for name, term in terms.items():
            weight, tensor = term if isinstance(term, tuple) else (1.0, term)
            if not isinstance(tensor, Tensor) or tensor.rank:
                raise ShapeError(f"the term {name!r} is {tensor!r}", need="a scalar tensor")
            if not 0 <= weight < math.inf:
                raise TrainingError(f"the weight of {name!r} is {weight!r}", need="a number >= 0")
            self.weights[name], self.metrics[name] = float(weight), tensor
        pairs = zip(self.metrics.values(), self.weights.values(), strict=True)
        parts = [t if w == 1 else t * w for t, w in pairs]
        self.loss: Tensor = functools.reduce(operator.add, parts)

    def __repr__(self) -> str:
        parts = " + ".join(f"{w:g}·{n}" for n, w in self.weights.items())
        return f"<Distillation: {parts}>"

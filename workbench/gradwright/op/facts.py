"""Facts of an op beside what it computes: its family, its colour, the bits it needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

Bits = Literal["low", "high", "free"]
"""Cast the inputs down; keep them in float32; take them as they come."""


class Autocast(Enum):
    """What mixed precision does with the inputs of an op, and why; what torch.autocast does.

    >>> from gradwright.op import Autocast
    >>> Autocast.LOSS.bits, Autocast.LOSS.reason
    ('high', 'a loss is one number, from which all gradients come')
    """

    PRODUCT = (
        "low",
        "products of matrices take nearly all the time, and sum in float32 whatever they are given",
    )
    CONVOLUTION = "low", "convolutions are products of matrices"
    ATTENTION = (
        "low",
        "attention is two products with a softmax between them that is computed in float32",
    )
    POWER = (
        "high",
        "exponentials and powers overflow 16 bits, and logarithms and quotients lose their digits",
    )
    SUM = "high", "a sum of many numbers needs more digits than each of them"
    STATISTIC = "high", "statistics of a normalisation are small differences of large sums"
    STATE = "high", "recurrent states gather the rounding of all their steps"
    FACTOR = "high", "factorisations and transforms exist in 32 bits and more only"
    LOSS = "high", "a loss is one number, from which all gradients come"
    FREE = "free", "takes its inputs as they come"
    """Where some are of 16 bits and some of 32, all are float32; a composite goes by its parts."""

    def __init__(self, bits: Bits, reason: str) -> None:
        self.bits, self.reason = bits, reason


@dataclass(frozen=True)
class Family:
    """Ops of one folder: what they are, and the facts of those that state none of their own.

    ``drawing`` is the group of a drawing that gives a node its colour; ``kind`` says what all its
    ops are, where they are of one kind (`gw.ops.descriptors`).

    >>> from gradwright.op import Family
    >>> Family("Mixtures of experts.", drawing="activation").autocast.bits
    'free'
    """

    title: str
    drawing: str
    autocast: Autocast = Autocast.FREE
    kind: str = ""


class OfFamily:
    """A class variable of an op that is its family's, unless a class of the op says otherwise."""

    def __set_name__(self, owner: Any, name: str) -> None:
        self.name = name

    def __get__(self, op: Any, cls: Any) -> Any:
        return getattr(cls.family, self.name)


def elements(*specs: Any) -> Any:
    """Return how many elements tensors of these specs have; texts, sequences and None have none.

    >>> from gradwright.spec import Dim, TensorSpec
    >>> elements(TensorSpec((Dim.symbol("B"), 4)), TensorSpec((2, 3)), None)
    4*B + 6
    """
    shapes = (getattr(spec, "shape", None) for spec in specs)
    return sum(math.prod(shape) for shape in shapes if shape is not None)


def multiplied(y: Any, inner: Any) -> Any:
    """Return the arithmetic of products whose elements are sums of ``inner`` terms each."""
    return 2 * elements(y) * inner


def of_product(op: Any, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
    """Return the arithmetic of a product of matrices; the last axis of the first is summed over."""
    return multiplied(outs[0], ins[0].shape[-1])


def arithmetic(drawing: str, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
    """Return what an op of a group of drawings takes that says nothing else: one per element.

    Reductions are counted by what they read; what moves elements takes none.
    """
    if drawing == "shape":
        return 0
    return elements(*ins[:1]) if drawing == "reduce" else elements(*outs)

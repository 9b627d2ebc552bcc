"""What every optimizer is: a dataclass of numbers, an update op, and the state it keeps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from ...errors import TrainingError
from ...graph import Tensor
from ...op import find_op
from ...spec import TensorSpec, at_least_float32, kind
from ...words import OPTIMIZER
from ...words.advised import Advised
from ...words.named import Named
from ...words.spelling import meant
from ..schedules import Schedule


def sizes(param: Tensor) -> tuple[int, ...]:
    """Return the shape of a variable, whose dims are all numbers."""
    return tuple(int(d) for d in param.shape)


Number = float | Schedule
"""A hyperparameter: a number, or what says it for each step."""
BELOW_ONE = frozenset({"beta1", "beta2", "momentum", "rho"})
"""Fields of running means, which forget nothing at 1."""
BOUNDS = ("clip_value", "clip_tensor_norm", "clip_norm")
"""Of gradients, in the order of a step; at 0 they would let nothing through."""


@dataclass(frozen=True)
class Slot:
    """A tensor of state that an optimizer keeps for a parameter.

    >>> import gradwright as gw
    >>> gw.optim.Slot((2, 3), "float32")
    Slot(shape=(2, 3), dtype='float32', init=0.0)
    """

    shape: tuple[int, ...]
    dtype: Any
    init: float | str = 0.0
    """What it begins as: one number everywhere, or ``"parameter"``, the parameter's value."""


class Seen:
    """What ``state`` is told of a parameter: its name, spec, shape, rank and dtype.

    That of a complex one is of pairs of real numbers, on a last axis, unless the optimizer takes
    complex ones: each moves as if there were two parameters.
    """

    def __init__(self, param: Tensor, optimizer: Optimizer) -> None:
        shape, dtype = sizes(param), param.dtype
        self.is_paired = kind(dtype) == "c" and not optimizer.takes_complex
        if self.is_paired:
            shape, dtype = (*shape, 2), np.empty(0, dtype).real.dtype
        self.name, self.spec = param.name, TensorSpec(shape, dtype)
        self.shape, self.rank, self.dtype = shape, len(shape), dtype


def zeros(param: Tensor, init: float | str = 0.0) -> Slot:
    """Return a slot of a parameter's shape, in float32 at least."""
    return Slot(sizes(param), at_least_float32(param.dtype), init)


_changes = 0


def changes() -> int:
    """Return how often a setting of any optimizer has been set.

    As long as it stays the same, none of them has to be looked at.

    >>> import gradwright as gw
    >>> sgd, before = gw.optim.SGD(0.1), changes()
    >>> sgd.learning_rate = 0.01
    >>> changes() - before
    1
    """
    return _changes


@dataclass
class Optimizer(Named, Advised, words=OPTIMIZER):
    """Base of optimizers: a dataclass of hyperparameters, and ``update``, which builds graph.

    Numbers among the fields reach ``update`` as 0-d tensors; they may be changed while a trainer
    runs and count from the next step, in the same plan. Each may be a schedule, ``gw.schedules`` or
    a function of the step, as the learning rate may. A parameter of 16 bits has float32 slots.
    A complex one comes to ``update``, with its gradient 2·∂L/∂p̄, as pairs of real numbers.

    ``scalars["learning_rate"]`` is the rate of the step times the multiplier of the parameter's
    group; of optimizers that find a rate of their own (AdaDelta, Adafactor, schedule-free AdamW) it
    scales, bounds or weights what they find, as their formulas say.

    >>> import gradwright as gw
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class SignSGD(gw.optim.Optimizer):
    ...     '''p ← p − lr·sign(g) (Bernstein et al. 2018, arXiv:1802.04434).'''
    ...     learning_rate: float = 1e-3
    ...     def update(self, param, grad, slots, scalars):
    ...         return (param - scalars["learning_rate"].astype(param.dtype) * gw.sign(grad),)
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2,), init=[3.0, -5.0])
    >>> trainer = gw.Trainer(g, (w * w).sum(), optimizer=SignSGD(0.5))
    >>> record = trainer.step({})
    >>> g.values["w"].tolist()
    [2.5, -4.5]
    """

    learning_rate: Number
    op: ClassVar[str] = ""
    """Name of the update op, whose inputs are a parameter, its gradient, its slots, and scalars."""
    slots: ClassVar[tuple[str, ...]] = ()
    """Names of the state tensors of each parameter; they have its shape and begin as zeros."""
    counts: ClassVar[bool] = False
    """Whether ``update`` reads ``scalars["step"]``, the number of this update from 1."""
    fixed: ClassVar[frozenset[str]] = frozenset()
    """Fields whose numbers are built into the graph of a step instead of being its scalars."""
    switches: ClassVar[frozenset[str]] = frozenset()
    """Fields of which the graph of a step depends on whether they are 0 or None."""
    takes_complex: ClassVar[bool] = False
    """Whether complex parameters come as they are; else as pairs of real numbers, as in torch."""
    by_rows: ClassVar[bool] = False
    """Whether ``update`` leaves alone what has no gradient, and its state, but for a decay."""
    average: ClassVar[str | None] = None
    """The slot that holds the weights to evaluate and to use, where that is not the parameter."""

    def __post_init__(self) -> None:
        self.check()

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a hyperparameter; raises AttributeError for a name that is none."""
        is_known = name in self.__dataclass_fields__ or hasattr(type(self), name)
        if not (is_known or name.startswith("_")):
            known = [f.name for f in fields(self)]
            close = _LR.get(name) or meant(name, known)
            raise AttributeError(
                f"{type(self).__name__} has no {name!r}; it has {', '.join(known)}"
                + (f"; did you mean {close!r}?" if close else "")
            )
        object.__setattr__(self, name, value)
        global _changes  # read after it is set, so that who sees the same count sees the value
        _changes += 1

    def state(self, param: Tensor) -> dict[str, Slot]:
        """Return the state of a parameter by name: by default zeros of its shape for ``slots``."""
        return dict.fromkeys(self.slots, zeros(param))

    def update(
        self,
        param: Tensor,
        grad: Tensor,
        slots: Sequence[Tensor],
        scalars: Mapping[str, Tensor],
    ) -> Sequence[Tensor]:
        """Return the new parameter and its new slots, in the order of ``state``.

        By default those of ``op``: its scalars are found by name, and 0 where there is none.
        """
        if not self.op:
            raise NotImplementedError(f"{type(self).__name__} has no update")
        return applied(self.op, self.attributes(param), param, grad, slots, scalars)

    def attributes(self, param: Tensor) -> dict[str, Any]:
        """Return the attributes of ``op`` for a parameter."""
        return {}

    def moves_all(self) -> str:
        """Return why rows without a gradient move, too; empty where they stay as they are.

        What a class says ``by_rows`` does not hold for one below it with an ``update`` of its own.

        >>> import gradwright as gw
        >>> gw.optim.SGD().moves_all(), gw.optim.SGD(momentum=0.9).moves_all()
        ('', 'momentum moves every row')
        >>> gw.optim.Adam().moves_all()
        'Adam moves every row'
        """
        saying = {"by_rows", "update", "op", "state"}
        cls = next(cls for cls in type(self).__mro__ if saying & vars(cls).keys())
        if not vars(cls).get("by_rows"):
            return f"{type(self).__name__} moves every row"
        moving = [name for name in ("momentum", "weight_decay") if getattr(self, name, 0)]
        return f"{moving[0]} moves every row" if moving else ""

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        return number_at("learning_rate", self.learning_rate, step)

    def scalars(self) -> dict[str, Number]:
        """Return the hyperparameters beside the learning rate that are numbers or schedules."""
        left_out = {"learning_rate", *self.fixed}
        found = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in left_out}
        return {k: v for k, v in found.items() if not isinstance(v, bool | str | None)}

    def scalars_at(self, step: int) -> dict[str, float]:
        """Return the hyperparameters of a step, counted from 0, beside its learning rate.

        >>> import gradwright as gw
        >>> gw.optim.SGD(0.1, momentum=gw.schedules.Points(((0, 0.5), (4, 0.9)))).scalars_at(2)
        {'momentum': 0.7, 'weight_decay': 0.0}
        """
        return {name: number_at(name, value, step) for name, value in self.scalars().items()}

    def form(self) -> dict[str, Any]:
        """Return what the graph of a step depends on: all settings but the size of its scalars."""
        fed = {"learning_rate", *self.scalars()}
        rest = {name: value for name, value in vars(self).items() if name not in fed}
        return rest | {name: bool(getattr(self, name)) for name in self.switches}

    def check(self) -> None:
        """Raise TrainingError for hyperparameters that make no sense."""
        cls = type(self).__name__
        fixed = {name: getattr(self, name) for name in self.fixed}
        given = {f.name: getattr(self, f.name) for f in fields(self) if _is_of_numbers(f)}
        rate = {"learning_rate": self.learning_rate}
        for name, value in (rate | self.scalars() | given | fixed).items():
            if isinstance(value, Tensor | Sequence) and not isinstance(value, str):
                raise TrainingError(
                    f"{cls}: {name} is a {type(value).__name__}, not a number",
                    hint=f"{_without_parameters()}; gw.Trainer(..., parameters=[...]) says what is "
                    "trained; default: all",
                )
            if value is None or isinstance(value, bool | str | complex) or np.ndim(value):
                need = "a number" if name in fixed else "a number or a schedule"
                raise TrainingError(f"{cls}: {name}={value!r} is no number", need=need)
            if callable(value):
                if name in fixed:
                    raise TrainingError(
                        f"{cls}: {name} follows no schedule: it is built into the step",
                        need="a number",
                    )
            elif need := range_missed(name, value):
                raise TrainingError(f"{cls}: {name}={value!r} is out of range", need=need)


def _is_of_numbers(field: Field[Any]) -> bool:
    """Tell whether a field is meant for a number alone, by its default and its annotation."""
    is_number = isinstance(field.default, int | float) and not isinstance(field.default, bool)
    return is_number and "None" not in str(field.type)


def range_missed(name: str, value: float, most: float = math.inf) -> str:
    """Return the range of a number of this name where it is outside; else nothing.

    >>> range_missed("beta1", 1.0), range_missed("eps", 1.0)
    ('0 <= beta1 < 1', '')
    """
    if name in BELOW_ONE:
        return "" if 0 <= value < 1 else f"0 <= {name} < 1"
    if name in BOUNDS:
        return "" if 0 < value < math.inf else f"0 < {name} < inf"
    if most < math.inf:
        return "" if 0 <= value <= most else f"0 <= {name} <= {most:g}"
    return "" if 0 <= value < math.inf else f"0 <= {name} < inf"


def number_at(name: str, number: Number, step: int, most: float = math.inf) -> float:
    """Return a number of a step, counted from 0; raises TrainingError where it is out of range."""
    value = float(number(step) if callable(number) else number)
    if need := range_missed(name, value, most):
        what = name.replace("_", " ") if name == "learning_rate" else name
        raise TrainingError(f"step {step + 1}: the {what} is {value}", need=need)
    return value


_LR = {"lr": "learning_rate"}
"""What torch calls it."""


def _without_parameters() -> str:
    """Return the call that the user's line makes, without what torch takes first."""
    from ...words.typed import typed

    call = typed()
    if call is None or not call.args:
        return "gw.optim.Adam(1e-3)"
    return replace(call, args=call.args[1:]).text


def applied(
    name: str,
    attributes: Mapping[str, Any],
    param: Tensor,
    grad: Tensor,
    slots: Sequence[Tensor],
    scalars: Mapping[str, Tensor],
) -> tuple[Tensor, ...]:
    """Return what an update op makes of a parameter and its slots."""
    op = find_op(name)(**attributes)
    numbers = [scalars.get(p.name, 0.0) for p in op.inputs[2 + len(slots) :]]
    moved = op(param, grad, *slots, *numbers)
    return moved if isinstance(moved, tuple) else (moved,)

"""TrainingConfig: all settings of a training in one plain value, checked, and kept as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

from ..errors import TrainingError
from ..graph import Tensor
from ..ops.draws.philox import is_word
from ..program.options import Kernels
from ..session import Session
from ..words.jsonable import from_json, jsonable, to_json
from .constraints import Constraint
from .optim import Adam, Optimizer, get
from .optim.base import BOUNDS, Number
from .precision import FP8, LossScale, Precision, checked
from .settings import EMA, PENALTIES, SWA, Accumulation, Group, check_number, names_of

NONFINITE = ("raise", "skip")
PARTS = ("features", "labels", "feature_masks", "label_masks", "masks")
"""Settings that name the parts of data that comes as tuples, in their order."""
OF_SESSION = ("checkpoint", "kernels", "threads", "deterministic")
"""Settings of the session that a trainer makes where none is given."""


@jsonable
@dataclass(frozen=True)
class TrainingConfig:
    """Settings of a training; the keywords of ``Trainer`` are its fields.

    Two trainings with equal configurations, data and values give the same numbers. In the order of
    a step: the gradient of the losses is taken, accumulated, regularised with ``l1`` and ``l2``,
    clipped by value, by each tensor's norm and by the norm of all; the optimizer moves the
    parameter, ``weight_decay`` shrinks it, and a constraint brings it back within its bounds.
    Multipliers, penalties, decays and bounds may be schedules, as learning rates may: each step is
    fed with what they are then.

    Args:
        optimizer: how parameters move; a name such as ``"adam"`` stands for its defaults.
        losses: scalars whose sum is trained; a trainer notes those that it is given.
        minimize: whether the losses shall fall; else they rise.
        metrics: scalars to record, by name; a trainer notes those that it is given as tensors.
        parameters: names or patterns of what is trained; None: all floating variables.
        groups: variables that are trained otherwise than the rest.
        lr_multipliers: factors on the learning rate, by name or pattern; they multiply those of
            groups.
        l1: λ of the penalty λ·Σ|w|, whose gradient is added before clipping.
        l2: λ of the penalty λ/2·Σw², whose gradient is added before clipping.
        weight_decay: λ of w ← w − lr·λ·w, beside the optimizer's step; None leaves decay to the
            optimizer.
        decay_scaled_by_rate: whether that decay has the factor lr; without it is w ← w − λ·w.
        clip_value: upper bound of the size of each element of a gradient.
        clip_tensor_norm: upper bound of the norm of each gradient.
        clip_norm: upper bound of the norm of all gradients together.
        constraints: what parameters are brought back to after each update, by name or pattern, such
            as ``{"*/w": gw.constraints.MaxNorm(3.0)}``.
        nonfinite: what to do when loss or gradient is not finite: ``"raise"``, or ``"skip"`` the
            step.
        accumulation: several batches make one update.
        precision: mixed precision; a dtype such as ``"bfloat16"`` will do, or dtypes by name or
            pattern of nodes, ``{"encoder/*": "bfloat16"}``, with all else in float32.
        fp8: inputs of matrix products in 8 bits; True will do.
        loss_scale: how the loss is scaled; with float16 it is by default dynamic.
        ema: exponential average of the weights.
        swa: equal average of the weights.
        validate_with: average that ``fit(validation=...)`` evaluates: ``"ema"``, ``"swa"``, or
            None.
        features: placeholders of the first arrays of data that comes as tuples, by name or pattern.
        labels: placeholders of the arrays after the features.
        feature_masks: placeholders of the masks after the labels, the n-th for the n-th of the
            features; one that is None, or left out, shows all.
        label_masks: placeholders of the masks of labels, after those of features.
        masks: placeholders of further arrays, after these.
        seed: decides the order of the data, and with the step all random ops.
        checkpoint: activations to compute again, to save memory: None, ``"sqrt"``, every n-th, or
            patterns.
        kernels: when fused kernels are compiled, as in ``gw.Session``.
        threads: how many threads a step runs on, as in ``gw.Session``.
        deterministic: whether steps repeat to the bit, as in ``gw.Session``; None: where a callback
            needs it.

    Raises TrainingError for what makes no sense, and TypeError for a field that does not exist.

    >>> import gradwright as gw
    >>> config = gw.TrainingConfig(gw.optim.SGD(0.1), clip_norm=1.0, groups=[gw.Group("*/bias")])
    >>> gw.TrainingConfig.from_json(config.to_json()) == config
    True
    >>> config.but(l2=1e-4).differences(config)
    ['l2: 0.0001, not 0.0']
    """

    optimizer: Optimizer = field(default_factory=Adam)
    losses: tuple[str, ...] = ()
    minimize: bool = True
    metrics: Mapping[str, str] = field(default_factory=dict)
    parameters: tuple[str, ...] | None = None
    groups: tuple[Group, ...] = ()
    lr_multipliers: Mapping[str, Number] = field(default_factory=dict)
    l1: Number = 0.0
    l2: Number = 0.0
    weight_decay: Number | None = None
    decay_scaled_by_rate: bool = True
    clip_value: Number | None = None
    clip_tensor_norm: Number | None = None
    clip_norm: Number | None = None
    constraints: Mapping[str, Constraint] = field(default_factory=dict)
    nonfinite: str = "raise"
    accumulation: Accumulation | None = None
    precision: Precision | None = None
    fp8: FP8 | None = None
    loss_scale: LossScale | None = None
    ema: EMA | None = None
    swa: SWA | None = None
    validate_with: str | None = None
    features: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    feature_masks: tuple[str, ...] = ()
    label_masks: tuple[str, ...] = ()
    masks: tuple[str, ...] = ()
    seed: int = 0
    checkpoint: Any = None
    kernels: Kernels = "background"
    threads: int | None = None
    deterministic: bool | None = None

    def __new__(cls, *given: Any, **named: Any) -> Self:
        """Refuse names that are none of its fields, and say which were meant."""
        check_names(named, cls.__name__)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        put = object.__setattr__  # frozen: what is given is brought into one form, once
        put(self, "optimizer", get(self.optimizer))
        for name in ("losses", *PARTS):
            given = getattr(self, name)
            put(self, name, names_of(given, name) if isinstance(given, Tensor) or given else ())
        if self.parameters is not None:
            put(self, "parameters", names_of(self.parameters, "parameters"))
        put(
            self, "groups", (self.groups,) if isinstance(self.groups, Group) else tuple(self.groups)
        )
        for name, hint in _BY_NAME.items():
            if not isinstance(getattr(self, name), Mapping):
                raise TrainingError(
                    f"{name} is a {type(getattr(self, name)).__name__}",
                    need="a dict by name or pattern of variables",
                    hint=hint,
                )
        put(self, "lr_multipliers", {_name(k): v for k, v in self.lr_multipliers.items()})
        put(self, "constraints", {_name(k): v for k, v in self.constraints.items()})
        put(self, "metrics", {k: _name(v) for k, v in self.metrics.items()})
        put(self, "loss_scale", _scale(self.loss_scale))
        precision, fp8 = checked(self.precision, self.fp8)
        put(self, "precision", precision)
        put(self, "fp8", fp8)
        if isinstance(self.accumulation, int) and not isinstance(self.accumulation, bool):
            put(self, "accumulation", Accumulation(self.accumulation))
        if isinstance(self.checkpoint, list):
            put(self, "checkpoint", tuple(self.checkpoint))
        self._check()

    def _check(self) -> None:
        for name in PENALTIES:
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name))
        for pattern, factor in self.lr_multipliers.items():
            check_number(f"lr_multipliers[{pattern!r}]", factor)
        for name in BOUNDS:
            limit = getattr(self, name)
            if limit is None or callable(limit):
                continue
            if not (_is_number(limit) and 0 < limit < math.inf):
                raise TrainingError(f"{name}={limit!r} is out of range", need=f"0 < {name} < inf")
        if self.nonfinite not in NONFINITE:
            need = " or ".join(map(repr, NONFINITE))
            raise TrainingError(f"nonfinite={self.nonfinite!r} is not known", need=need)
        for name, kind in _KINDS.items():
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise TrainingError(f"{name}={value!r} is none", need=f"a gw.{kind.__name__}")
        for pattern, constraint in self.constraints.items():
            if not isinstance(constraint, Constraint):
                raise TrainingError(
                    f"constraints[{pattern!r}]={constraint!r} is none",
                    need="an instance",
                    hint="gw.constraints.MaxNorm(2.0)",
                )
        for group in self.groups:
            if not isinstance(group, Group):
                raise TrainingError(f"{group!r} is no group", hint='gw.Group("*/bias", l2=0.0)')
        if self.validate_with not in (None, *self.averages):
            raise TrainingError(
                f"validate_with={self.validate_with!r} is no average that is kept",
                hint="ema=gw.EMA(), or swa=gw.SWA()",
            )
        if type(self.seed) is not int or not is_word(self.seed):
            raise TrainingError(f"seed={self.seed!r} is no seed", need="an int, 0 <= seed < 2**64")

    # -- what follows from it --------------------------------------------------------------------

    @cached_property
    def optimizers(self) -> tuple[Optimizer, ...]:
        """The optimizer, and then those of groups."""
        return self.optimizer, *(g.optimizer for g in self.groups if g.optimizer is not None)

    @cached_property
    def beside_optimizers(self) -> list[Any]:
        """All but the optimizers: their learning rates may change in every step."""
        groups = [(replace(g, optimizer=None), g.optimizer is None) for g in self.groups]
        names = (f.name for f in fields(self) if f.name not in ("optimizer", "groups"))
        return [groups, *(getattr(self, name) for name in names)]

    @cached_property
    def scaler(self) -> LossScale | None:
        """How the loss is scaled, where it is: as stated, and dynamically with float16."""
        if self.loss_scale is not None:
            return None if self.loss_scale.mode == "none" else self.loss_scale
        small = self.precision is not None and "float16" in map(str, self.precision.narrow)
        return LossScale() if small else None

    @cached_property
    def averages(self) -> dict[str, EMA | SWA]:
        """The averages of weights that are kept, by name."""
        return {a.name: a for a in (self.ema, self.swa) if a is not None}

    @cached_property
    def is_averaging(self) -> bool:
        """Whether an optimizer keeps the weights to use beside those that it trains."""
        return any(optimizer.average for optimizer in self.optimizers)

    @cached_property
    def evaluated(self) -> str:
        """What is evaluated unless something else is named: an average, or ``"trained"``."""
        return self.validate_with or ("optimizer" if self.is_averaging else "trained")

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The placeholders of data that comes as tuples, in order; patterns as they stand."""
        return tuple(name for part in PARTS for name in getattr(self, part))

    def but(self, **changed: Any) -> TrainingConfig:
        """Return the configuration with some fields changed.

        >>> import gradwright as gw
        >>> gw.TrainingConfig(l2=0.1).but(l2=0.2).l2
        0.2
        """
        check_names(changed, "TrainingConfig")
        return replace(self, **changed)

    # -- as JSON ---------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return what ``json.dumps`` takes; raises TrainingError for functions, naming the field.

        >>> import gradwright as gw
        >>> gw.TrainingConfig(ema=gw.EMA(0.99)).to_json()["ema"]
        {'$class': 'EMA', 'decay': 0.99, 'start': 1, 'every': 1, 'buffers': False}
        """
        saved: dict[str, Any] = to_json(self)
        return saved

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> TrainingConfig:
        """Return what ``to_json`` was called on; raises TrainingError for anything else.

        >>> import gradwright as gw
        >>> gw.TrainingConfig.from_json({"$class": "TrainingConfig", "l1": 0.5}).l1
        0.5
        """
        found = from_json(data)
        if not isinstance(found, TrainingConfig):
            raise TrainingError(f"this is no TrainingConfig, but {type(found).__name__}")
        return found

    def differences(self, other: TrainingConfig) -> list[str]:
        """Return a line for each field that another configuration has otherwise.

        >>> import gradwright as gw
        >>> gw.TrainingConfig(seed=1).differences(gw.TrainingConfig())
        ['seed: 1, not 0']
        """
        pairs = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        return [f"{name}: {a!r}, not {b!r}" for name, (a, b) in pairs.items() if a != b]


@dataclass
class Setup:
    """What the parts of a training share: what runs the steps, and the settings as they stand."""

    session: Session
    config: TrainingConfig


_KINDS: dict[str, type[Any]] = {
    "accumulation": Accumulation,
    "loss_scale": LossScale,
    "ema": EMA,
    "swa": SWA,
}
_BY_NAME = {
    "lr_multipliers": 'lr_multipliers={"encoder/*": 0.1}',
    "constraints": 'constraints={"*/w": gw.constraints.MaxNorm(3.0)}',
}


def check_names(named: Mapping[str, Any], of: str) -> None:
    """Raise TypeError for a name that is no setting, and say which was meant."""
    known = [f.name for f in fields(TrainingConfig)]
    for name in named:
        if name not in known:
            from ..words.advice import advice_on_keyword

            advised = advice_on_keyword("Trainer", name, known) or f"it has {', '.join(known)}"
            raise TypeError(f"{of} has no {name!r}; {advised}")


def _name(given: Any) -> str:
    return names_of(given, "a variable")[0]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _scale(given: Any) -> Any:
    """Return the loss scale that a mode or a number stands for."""
    if isinstance(given, str):
        return LossScale(given)
    return LossScale("static", float(given)) if _is_number(given) else given

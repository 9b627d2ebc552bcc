"""Loss scaling: gradients of 16 bits neither vanish nor overflow (Micikevicius et al. 2018)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import TrainingError
from ...words.jsonable import jsonable

MODES = ("none", "static", "dynamic")
HOPELESS = 2.0**-24
"""A loss scale that no overflow asks for: gradients of 1e11 would fit into float16."""


@jsonable
@dataclass(frozen=True)
class LossScale:
    """How the loss is scaled before gradients are taken; they are divided by the same again.

    ``"none"``: scale 1. ``"static"``: ``initial`` throughout. ``"dynamic"``: the scale grows after
    every ``interval`` finite steps in a row and shrinks after one that is not, which is skipped;
    the rule and the defaults are those of ``torch.amp.GradScaler`` (Micikevicius et al. 2018).

    Args:
        mode: ``"none"``, ``"static"`` or ``"dynamic"``.
        initial: the first scale.
        growth: factor after enough finite steps; what float32 cannot hold stays as it was.
        backoff: factor after a step that is not finite.
        interval: how many finite steps in a row let the scale grow.
        smallest: lower bound of the scale; None: none.
        largest: upper bound of the scale; None: none but float32's.

    Raises TrainingError for what would grow on overflow, or has no range.

    >>> import gradwright as gw
    >>> gw.LossScale("static", initial=1024.0).initial
    1024.0
    """

    mode: str = "dynamic"
    initial: float = 65536.0
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000
    smallest: float | None = None
    largest: float | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise TrainingError(
                f"loss scaling {self.mode!r} is not known", need=" or ".join(map(repr, MODES))
            )
        if not 0.0 < self.initial <= float(np.finfo(np.float32).max):
            raise TrainingError(
                f"a loss scale cannot begin at {self.initial!r}", need="a finite number > 0"
            )
        if not (1.0 < self.growth < math.inf and 0.0 < self.backoff < 1.0):
            raise TrainingError(
                f"growth={self.growth!r}, backoff={self.backoff!r} would not follow overflow",
                need="growth > 1 and 0 < backoff < 1",
            )
        if type(self.interval) is not int or self.interval < 1:
            raise TrainingError(
                f"interval={self.interval!r} is no number of steps", need="an int >= 1"
            )
        low = 0.0 if self.smallest is None else self.smallest
        high = math.inf if self.largest is None else self.largest
        if not 0.0 <= low <= self.initial <= high:
            raise TrainingError(
                f"the loss scale {self.initial!r} is not between its bounds",
                need="smallest <= initial <= largest",
                facts=[f"smallest={self.smallest!r}, largest={self.largest!r}"],
            )


class LossScaler:
    """The scale of the next step, and how many steps in a row were finite.

    It is fed to a step as a number, so a step that is skipped moves the scale and nothing else.

    >>> import gradwright as gw
    >>> scaler = gw.LossScaler(gw.LossScale(initial=8.0, interval=3))
    >>> trace = []
    >>> for finite in (True, True, False, True, True, True):
    ...     scaler.update(finite)
    ...     trace.append(scaler.scale)
    >>> trace
    [8.0, 8.0, 4.0, 4.0, 4.0, 8.0]
    """

    def __init__(self, config: LossScale | None = None) -> None:
        self.config = LossScale() if config is None else config
        self.scale = 1.0 if self.config.mode == "none" else float(np.float32(self.config.initial))
        """What the loss is multiplied with; exact in float32."""
        self.good_steps = 0
        """Finite steps since the scale changed last."""

    @property
    def inverse(self) -> float:
        """What gradients are multiplied with: 1/scale in float64, rounded to float32."""
        with np.errstate(divide="ignore", over="ignore"):
            return float(np.float32(np.float64(1.0) / np.float64(self.scale)))

    @property
    def can_shrink(self) -> bool:
        """Whether a step that is not finite may be mended by a smaller scale.

        >>> import gradwright as gw
        >>> gw.LossScaler().can_shrink, gw.LossScaler(gw.LossScale("static")).can_shrink
        (True, False)
        """
        least = max(HOPELESS, self.config.smallest or 0.0)
        return self.config.mode == "dynamic" and self.scale > least

    def update(self, finite: bool) -> None:
        """Take note of a step: whether its loss and all its gradients were finite."""
        config = self.config
        if config.mode != "dynamic":
            return
        if not finite:
            self.good_steps = 0
            self._move(self.scale * config.backoff)
            return
        self.good_steps += 1
        if self.good_steps == config.interval:
            self.good_steps = 0
            self._move(self.scale * config.growth)

    def _move(self, scale: float) -> None:
        """Take a scale, within the bounds and as float32, if that is finite."""
        if self.config.smallest is not None:
            scale = max(scale, self.config.smallest)
        if self.config.largest is not None:
            scale = min(scale, self.config.largest)
        with np.errstate(over="ignore", under="ignore"):
            rounded = float(np.float32(scale))
        if math.isfinite(rounded):
            self.scale = rounded

    def state_dict(self) -> dict[str, float | int]:
        """Return what a checkpoint keeps.

        >>> import gradwright as gw
        >>> gw.LossScaler().state_dict()
        {'scale': 65536.0, 'good_steps': 0}
        """
        return {"scale": self.scale, "good_steps": self.good_steps}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` gave; raises TrainingError for anything else.

        >>> import gradwright as gw
        >>> scaler = gw.LossScaler()
        >>> scaler.load_state_dict({"scale": 32.0, "good_steps": 5})
        >>> scaler.scale
        32.0
        """
        if saved.keys() != {"scale", "good_steps"}:
            raise TrainingError(
                f"{sorted(saved)} is no state of a loss scale", need="scale, good_steps"
            )
        scale, good = float(saved["scale"]), int(saved["good_steps"])
        if not 0.0 <= scale < math.inf or good < 0:
            raise TrainingError(
                f"scale={scale!r}, good_steps={good!r} is no state of a loss scale",
                need="0 <= scale < inf, 0 <= good_steps",
            )
        self.scale, self.good_steps = scale, good


def scaler_of(scale: LossScale | None, state: Mapping[str, Any]) -> LossScaler | None:
    """Return the scale of the loss as it was saved, if there shall be one.

    Raises TrainingError where there was one and shall be none, or the other way round.
    """
    if bool(state) != (scale is not None):
        raise TrainingError(
            "this is state " + ("with" if state else "without") + " a loss scale",
            need="the same precision= and loss_scale= as before",
        )
    if scale is None:
        return None
    scaler = LossScaler(scale)
    scaler.load_state_dict({k: np.asarray(v).item() for k, v in state.items()})
    return scaler

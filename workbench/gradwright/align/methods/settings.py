"""What settings of all methods share: they check themselves, and refuse what others have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from ...errors import GraphError

TRAINER = "the trainer has it: optimizer=, accumulation=, precision=, fit(batch_size=...)"
ELSEWHERE = dict.fromkeys(
    (
        *("per_device_train_batch_size", "gradient_accumulation_steps", "adam_beta1"),
        *("num_train_epochs", "max_steps", "weight_decay", "max_grad_norm", "warmup_steps"),
        *("lr_scheduler_type", "bf16", "fp16", "seed", "gradient_checkpointing"),
        *("output_dir", "logging_steps", "save_steps", "report_to"),
    ),
    TRAINER,
)
"""Options of TRL that no method has, and why."""
TYPES = {"bool": "True or False", "int": "an int", "float": "a finite number"}
"""Types of settings by their annotations, in words."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a method, which is a frozen dataclass.

    >>> import gradwright as gw
    >>> gw.align.DPO(output_dir="out")
    Traceback (most recent call last):
    gradwright.errors.GraphError: DPO has no output_dir
      the trainer has it: optimizer=, accumulation=, precision=, fit(batch_size=...)
    """

    refused: ClassVar[Mapping[str, str]] = {}
    """Further options of TRL that are refused, and why; what ends in _ is how some begin."""

    def __new__(cls, *_: Any, **named: Any) -> Self:
        """Refuse options of TRL that mean nothing here, and say why."""
        refused = {**ELSEWHERE, **cls.refused}
        for name in (n for n in named if n not in cls.__dataclass_fields__):
            begun = (start for start in refused if start.endswith("_") and name.startswith(start))
            key = name if name in refused else next(begun, None)
            if key is not None:
                raise GraphError(f"{cls.__name__} has no {name}", facts=[refused[key]])
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for field in fields(self):
            kind, _, other = str(field.type).partition(" | ")
            if kind in TYPES and not (other == "None" and getattr(self, field.name) is None):
                self.check(is_a(getattr(self, field.name), kind), field.name, TYPES[kind])

    def check(self, ok: bool, name: str, need: str) -> None:
        """Raise GraphError for a setting that is not what it must be."""
        if not ok:
            raise GraphError(
                f"{type(self).__name__}: {name}={getattr(self, name)!r} makes no sense", need=need
            )

    def check_positive(self, *names: str) -> None:
        """Raise GraphError for settings that are not above 0."""
        for name in names:
            self.check(getattr(self, name) > 0, name, "> 0")


def is_a(value: Any, kind: str) -> bool:
    """Tell whether a setting is of the type of its annotation."""
    if kind == "bool" or isinstance(value, bool):
        return kind == "bool" and isinstance(value, bool)
    return isinstance(value, int) or (
        kind == "float" and isinstance(value, float) and math.isfinite(value)
    )

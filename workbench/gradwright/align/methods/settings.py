"""Options of TRL that no method has, since something else has them."""

from __future__ import annotations

from collections.abc import Mapping

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


def refuse(method: type, named: Mapping[str, object], more: Mapping[str, str]) -> None:
    """Raise GraphError for an option of TRL that a method has not, and say why.

    ``more`` are reasons by name, beside those of what every trainer has.

    >>> import gradwright as gw
    >>> gw.align.DPO(output_dir="out")
    Traceback (most recent call last):
    gradwright.errors.GraphError: DPO has no output_dir
      the trainer has it: optimizer=, accumulation=, precision=, fit(batch_size=...)
    """
    for name in named:
        why = ELSEWHERE.get(name) or more.get(name)
        if why is not None and name not in getattr(method, "__dataclass_fields__", ()):
            raise GraphError(f"{method.__name__} has no {name}", facts=[why])

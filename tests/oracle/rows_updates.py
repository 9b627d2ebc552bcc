"""Updates beside PyTorch; ten steps of each are in test_updates.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.rows import Row, normal

SCALE = np.array(8.0)


def accumulated(t: Any, total: Any, g: Any, step: Any, every: Any) -> Any:
    summed = total + g / every
    ready = step % every == 0
    return t.where(ready, 0.0, 1.0).to(summed.dtype) * summed, summed, ready


ROWS: dict[str, Row] = {
    "ema_update": Row(
        lambda t, a, x, d: t.lerp(x, a, d.to(x.dtype)),
        [(normal(3, 4), normal(3, 4), np.array(0.9)), (normal(0, 2), normal(0, 2), np.array(0.5))],
    ),
    "accumulate_gradient": Row(
        accumulated,
        [(normal(3, 4), normal(3, 4), np.array(step), np.array(4)) for step in (1, 4, 7, 8)],
    ),
    "scale_loss": Row(lambda t, x, s: x * s, [(normal(), SCALE), (normal(0, 2), SCALE)]),
    "unscale_gradients": Row(
        lambda t, s, *gs: (t.stack([g.isfinite().all() for g in gs]).all(), *(g / s for g in gs)),
        [(SCALE, normal(2, 3), normal()), (SCALE, normal(0, 2), normal(1))],
    ),
}
_STEPS = "twenty steps of its optimizer are held against another library in test_optimizers.py"
_WHY = "ten steps of it are held against torch.optim, or a formula, in test_updates.py"
ELSEWHERE = {
    "nesterov_update": _WHY,
    "adagrad_update": _WHY,
    "adadelta_update": _WHY,
    "rmsprop_update": _WHY,
    "lion_update": _WHY,
    "adamax_update": _WHY,
    "amsgrad_update": _WHY,
    "nadam_update": _WHY,
    "adabelief_update": _WHY,
    "radam_update": _WHY,
    "lamb_update": _WHY,
    **dict.fromkeys(
        (
            "adafactor_matrix_update",
            "adafactor_update",
            "centered_rmsprop_update",
            "muon_update",
            "nadam_momentum",
            "nadam_share_update",
            "schedule_free_share",
            "schedule_free_update",
        ),
        _STEPS,
    ),
    **dict.fromkeys(
        ("sum_rows", "take_rows", "put_rows"),
        "tables of torch with sparse gradients in test_named_rows.py",
    ),
    "adam8bit_update": "a plain restatement of the paper in test_optimizers.py",
    "newton_schulz": "held against optax in test_optimizers.py",
    "with_gradient": "its gradient is what it is told: test_depth.py",
    "adagrad_step": "ONNX's pseudo-code in test_updates.py",
    "adam_step": "ONNX's pseudo-code in test_updates.py",
    "momentum_step": "ONNX's pseudo-code in test_updates.py",
    "update_loss_scale": "twenty steps of torch's GradScaler in test_updates.py",
}

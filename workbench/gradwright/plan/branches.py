"""How ``cond`` runs inside a plan: each branch is a plan of its own, made when first taken."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..device import open_device
from ..lowering import Launch, lowering
from ..spec import TensorSpec
from .plan import Plan


def branches(
    op: Any, ins: Sequence[TensorSpec | None], outs: Sequence[TensorSpec], device: str
) -> Launch | None:
    """Run the chosen branch's plan and copy its results; declines where sizes differ by branch."""
    if not all(s.is_concrete for s in outs):
        return None
    plans: dict[bool, Plan] = {}

    def launch(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        taken = bool(xs[0])
        branch = op.chosen(taken)
        if taken not in plans:
            feeds = {t: s for t, s in zip(branch.inputs, ins[1:], strict=True) if s is not None}
            plans[taken] = Plan(
                branch.outputs,
                feeds,
                open_device(device),
                training=bool(op.training),
                sizes=branch.sizes,
            )
        env = dict(zip(branch.inputs, xs[1:], strict=True))
        plans[taken].run(env)
        for t, y in zip(branch.outputs, ys, strict=True):
            np.copyto(y, env[t])

    return launch


for _device in ("cpu", "guard"):
    lowering("cond", _device)(functools.partial(branches, device=_device))

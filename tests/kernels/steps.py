"""The fused groups of training steps, as the generator gets them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.fuse import Fused, fuse
from gradwright.plan import Plan
from gradwright.program.options import PlanOptions
from gradwright.spec import spec_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Group:
    """One fused group: its op, the specs of its inputs, the nodes that it computes."""

    op: Fused
    ins: tuple[gw.TensorSpec, ...]
    names: tuple[str, ...]


def groups_of(trainer: gw.Trainer, batch: dict[str, Array]) -> list[Group]:
    """Return the fused groups of a step."""
    step, numbers = trainer.parts.taker.current(), trainer.parts.taker.next({}).numbers
    feeds = {trainer.graph[k]: v for k, v in batch.items()}
    feeds |= {t: np.array(n) for t, n in zip(step.numbers, numbers, strict=True)}
    feeds[step.rate] = np.array(0.1)
    feeds[trainer.graph.rng] = np.array([7, 3], np.uint64)
    plan = Plan(
        step.fetches,
        {t: spec_of(a) for t, a in feeds.items()},
        trainer.session.device,
        training=True,
        options=PlanOptions(kernels="off"),
        updates=step.updates,
        commit_if=step.finite,
    )
    program = fuse(plan.program)
    return [
        Group(
            instr.op,
            tuple(program.specs[i] for i in instr.ins if i is not None),
            tuple(dict.fromkeys(n.name for n in instr.origins)),
        )
        for instr in program.instrs
        if isinstance(instr.op, Fused)
    ]


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def mlp(
    rows: int = 7, width: int = 129, dtype: str = "float32", **how: Any
) -> tuple[gw.Trainer, dict[str, Array]]:
    """Return a classifier with dropout on labels, trained by AdamW."""
    g = gw.Graph("mlp")
    h, labels = g.placeholder("x", (None, 12), dtype), g.placeholder("t", (None,), "int64")
    for i, (n, m) in enumerate([(12, width), (width, 5)]):
        h = h @ g.variable(f"w{i}", (n, m), dtype=dtype) + g.variable(f"b{i}", (m,), dtype=dtype)
        h = gw.nn.dropout(gw.nn.gelu(h), 0.1) if not i else h
    loss = gw.loss.sparse_softmax_cross_entropy(labels, h, name="loss")
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.AdamW(), **how)
    x = _rng().standard_normal((rows, 12)).astype(dtype)
    return trainer, {"x": x, "t": _rng().integers(0, 5, rows)}


def transformer(width: int = 20, **how: Any) -> tuple[gw.Trainer, dict[str, Array]]:
    """Return a block of attention and a layer behind it, with layer norms."""
    g = gw.Graph("block")
    x = g.placeholder("x", (None, 7, width))

    def dense(h: Any, n: int, m: int, name: str) -> Any:
        return h @ g.variable(f"{name}_w", (n, m)) + g.variable(f"{name}_b", (m,))

    def norm(h: Any, name: str) -> Any:
        w = g.variable(f"{name}_w", init=np.ones(width, np.float32))
        return gw.nn.layer_norm(h, w, g.variable(f"{name}_b", (width,)))

    h = norm(x, "first")
    q, k, v = (dense(h, width, width, n) for n in "qkv")
    weights = gw.nn.softmax(q @ k.transpose(0, 2, 1) * width**-0.5)
    h = x + dense(weights @ v, width, width, "out")
    h = h + dense(gw.nn.gelu(dense(norm(h, "second"), width, 33, "up")), 33, width, "down")
    trainer = gw.Trainer(g, gw.mean(h * h, name="loss"), optimizer=gw.optim.SGD(0.1), **how)
    return trainer, {"x": _rng().standard_normal((3, 7, width)).astype("float32")}


def gated(width: int = 24, **how: Any) -> tuple[gw.Trainer, dict[str, Array]]:
    """Return RMSNorm and SwiGLU, trained by momentum."""
    g = gw.Graph("gated")
    x = g.placeholder("x", (None, width))
    h = gw.nn.rms_norm(x, g.variable("scale", init=np.ones(width, np.float32)))
    up, gate = (h @ g.variable(n, (width, 40)) for n in ("up", "gate"))
    h = x + (gw.nn.silu(gate) * up) @ g.variable("down", (40, width))
    trainer = gw.Trainer(
        g, gw.mean(gw.square(h), name="loss"), optimizer=gw.optim.SGD(0.1, momentum=0.9), **how
    )
    return trainer, {"x": _rng().standard_normal((9, width)).astype("float32")}


STEPS: dict[str, Callable[..., tuple[gw.Trainer, dict[str, Array]]]] = {
    "mlp": mlp,
    "transformer": transformer,
    "gated": gated,
}
"""Training steps by name."""

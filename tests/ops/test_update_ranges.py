"""Updates in float32 by gradients whose squares it does not hold."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm.compiler import available

Array = np.ndarray[Any, Any]

OPTIMIZERS = (
    *("Adam", "AdamW", "Adam8bit", "AdaBelief", "AdaDelta", "AdaGrad", "AdaMax", "Adafactor"),
    *("AMSGrad", "LAMB", "Lion", "Muon", "Nadam", "RMSProp", "ScheduleFreeAdamW"),
)
"""Those whose steps do not grow with the gradient."""
SIZES = {
    "large": (1e20,) * 4,
    "tiny": (1e-25,) * 4,
    "none": (0.0,) * 4,
    "all of them": (1e20, 1e-25, 0.0, 1.0, 1e20, 1.0),
}


def trained(name: str, dtype: str, grads: list[Array], kernels: Any) -> list[Array]:
    """Return the parameter after each step."""
    cls: Any = getattr(gw.optim, name)
    settings: dict[str, Any] = {"min_size": 1, "block_size": 16} if name == "Adam8bit" else {}
    if "weight_decay" in {f.name for f in dataclasses.fields(cls)}:
        settings["weight_decay"] = 0.1
    shape = grads[0].shape
    g = gw.Graph()
    w = g.variable("w", shape, dtype=dtype, init=np.linspace(-1, 1, 20).reshape(shape))
    x = g.placeholder("x", shape, dtype=dtype)
    trainer = gw.Trainer(g, (w * x).sum(), optimizer=cls(**settings), kernels=kernels)
    found = []
    for grad in grads:
        trainer.step({"x": grad})
        found.append(g.values["w"].astype(np.float64))
    return found


@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:divide by zero")
@pytest.mark.parametrize("kernels", ["off", "wait"] if available() else ["off"])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_finite_where_those_of_float64_are(name: str, sizes: str, kernels: str) -> None:
    """And no longer, but for the rounding: what cannot be squared counts as less."""
    drawn = np.random.default_rng(3).standard_normal((4, 5))
    for shares in (np.ones(4), np.array([1.0, 1e-6, 0.0, 1e-20])):
        grads = [drawn * shares[:, None] * size for size in SIZES[sizes]]
        for a, b in zip(
            trained(name, "float32", grads, kernels),
            trained(name, "float64", grads, "off"),
            strict=True,
        ):
            assert np.isfinite(b).all() and np.isfinite(a).all(), (name, sizes)
            # Codes of 8 bits hold no numbers that are as far apart within a block.
            assert name == "Adam8bit" or np.abs(a - b).max() <= 0.5, (name, sizes)


def test_factored_moments_of_squares_that_overflow_give_steps_of_the_right_size() -> None:
    drawn = np.random.default_rng(3).standard_normal((4, 5))
    small = trained("Adafactor", "float64", [drawn] * 3, "off")
    large = trained("Adafactor", "float32", [drawn * np.float32(1e20)] * 3, "off")
    moved = [np.linalg.norm(x[-1] - x[0]) for x in (small, large)]
    assert 0.5 < moved[1] / moved[0] < 2

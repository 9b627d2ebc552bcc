"""Training steps of the benchmarked models on a simulated GPU, small, beside the CPU's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import gradwright as gw
from tests.benchmarks.engine.models import CNN, LSTM, MLP, LlamaLoRA, Model, Transformer
from tests.benchmarks.engine.models import cnn as cnn_file
from tests.benchmarks.engine.models import llama as llama_file

pytest.importorskip("triton", reason="Triton has wheels for Linux only")

LLAMA = {"WORDS": 11, "WIDTH": 12, "INNER": 10, "LAYERS": 1, "HEADS": 3, "FEATURES": 4, "RANK": 2}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cnn_file, "CHANNELS", (3, 4, 5))
    monkeypatch.setattr(cnn_file, "SIDE", 8)
    d, inner = LLAMA["WIDTH"], LLAMA["INNER"]
    shapes = dict.fromkeys("qkvo", (d, d))
    shapes |= {"gate": (d, inner), "up": (d, inner), "down": (inner, d)}
    for name, number in LLAMA.items():
        monkeypatch.setattr(llama_file, name, number)
    monkeypatch.setattr(llama_file, "SHAPES", shapes)


MODELS: dict[str, Callable[[], Model]] = {
    "mlp": lambda: MLP(5, 13, 7),
    "cnn": lambda: CNN(2),
    "transformer": lambda: Transformer(2, 5, 12, 3, 1),
    "lstm": lambda: LSTM(3, 2, 4, 5),
    "llama": lambda: LlamaLoRA(2, 5),
}
"""The seven rows of the engine's benchmark, of which three are one model in other sizes."""
FALLBACK: dict[str, str] = {"lstm": "cpu"}
"""Models with an op that has no kernel yet."""


@pytest.mark.parametrize("name", MODELS)
def test_training_steps_are_those_of_the_cpu(name: str) -> None:
    losses, weights = [], []
    for device in ("cpu", "cuda-sim"):
        model = MODELS[name]()
        g, loss = model.graph()
        rng = np.random.default_rng(0)
        for k, w in model.weights().items():
            if not w.any():  # what begins as zeros hides the gradients of what it is multiplied by
                g.values[k] = rng.standard_normal(w.shape).astype(w.dtype)
        fallback = FALLBACK.get(name) if device != "cpu" else None
        session = gw.Session(g, device=device, fallback=fallback)
        trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.1), session=session)
        losses.append(trainer.step(model.batch()).metrics["loss"])
        weights.append({k: g.values[k] for k in model.weights()})
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    for k, w in weights[0].items():
        np.testing.assert_allclose(weights[1][k], w, rtol=1e-5, atol=1e-6)

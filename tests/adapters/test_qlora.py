"""QLoRA: adapters on a base that is packed are those on the numbers that it is (Dettmers 2023)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.adapters import DoRA, LoRA
from gradwright.models import Decoder, DecoderConfig, from_gguf, save_gguf

CONFIG = DecoderConfig(vocabulary=60, width=64, layers=2, heads=4, kv_heads=2, inner=96)
ROWS = np.random.default_rng(0).integers(0, 60, (4, 16))


def packed(kind: str, tmp_path: Any) -> Decoder:
    model = Decoder(CONFIG, seed=2)
    if kind == "gguf":
        save_gguf(model, tmp_path / "m.gguf", kind="q4_0")
        return from_gguf(tmp_path / "m.gguf")
    return gw.quant.quantize(model, kind).model


def trained(model: Decoder, method: Any) -> tuple[list[float], dict[str, Any]]:
    """Return the losses of five steps and what the adapter has become."""
    adapted = gw.adapters.add(model, method, where="all-linear", seed=5)
    trainer = gw.Trainer(model.graph, model.loss, gw.optim.AdamW(1e-2))
    assert {t.name for t in trainer.parameters} == {t.name for t in adapted.parameters}
    losses = [trainer.step(model.examples(ROWS)).metrics["loss"] for _ in range(5)]
    return losses, adapted.state()


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        *((LoRA(r=4, alpha=8), kind) for kind in ("nf4", "nf4_double", "gguf")),
        *((DoRA(r=4, alpha=8), kind) for kind in ("nf4_double", "q4_0")),
    ],
    ids=lambda x: x if isinstance(x, str) else type(x).__name__,
)
def test_training_is_that_on_the_numbers_of_the_base(kind: str, method: Any, tmp_path: Any) -> None:
    base = packed(kind, tmp_path)
    values = {n: base.floats(n) for n, _ in CONFIG.weights()}
    plain = Decoder(base.config, values=values)
    before = {v.name: base.graph.values[v.name].tobytes() for v in base.graph.variables}
    (losses, state), (exact, numbers) = trained(base, method), trained(plain, method)
    assert losses[-1] < losses[0]
    np.testing.assert_allclose(losses, exact, rtol=1e-5)
    assert state.keys() == numbers.keys() and all(a.dtype == np.float32 for a in state.values())
    for name, a in state.items():
        assert np.linalg.norm(a - numbers[name]) < 1e-3 * np.linalg.norm(a)
    assert all(base.graph.values[n].tobytes() == held for n, held in before.items())


def test_a_base_takes_the_bytes_of_its_codes() -> None:
    """A number of a layer's matrix takes 4.127 bits; plans hold 0.5 MB of floats at a time."""
    config = DecoderConfig(vocabulary=60, width=256, layers=2, heads=8, inner=768)
    model = Decoder(config)
    made = gw.quant.quantize(model, "nf4_double").model
    matrices = [n for n in made.packed if n.startswith("layer")]
    assert len(matrices) == 14
    held = {v.name: v.spec.nbytes for v in made.graph.variables}
    n_bytes = sum(b for n, b in held.items() if n.startswith(tuple(matrices)))
    count = sum(np.prod(s) for n, s in config.weights() if n in matrices)
    assert 8 * n_bytes / count == pytest.approx(4.127, abs=2e-3)

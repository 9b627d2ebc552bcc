"""Steps that compute each prompt once are the steps that compute it with every completion."""

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.models import Decoder, DecoderConfig

SIZES = {"vocabulary": 12, "width": 16, "layers": 2, "heads": 4, "context": 16}
PROMPTS = [gw.align.Prompt(row) for row in ([1, 2, 3, 4], [5], [6, 7], [8, 1, 3])]
MODELS: dict[str, dict[str, Any]] = {
    "llama with experts": {"kv_heads": 2, "window": 3, "qk_norm": True, "experts": 4},
    "gpt2": {"positions": "learned", "norm": "layer", "gated": False, "activation": "gelu"},
}


def varied(completion_ids: list[list[int]]) -> list[float]:
    """Return how many different tokens each completion has."""
    return [float(len(set(row))) for row in completion_ids]


def made(
    config: dict[str, Any], *, shares: bool, settings: dict[str, Any] | None = None, **of: Any
) -> Any:
    """Return a trainer of a small decoder, whose steps share prompts or do not."""
    model = Decoder(DecoderConfig(**{**SIZES, **config}), eos=0, seed=3)
    given = {"num_generations": 3, "max_completion_length": 5, **(settings or {})}
    method: Any = gw.align.GRPO(**given)
    settled = {"optimizer": gw.optim.SGD(0.5), "session": gw.Session(model.graph, kernels="off")}
    trainer: Any = gw.align.trainer(model, method, rewards=varied, **{**settled, **of})
    if not shares:
        trainer.parts.taker.keeper._stand_ins = None
    return trainer


def assert_same(one: Any, other: Any, size: int = 6) -> None:
    """Train both for three steps and hold their weights together."""
    names = [v.name for v in other.graph.variables if v.trainable]
    before = {name: np.array(other.graph.values.array(name)) for name in names}
    for trainer in (one, other):
        trainer.fit(PROMPTS, epochs=2, steps=3, batch_size=size, progress=False)
    first, second = (t.objective.experience.rollout.completions for t in (one, other))
    assert first == second
    got, want = one.graph.values, other.graph.values
    for name in names:
        np.testing.assert_allclose(
            got.array(name), want.array(name), rtol=1e-5, atol=1e-5, err_msg=name
        )
    moved = max(float(np.abs(want.array(name) - held).max()) for name, held in before.items())
    assert moved > 1e-3


def stand_in(trainer: Any, name: str) -> Any:
    """Return what stands for a tensor in a step, or None where it is computed as it is."""
    assert trainer.parts.taker.current()
    return trainer.graph.get(f"optimizer/distinct/{name}")


@pytest.mark.parametrize("kind", MODELS)
def test_steps_are_the_same(kind: str) -> None:
    one, other = (made(MODELS[kind], shares=shares) for shares in (True, False))
    assert_same(one, other)
    assert stand_in(one, "layer1/rms_norm" if kind != "gpt2" else "layer1/layer_norm").shape[0] == 1


def test_groups_may_be_split_and_adapters_come_later() -> None:
    settings = {"steps_per_generation": 3, "beta": 0.1}
    one, other = (made({}, shares=shares, settings=settings) for shares in (True, False))
    for trainer in (one, other):
        gw.adapters.add(trainer.objective.model, gw.adapters.LoRA(r=2), where=["q", "up"])
    assert_same(one, other, size=4)


def test_a_step_computes_what_differs() -> None:
    trainer = made({}, shares=True)
    trainer.fit(PROMPTS, steps=1, batch_size=6, shuffle=False, progress=False)
    rollout, distinct = trainer.objective.experience.rollout, trainer.objective._distinct
    fed = trainer.objective.minibatch(0, 0)
    ids, rows, tokens = (
        fed[t] for t in (trainer.objective.model.ids, distinct.rows, distinct.tokens)
    )
    lengths, n = rollout.lengths, len(np.unique(rows))
    prompts = sum(len(p.tokens) for p in rollout.prompts)
    assert n == prompts + np.maximum(lengths - 1, 0).sum()
    assert n <= len(tokens) <= ids.size
    read = ids.reshape(-1)[tokens][rows]
    for row, length in enumerate(lengths):
        end = len(rollout.prompt(row).tokens) + length - 1
        assert read[row, :end].tolist() == ids[row, :end].tolist()


def test_what_is_random_is_computed_row_by_row() -> None:
    trainer = made({"dropout": 0.1}, shares=True, settings={"ratio_tolerance": None})
    trainer.fit(PROMPTS, steps=1, batch_size=6, progress=False)
    assert stand_in(trainer, "layer0/rms_norm") is None

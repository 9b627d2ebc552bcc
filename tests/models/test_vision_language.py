"""Decoders that see, against transformers: logits, gradients, tokens behind images of their own."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import FeedError, GraphError
from gradwright.models import (
    DecoderConfig,
    Temperature,
    VisionLanguage,
    VisionLanguageConfig,
    from_pretrained,
)
from gradwright.words.jsonable import from_json, to_json
from tests.models import theirs as other

SMALL = VisionLanguageConfig(
    DecoderConfig(vocabulary=37, width=32, layers=2, heads=4, kv_heads=2, context=48),
    image=6,
    patch=2,
    channels=3,
    hidden=20,
)
RNG = np.random.default_rng(0)
IMAGES = RNG.uniform(size=(4, 6, 6, 3)).astype("float32")
PROMPTS = [[5, 9, 2], [7], [30, 1, 1, 4, 9], [5, 9, 2]]


def loud(config: VisionLanguageConfig = SMALL) -> VisionLanguage:
    """Return a model of weights so large that all parts of it show."""
    model, rng = VisionLanguage(config), np.random.default_rng(3)
    for v in model.graph.variables:
        model.graph.values[v.name] = 0.3 * rng.standard_normal(v.shape) + (len(v.shape) == 1)
    return model


def naive(model: VisionLanguage, prompt: list[int], image: np.ndarray, n: int) -> list[int]:
    """Return greedy tokens by running the training graph on everything, again and again."""
    tokens = list(prompt)
    with gw.Session(model.graph, kernels="off") as session:
        for _ in range(n):
            logits = session.run(model.logits, {"ids": [tokens], "images": image[None]})
            tokens.append(int(logits[0, -1].argmax()))
    return tokens[len(prompt) :]


@pytest.mark.parametrize("kind", ["llama", "gemma2", "gpt2"])
def test_logits_and_gradients_are_those_of_transformers_on_vectors(kind, tmp_path) -> None:
    torch = other.torch_of()
    theirs = other.model_of(kind)
    decoder = from_pretrained(other.saved(theirs, tmp_path))
    config = VisionLanguageConfig(decoder.config, image=6, patch=2, channels=3, hidden=20)
    held = {v.name: decoder.graph.values[v.name] for v in decoder.graph.variables}
    for name, shape in config.projector():
        held[name] = RNG.standard_normal(shape).astype("float32") * 0.3
    model = VisionLanguage(config, values=held)
    rows = [[5, 9, 2, 8, 11], [7, 3, 30], [1, 2, 3, 4], [9, 9]]
    batch = model.examples(rows, IMAGES, n_prompt=1)
    up = model.graph["projector/up"]
    (slope,) = gw.gradients(model.loss, [up])
    found = model.graph.output(batch, model.logits, model.loss, slope)

    w = {n: torch.tensor(held[n], requires_grad=True) for n, _ in config.projector()}
    cut = torch.nn.functional.unfold(torch.tensor(IMAGES).permute(0, 3, 1, 2), 2, stride=2)
    patches = cut.mT.reshape(4, 9, 3, 4).transpose(2, 3).reshape(4, 9, 12)
    inner = torch.nn.functional.gelu(patches @ w["projector/up"].T + w["projector/up_bias"])
    seen = inner @ w["projector/down"].T + w["projector/down_bias"] + w["projector/positions"]
    ids = torch.tensor(batch["ids"])
    said = theirs.get_input_embeddings()(ids)
    labels = torch.cat([torch.full((4, 9), -100), torch.tensor(batch["labels"])], 1)
    there = theirs(inputs_embeds=torch.cat([seen, said], 1), labels=labels)
    there.loss.backward()
    np.testing.assert_allclose(found["logits"], there.logits[:, 9:].detach(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found["loss"], there.loss.item(), rtol=1e-5)
    grad = w["projector/up"].grad.numpy()
    np.testing.assert_allclose(found[slope.name], grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    "decoder",
    [
        SMALL.decoder,
        DecoderConfig(vocabulary=37, width=32, layers=2, heads=4, context=24, positions="learned"),
        DecoderConfig(vocabulary=37, width=32, layers=2, heads=4, context=48, window=4),
    ],
    ids=["rotary", "learned places", "window"],
)
def test_tokens_behind_cached_images_are_those_of_the_training_graph(decoder) -> None:
    model = loud(VisionLanguageConfig(decoder, image=6, patch=2, channels=3))
    rows = model.generate(PROMPTS, IMAGES, 8)
    for row, image in zip(rows, IMAGES, strict=True):
        assert row.tokens == naive(model, row.prompt, image, 8)
    assert rows[0].tokens != rows[3].tokens  # one prompt, two images
    chunked = model.generate(PROMPTS, IMAGES, 8, prefill_chunk=4)
    assert [row.tokens for row in chunked] == [row.tokens for row in rows]


def test_a_row_sees_its_image_whichever_stand_beside_it() -> None:
    model, drawn = loud(), {"sampling": [Temperature(1.0)], "seed": [3, 4, 5, 6]}
    together = model.generate(PROMPTS, IMAGES, 6, **drawn)
    turned = model.generate(
        PROMPTS[::-1], IMAGES[::-1], 6, sampling=[Temperature(1.0)], seed=[6, 5, 4, 3]
    )
    assert [row.tokens for row in turned[::-1]] == [row.tokens for row in together]
    (alone,) = model.generate([PROMPTS[2]], IMAGES[2:3], 6, sampling=[Temperature(1.0)], seed=5)
    assert alone.tokens == together[2].tokens


def test_generations_follow_training_and_adapters() -> None:
    model = loud()
    before = [row.tokens for row in model.generate(PROMPTS, IMAGES, 6)]
    adapted = gw.adapters.add(model, gw.adapters.LoRA(r=4), where="projector/*|q|v")
    assert [row.tokens for row in model.generate(PROMPTS, IMAGES, 6)] == before
    rows = [[5, 9, 2, 1], [7, 3], [8, 8], [1, 0, 1]]
    trainer = gw.Trainer(model.graph, model.loss, gw.optim.Adam(0.05))
    for _ in range(5):
        trainer.step(model.examples(rows, IMAGES, n_prompt=1))
    after = model.generate(PROMPTS, IMAGES, 6)
    assert [row.tokens for row in after] != before
    assert after[2].tokens == naive(model, PROMPTS[2], IMAGES[2], 6)
    with adapted.disabled():
        assert [row.tokens for row in model.generate(PROMPTS, IMAGES, 6)] == before
    adapted.remove()
    gw.adapters.add(model, gw.adapters.Prefix(2))
    with pytest.raises(GraphError, match="where an image does"):
        model.generate(PROMPTS, IMAGES, 2)


def test_a_saved_model_says_the_same(tmp_path) -> None:
    model, path = loud(), tmp_path / "model.gw"
    model.graph.save(path)
    other = VisionLanguage(from_json(to_json(SMALL)))
    other.graph.values.restore(gw.load(path).values)
    expected = [row.tokens for row in model.generate(PROMPTS, IMAGES, 5)]
    assert [row.tokens for row in other.generate(PROMPTS, IMAGES, 5)] == expected


def test_what_does_not_fit_is_refused() -> None:
    model = loud()
    for call, said in (
        (lambda: model.generate(PROMPTS, IMAGES[:3], 2), "one of 4 rows each"),
        (lambda: model.generate(PROMPTS, IMAGES[..., 0], 2), r"\(rows, 6, 6, 3\)"),
        (lambda: model.generation().generate(PROMPTS, 2), "rows feed no images"),
        (lambda: model.generation().generate([[1]], 2, feeds={"encoded": [1]}), "'encoded'"),
        (lambda: model.generate([[1] * 30], IMAGES[:1], 20), "exceed the context"),
        (lambda: model.examples([[1, 2]], IMAGES), "one of each row"),
        (lambda: model.examples([[1] * 40], IMAGES[:1]), "behind 9 patches"),
    ):
        with pytest.raises(FeedError, match=said):
            call()
    for sizes in ({"image": 7}, {"patch": 0}, {"image": 14}):
        with pytest.raises(GraphError):
            VisionLanguageConfig(SMALL.decoder, **{"image": 6, "patch": 2, **sizes})

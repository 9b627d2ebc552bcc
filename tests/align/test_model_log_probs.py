"""What models say of their tokens, against plain arithmetic on their own logits."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.align.logps import head_log_probs
from gradwright.errors import TrainingError
from gradwright.models import Decoder, DecoderConfig

align = gw.align
SIZES = {"vocabulary": 32, "width": 32, "layers": 1, "heads": 2}
ROWS, PROMPTS = [[1, 2, 3, 4, 5], [6, 7, 8]], [2, 1]


def decoder(**settings):
    return Decoder(DecoderConfig(**SIZES, **settings), eos=0)


def packed(format):
    return gw.quant.quantize(decoder(), format).model


def adapted():
    model = decoder()
    gw.adapters.add(model, gw.adapters.LoRA(r=2, init=False), where="q|head")
    return model


MODELS = {
    "plain": decoder,
    "tied": lambda: decoder(tied=True),
    "capped": lambda: decoder(logit_cap=0.2),
    "capped and tied": lambda: decoder(logit_cap=0.2, tied=True),
    "blocks": lambda: packed("q8_0"),
    "nf4": lambda: packed("nf4"),
    "adapter at the head": adapted,
}


def expected(model, temperature):
    """Return what logits say in float64: six arrays [rows, T - 1], 0 where no label is."""
    fed = model.examples(ROWS, PROMPTS)
    x = np.float64(model.graph.output(fed, model.logits)[model.logits.name]) / temperature
    ids, counts = fed["ids"][:, 1:], fed["labels"][:, 1:] != -100
    x = x[:, :-1]
    log_p = x - np.log(np.exp(x).sum(-1, keepdims=True))
    said = np.take_along_axis(log_p, ids[..., None], -1)[..., 0]
    p = np.exp(log_p)
    more = -(p * log_p).sum(-1), np.log((p * p).sum(-1)), x.mean(-1), log_p.argmax(-1) == ids
    return [np.where(counts, y, 0) for y in (said, *more)] + [counts]


def said_by(model, said):
    return gw.Session(model.graph).run(list(said), model.examples(ROWS, PROMPTS))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_what_logits_say(make, temperature):
    model = make()
    found = said_by(model, align.model_log_probs(model, temperature=temperature))
    for mine, theirs in zip(found, expected(model, temperature), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)


def test_both_ways_to_say_it_have_one_gradient():
    model = decoder(logit_cap=0.5)
    g, head = model.graph, model.head
    counts, slopes = model.labels != -100, []
    for one in (head, head._replace(weight=None)):
        said = head_log_probs(one, model.ids, counts, temperature=1.3)
        parts = (said.log_probs, said.entropy, said.log_sum_squares, said.mean_logit)
        value = sum((i + 1) * x.sum() for i, x in enumerate(parts))
        slopes += gw.gradients(value, [g["head"], g["layer0/q"]])
    a, b, c, d = gw.Session(g).run(slopes, model.examples(ROWS, PROMPTS))
    np.testing.assert_allclose(a, c, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(b, d, rtol=1e-4, atol=1e-6)


def test_a_mask_of_its_own_and_tensors_made_once():
    model = decoder()
    said = align.model_log_probs(model)
    assert align.model_log_probs(model) == said
    assert align.model_log_probs(model, temperature=2.0).log_probs is not said.log_probs
    mask = model.graph.placeholder("mask", ("B", "T"), "bool")
    whole = align.model_log_probs(model, mask)
    assert align.model_log_probs(model, mask) == whole
    fed = {**model.examples(ROWS, PROMPTS), "mask": np.ones((2, 5), bool)}
    both = gw.Session(model.graph).run([said.log_probs, whole.log_probs], fed)
    counts = fed["labels"][:, 1:] != -100
    assert (both[1] < 0).all() and (both[0] == np.where(counts, both[1], 0)).all()


def test_an_adapter_that_comes_later_is_in_it_or_refused():
    model = decoder()
    said = align.model_log_probs(model)
    gw.adapters.add(model, gw.adapters.LoRA(r=2, init=False), where="q|v")
    np.testing.assert_allclose(said_by(model, said)[0], expected(model, 1.0)[0], atol=1e-5)

    trainer = align.trainer(model, align.SFT())
    gw.adapters.add(model, gw.adapters.LoRA(r=2), where="head", name="late")
    with pytest.raises(TrainingError, match="an adapter has come to the head"):
        trainer.step([{"prompt": [1], "completion": [2, 3]}])


def test_what_a_decoder_says_and_a_loss_of_it_are_written_to_onnx() -> None:
    """Whole logits then, and rows of any number and length."""
    runtime = pytest.importorskip("onnxruntime")
    config = DecoderConfig(vocabulary=11, width=16, layers=1, heads=2)
    model = Decoder(config, eos=0)
    said = gw.align.model_log_probs(model, temperature=0.7)
    loss = gw.align.dpo(said.log_probs, said.log_probs * 0.9, said.mask).value
    (slope,) = gw.gradients(loss, [model.graph["embed"]])
    wanted = [*said, loss, slope]
    theirs = runtime.InferenceSession(gw.onnx.to_model(model.graph, wanted).SerializeToString())
    for rows in ([[1, 2, 3, 4], [5, 6, 7]], [[1, 2], [3, 4], [5, 6], [1, 9]]):
        fed = model.examples(rows, n_prompt=1)
        mine = gw.Session(model.graph).run(wanted, fed)
        for a, b in zip(theirs.run(None, fed), mine, strict=True):
            np.testing.assert_allclose(a, b, atol=2e-6)

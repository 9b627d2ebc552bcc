"""The loss by hand from a model's logits, and that each wrong way to compute it is caught."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import gradwright as gw
from gradwright.align import logps
from gradwright.align.methods.fixed import Fixed
from gradwright.align.objectives import asked
from gradwright.errors import TrainingError
from gradwright.models import Decoder, DecoderConfig

EOS, BETA = 0, 0.5
PAIRS = [
    {"prompt": [1, 2, 3], "chosen": [4, 5], "rejected": [6]},
    {"prompt": [7], "chosen": [8], "rejected": [9, 10, 2, 5]},
]


def said(model, prompt, completion):
    """Return the mean of log p of a completion's tokens and eos, in float64, one after another."""
    tokens = [*prompt, *completion, EOS]
    x = np.float64(model.graph.output({"ids": [tokens]}, "logits")["logits"])[0]
    log_p = x - np.log(np.exp(x).sum(-1, keepdims=True))
    return np.mean([log_p[at - 1, tokens[at]] for at in range(len(prompt), len(tokens))])


def by_hand(model, reference):
    """Return the loss of IPO, the mean of (Δ_chosen/n − Δ_rejected/n − 1/2β)².

    Prompts do not cancel in it, as they do where sums are compared.
    """
    losses = []
    for row in PAIRS:
        moved = [
            said(model, row["prompt"], row[name]) - said(reference, row["prompt"], row[name])
            for name in ("chosen", "rejected")
        ]
        losses.append((moved[0] - moved[1] - 1 / (2 * BETA)) ** 2)
    return np.mean(losses)


def models():
    """Return a policy that has left its reference, its objective, and the reference."""
    config = DecoderConfig(vocabulary=12, width=16, layers=1, heads=2)
    model, reference = Decoder(config, eos=EOS), Decoder(config)
    objective = gw.align.DPO(loss_type="ipo", beta=BETA).objective(model)
    rng = np.random.default_rng(0)
    for t in model.graph.trainable:
        moved = model.graph.values[t.name] + rng.normal(0, 0.2, t.shape)
        model.graph.values[t.name] = np.float32(moved)
    return model, objective, reference


@functools.cache
def expected():
    model, _, reference = models()
    return by_hand(model, reference)


def check_the_loss():
    model, objective, _ = models()
    (loss,) = objective.losses.values()
    found = gw.Session(model.graph).run(loss, objective.feeds(PAIRS))
    np.testing.assert_allclose(found, expected(), rtol=1e-5)


def test_the_loss_is_what_logits_say():
    assert abs(expected() - 1 / (4 * BETA**2)) > 0.02  # of a policy that is its reference
    check_the_loss()


def unshifted(patch):
    """Ask each state about the token that it has read, and not about the next."""
    right = logps.token_log_probs

    def wrong(hidden, weight, ids, *rest, **more):
        return right(hidden, weight, gw.concat([ids[:, :1], ids[:, :-1]], axis=1), *rest, **more)

    patch.setattr(logps, "token_log_probs", wrong)


def without_mask(patch):
    right = logps.token_log_probs
    patch.setattr(
        logps,
        "token_log_probs",
        lambda hidden, weight, ids, mask, **more: right(hidden, weight, ids, None, **more),
    )


def with_prompt(patch):
    patch.setattr(Fixed, "reading", lambda _: {"completion_only_loss": False})


def without_eos(patch):
    patch.setattr(Fixed, "reading", lambda _: {"add_eos": False})


def its_own_reference(patch):
    patch.setattr(
        asked, "reference_log_probs", lambda model, **_: gw.align.model_log_probs(model).log_probs
    )


@pytest.mark.parametrize("mutate", [unshifted, without_mask, with_prompt, without_eos])
def test_a_mutant_is_caught(mutate, monkeypatch):
    expected()
    mutate(monkeypatch)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_the_loss()


def test_a_policy_is_never_its_own_reference(monkeypatch):
    its_own_reference(monkeypatch)
    with pytest.raises(TrainingError, match="the reference shares"):
        check_the_loss()

"""Every method against peft on a tiny Llama: outputs, gradients, merges and five steps."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import gradwright as gw
from gradwright import adapters
from gradwright.errors import GraphError
from tests.adapters import peft_models as other
from tests.adapters.methods import ROWS, peft

IDS = np.random.default_rng(7).integers(1, 37, (6, 2, 12))
"""A batch to look at, and one for each step."""


class Pair:
    """A tiny Llama with an adapter of peft, and with ours; and as it was without any."""

    def __init__(self, row) -> None:
        peft()
        self.row, theirs = row, other.llama()
        self.base, self.model = other.decoder(theirs), other.decoder(theirs)
        self.theirs = other.with_peft(theirs, row.theirs(row.size)).eval()
        self.adapted = adapters.add(self.model, row.ours(row.size), row.where)
        self.session = gw.Session(self.model.graph, deterministic=True)
        with gw.Session(self.base.graph, deterministic=True) as session:
            self.of_base = other.run(session, self.base, IDS[0])
        self.first = self.logits()
        self._drawn = other.drawn(self.theirs)

    def reset(self) -> None:
        """Let both have the same adapter, all of it far from zero."""
        other.put(self.theirs, self._drawn)
        self.adapted.load_state(other.values(self.theirs))

    def merged(self, place):
        """Return weight and bias of a place with the adapter in them, or None."""
        values = self.model.graph.values
        leaves = {**self.adapted.variables[place.name], **self.adapted.shared}
        p = {leaf: values[t.name] for leaf, t in leaves.items()}
        return self.adapted.adapter.merge(place, place.array(values), None, p)

    @property
    def loss(self):
        """What is trained: the model's loss, and what the method adds to it."""
        more = self.adapted.penalty
        return self.model.loss if more is None else self.model.loss + more

    def logits(self) -> np.ndarray:
        return other.run(self.session, self.model, IDS[0])

    def logits_there(self) -> np.ndarray:
        return other.logits_there(self.theirs, IDS[0])


@pytest.fixture(scope="module", params=ROWS)
def pair(request):
    made = Pair(ROWS[request.param])
    yield made
    made.session.close()


def test_a_method_begins_where_it_says(pair) -> None:
    """Step 0 is the base's, where the method changes nothing at first.

    DoRA divides by a norm what it multiplies with it: numpy's rounding alone comes to 0.9e-6.
    """
    differs = np.abs(pair.first - pair.of_base).max() / np.abs(pair.of_base).max()
    assert differs <= 2e-6 if pair.row.begins_as_base else differs > 1e-3


def test_disabled_it_is_the_base_to_the_bit(pair) -> None:
    pair.reset()
    assert np.abs(pair.logits() - pair.of_base).max() > 0.05
    with pair.adapted.disabled():
        np.testing.assert_array_equal(pair.logits(), pair.of_base)
    assert np.abs(pair.logits() - pair.of_base).max() > 0.05


def test_outputs_and_gradients_are_those_of_peft(pair) -> None:
    pair.reset()
    other.close(pair.logits(), pair.logits_there(), 1e-5)
    loss, wanted = other.gradients_of(pair.theirs, IDS[0])
    trained = {f"{place}/{leaf}": t for place, leaves in pair.adapted.variables.items()
               for leaf, t in leaves.items() if t.trainable}  # fmt: skip
    assert trained.keys() == wanted.keys()
    grads = gw.gradients(pair.loss, list(trained.values()))
    found = pair.session.run([pair.loss, *grads], {"ids": IDS[0], "labels": IDS[0]})
    assert found[0] == pytest.approx(loss, rel=1e-5)
    for name, grad in zip(trained, found[1:], strict=True):
        other.close(grad, wanted[name], 1e-4)


def test_five_steps_are_those_of_peft(pair) -> None:
    """Losses of AdamW, of what moves each method a good way."""
    torch = other.torch_of()
    pair.reset()
    trainer = gw.Trainer(pair.model.graph, pair.model.loss, gw.optim.AdamW(1e-2))
    optimizer = torch.optim.AdamW([p for _, p in other.trained(pair.theirs)], 1e-2)
    losses = []
    for step, batch in enumerate(IDS[1:], 1):
        ids = torch.tensor(batch)
        loss = pair.theirs(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if hasattr(pair.theirs.base_model, "update_and_allocate"):
            pair.theirs.base_model.update_and_allocate(step)
        metrics = trainer.step({"ids": batch, "labels": batch}).metrics
        found = metrics["loss"] + metrics.get("default_penalty", 0.0)
        assert found == pytest.approx(loss.item(), rel=1e-5), f"step {step}"
        losses.append(found)
    assert len(set(losses)) == 5


def test_merged_it_is_what_it_was(pair) -> None:
    """Merged equals unmerged within 1e-4, and peft's merged within 1e-5."""
    pair.reset()
    if not pair.row.merges:
        with pytest.raises(GraphError):
            assert pair.merged(pair.adapted.places[0]) is not None
        return
    values = pair.base.graph.values
    kept = {v.name: values[v.name].copy() for v in pair.base.graph.variables}
    for place in pair.adapted.places:
        weight, bias = pair.merged(place)
        assert bias is None
        values[place.name] = place.stored(weight)
    with gw.Session(pair.base.graph) as session:
        found = other.run(session, pair.base, IDS[0])
    values.commit(kept)
    other.close(found, pair.logits(), 1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pair.theirs.merge_adapter()
        wanted = pair.logits_there()
        pair.theirs.unmerge_adapter()
    other.close(found, wanted, 1e-5)


def test_gradients_of_a_method_are_its_slopes(pair) -> None:
    """Against differences of the loss, in float64."""
    pair.reset()
    report = gw.gradient_check(
        pair.model.graph,
        pair.model.loss,
        {"ids": IDS[0], "labels": IDS[0]},
        wrt=pair.adapted.parameters,
        max_per_param=2,
    )
    assert report.passed, report

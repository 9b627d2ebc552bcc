"""The plan is neutral, by proof: a device of copies, without an address, runs what the CPU runs.

``GRADWRIGHT_TEST_DEVICE=copies`` runs any test so, and ``python -m tests.machines copies`` those of
ops, sessions, loops and training.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradwrightError
from gradwright.session import session as sessions
from tests.house.trainings import TRAININGS
from tests.support.copies import Copies
from tests.train.checkpoints.resumed import fit, trainer_of


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every session run on the device of copies."""
    monkeypatch.setattr(sessions, "open_device", lambda name: Copies())


def losses(outcome: dict[str, Any]) -> list[float]:
    return [float.fromhex(x) for x in outcome["losses"]]


@pytest.mark.parametrize(
    "name", ["mlp_by_adam", "gathered_and_averaged", "loops_and_branches", "attention_in_layers"]
)
def test_trainings_go_the_same_way(name: str, request: pytest.FixtureRequest) -> None:
    expected = TRAININGS[name]()
    request.getfixturevalue("copies")
    found = TRAININGS[name]()
    assert found["steps"] == expected["steps"]
    np.testing.assert_allclose(losses(found), losses(expected), rtol=1e-4)


OPS = ["matmul", "softmax", "nonzero", "split", "lstm", "layer_norm", "uniform", "stack", "einsum"]


@pytest.mark.parametrize("name", OPS)
def test_ops_give_what_their_forward_gives(name: str, copies: None) -> None:
    rng = np.random.default_rng(0)
    for sample in gw.ops.find(name).op.samples(rng):
        op = gw.ops.find(name).op(**sample.attrs).for_mode(False)
        g = gw.Graph()
        xs = [None if x is None else g.constant(np.asarray(x)) for x in sample.inputs]
        y = op(*xs)
        ys = y if isinstance(y, tuple) else (y,)
        expected = op.forward(*(None if x is None else np.asarray(x) for x in sample.inputs))
        with gw.Session(g) as session:
            assert session.device.name == "copies"
            found = session.run(list(ys))
        given = expected if isinstance(expected, tuple) else (expected,)
        for a, b in zip(found, given, strict=False):
            np.testing.assert_array_equal(a, b)


def test_segments_commits_and_errors(copies: None) -> None:
    g = gw.Graph()
    x, w = g.placeholder("x", (None,)), g.variable("w", (), init=2.0)
    kept = gw.boolean_mask(x, x > 0.0) * w  # a size that values decide ends a segment
    with gw.Session(g) as session:
        y = session.run(kept, {"x": [1.0, -1.0, 3.0]}, {w: w + kept.sum()})
        assert y.tolist() == [2.0, 6.0] and float(session.values["w"]) == 10.0
        refused = session.run(kept, {"x": [1.0]}, {w: w * 0.0}, commit_if=g.constant(False))
        assert refused.tolist() == [10.0] and float(session.values["w"]) == 10.0
        y[:] = 0.0
        assert session.run(kept, {"x": [1.0]}).tolist() == [10.0]
    with pytest.raises(GradwrightError, match="'bad'"), gw.Session(g) as session:
        session.run(gw.gather(x, g.constant([9]), name="bad"), {"x": [1.0]})


def test_a_checkpoint_of_another_device_is_resumed_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fixes its bits is the other's to know: that is told, and all is taken over."""
    with monkeypatch.context() as patch:
        patch.setattr(sessions, "open_device", lambda name: Copies())
        first = trainer_of(gw.Checkpoints(tmp_path))
        fit(first, 2)
    second = trainer_of()
    with pytest.warns(UserWarning, match="other conditions"):
        gw.resume(second, tmp_path)
    assert second.steps_done == first.steps_done
    for t in first.graph.variables:
        np.testing.assert_array_equal(second.values[t.name], first.values[t.name])

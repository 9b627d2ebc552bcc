"""What an archive keeps of training: updates with what they read, and what freezing has stopped."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError
from tests.formats import archives
from tests.formats.archives import forge_document

path = pytest.fixture(archives.path)


def network() -> gw.Graph:
    """Return two layers that share statistics, a count and a slow copy of a weight."""
    g = gw.Graph()
    x, w = g.placeholder("x", (None, 3)), g.variable("w", (3,), init=2.0)
    mean, var = (g.variable(n, (3,), init=1.0, trainable=False) for n in ("mean", "var"))
    scale, offset = g.variable("scale", (3,), init=1.0), g.variable("offset", (3,))
    h = gw.nn.batch_norm(x * w, scale, offset, mean, var, name="one")
    y = gw.nn.batch_norm(h + x, scale, offset, mean, var, name="two")
    slow, count = (g.variable(n, (3,), trainable=False) for n in ("slow", "count"))
    g.update(slow, w, when="after")
    g.update(count, count + 1.0)
    gw.mean((y - slow) ** 2.0, name="loss")
    return g


def trained(g: gw.Graph) -> dict[str, bytes]:
    """Return the bits of all values after two steps."""
    session = gw.Session(g, deterministic=True)
    trainer = gw.Trainer(g, "loss", gw.optim.SGD(0.1), session=session)
    for _ in range(2):
        trainer.step({"x": np.random.default_rng(0).standard_normal((8, 3))})
    return {name: g.values[name].tobytes() for name in g.values}


def first_format(document):
    """Make a document what the first format was: updates of layers are told, freezing is not."""
    del document["after"]
    document["updates"] |= {"mean": "two:1", "var": "two:2"}
    for row in document["nodes"]:
        row.pop("frozen", None)


def test_training_goes_on_from_an_archive_to_the_same_bits(path):
    network().save(path)
    found = gw.load(path)
    declared = {v.name: (d.value.name, d.when) for v, d in found.updates.declared.items()}
    assert declared == {"count": ("add_1", "before"), "slow": ("w", "after")}
    assert trained(found) == trained(network())


def test_unfreezing_after_loading_gives_back_what_was_frozen(path):
    g = network()
    g.freeze()
    g.save(path)
    found = gw.load(path)
    assert not found.trainable
    assert found.unfreeze() == ["w", "scale", "offset"] == [t.name for t in found.trainable]


def test_an_archive_of_the_first_format_is_read_as_it_was_meant(path):
    g = network()
    g.freeze("w")
    g.save(path)
    forge_document(path, first_format)
    found = gw.load(path)
    assert [v.name for v in found.updates.declared] == ["count"]
    assert found.unfreeze("*w*") == ["w", "slow"]  # nothing tells what was made not to be trained
    assert [t.name for t in found.trainable] == ["w", "scale", "offset", "slow"]
    assert not {"mean", "var"} & {*found.unfreeze()}
    found["slow"].trainable = False
    found.update(found["slow"], found["w"], when="after")
    assert trained(found) == trained(network())


FORGED = {
    "two updates": (lambda d: d["updates"].update(slow="w"), "update of 'slow'.*it has two"),
    "no value": (lambda d: d["after"].update(slow="nothing"), "no node is called 'nothing'"),
    "no text": (lambda d: d["after"].update(slow=1), "after"),
    "no table": (lambda d: d.update(after=[]), "after"),
    "a placeholder": (lambda d: d["after"].update(x="w"), "only variables are updated"),
    "frozen input": (lambda d: d["nodes"][0].update(frozen=True), "trainable, or frozen"),
    "frozen, trainable": (lambda d: d["nodes"][1].update(frozen=True), "trainable, or frozen"),
    "frozen text": (lambda d: d["nodes"][1].update(frozen="no"), "frozen is text"),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_updates_and_marks_are_refused(path, name):
    change, match = FORGED[name]
    network().save(path)
    forge_document(path, change)
    with pytest.raises(ArchiveError, match=f"(?s){match}"):
        gw.load(path)

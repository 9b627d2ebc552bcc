"""Graphs with adapters that are saved and loaded are adapted as before, and go on learning."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.adapters import IA3, AdaLoRA, LoRA, Prefix, Prompt, VeRA, add, of
from gradwright.errors import ArchiveError, GraphError
from gradwright.models import Decoder, DecoderConfig

FEEDS = {"ids": np.array([[1, 5, 3, 2]]), "labels": np.array([[1, 5, 3, 2]])}
METHODS = {
    "lora": (LoRA(r=2, init=False), "q|v"),
    "adalora": (AdaLoRA(init_r=3, target_r=1, total_step=6), "q|v"),
    "vera": (VeRA(r=4), "q|v"),
    "ia3": (IA3(feedforward="down"), "k|down"),
    "prefix": (Prefix(tokens=2), None),
    "prompt": (Prompt(tokens=2), None),
}


def model() -> Decoder:
    return Decoder(DecoderConfig(vocabulary=20, width=16, layers=2, heads=2))


def drawn(adapted: gw.adapters.Adapted) -> None:
    rng = np.random.default_rng(0)
    state = adapted.state().items()
    adapted.load_state({k: v + rng.standard_normal(v.shape) * 0.1 for k, v in state})


@pytest.mark.parametrize(
    ("name", "active"), [(name, i % 3 > 0) for i, name in enumerate(METHODS)] + [("prompt", False)]
)
def test_a_loaded_graph_has_its_adapters(name: str, active: bool, tmp_path: Path) -> None:
    method, where = METHODS[name]
    held = model()
    base = held.graph.output(FEEDS, "logits")["logits"]
    adapted = add(held, method, where, keep="norm")
    drawn(adapted)
    if not active:
        adapted.disable()
    gw.save(held.graph, tmp_path / "g.gw")
    g = gw.load(tmp_path / "g.gw")
    wanted = held.graph.output(FEEDS, "logits")["logits"]
    np.testing.assert_array_equal(g.output(FEEDS, "logits")["logits"], wanted)
    [again] = of(g).values()
    assert (again.adapter, again.is_enabled) == (method, active)
    assert again.state().keys() == adapted.state().keys()
    assert str(again.trainable) == str(adapted.trainable)
    again.disable()
    without = g.output(FEEDS, "logits")["logits"]
    adapted.disable()
    np.testing.assert_array_equal(without, held.graph.output(FEEDS, "logits")["logits"])
    again.enable()
    with_it = g.output(FEEDS, "logits")["logits"]
    assert abs(with_it - without).max() > 1e-4
    gw.save(g, tmp_path / "again.gw")
    assert list(of(gw.load(tmp_path / "again.gw"))) == ["default"]
    again.remove()
    assert {t.name for t in g.trainable} == {n for n, _ in held.config.weights()}
    assert [n.name for n in g.nodes] == [n.name for n in model().graph.nodes]
    g.values["norm"] = model().graph.values["norm"]
    np.testing.assert_array_equal(g.output(FEEDS, "logits")["logits"], base)


def test_adalora_goes_on_where_it_was(tmp_path: Path) -> None:
    found = []
    for stop in (False, True):
        held = model()
        adapted = add(held, METHODS["adalora"][0], "q|v")
        g, loss = held.graph, held.loss
        trainer = gw.Trainer(g, loss, gw.optim.AdamW(0.05))
        for _ in range(3):
            trainer.step(FEEDS)
        if stop:
            gw.save(g, tmp_path / "g.gw", state={"trainer": trainer.state_dict()})
            g = gw.load(tmp_path / "g.gw")
            trainer = gw.Trainer(g, g["loss"], gw.optim.AdamW(0.05))
            trainer.load_state_dict(gw.load_state(tmp_path / "g.gw", "trainer"))
        for _ in range(3):
            record = trainer.step(FEEDS)
            assert record is not None and record.metrics["default_penalty"] > 0
        [adapted] = of(g).values()
        found.append((adapted.state(), adapted.adapter.ranks(adapted)))  # type: ignore[attr-defined]
    assert sum(found[0][1].values()) == 4 and found[0][1] == found[1][1]
    for key, array in found[0][0].items():
        np.testing.assert_allclose(found[1][0][key], array, rtol=1e-4, atol=1e-6)


def test_several_and_weights_come_back(tmp_path: Path) -> None:
    held = model()
    first, second = add(held, LoRA(r=2), "q"), add(held, LoRA(r=1), "q|up", name="b")
    drawn(first)
    drawn(second)
    first.weight = 0.5
    reference = second.reference(held.logits)
    gw.save(held.graph, tmp_path / "g.gw")
    g = gw.load(tmp_path / "g.gw")
    for name in ("logits", reference.name):
        wanted = held.graph.output(FEEDS, name)[name]
        np.testing.assert_array_equal(g.output(FEEDS, name)[name], wanted)
    again = of(g)
    assert again["default"].weight == 0.5
    again["default"].weight = 2.0
    first.weight = 2.0
    for name, one in (("default", first), ("b", second)):
        again[name].disable()
        one.disable()
        wanted = held.graph.output(FEEDS, "logits")["logits"]
        np.testing.assert_array_equal(g.output(FEEDS, "logits")["logits"], wanted)
    assert len(add(g, LoRA(r=1), "q", name="c").places[0].uses) == 1


def test_weights_that_the_archive_lacks_are_told(tmp_path: Path) -> None:
    held = model()
    add(held, LoRA(r=2, init="pissa"), "q")
    gw.save(held.graph, tmp_path / "g.gw")
    [again] = of(gw.load(tmp_path / "g.gw")).values()
    with pytest.raises(GraphError, match="'layer0/q', 'layer1/q' was before 'default' came is not"):
        again.remove()


def test_archives_that_do_not_fit(tmp_path: Path) -> None:
    held = model()
    add(held, LoRA(r=2), "q")
    gw.save(held.graph, tmp_path / "g.gw")
    with zipfile.ZipFile(tmp_path / "g.gw") as file:
        document = json.loads(file.read("graph.json"))

    def opened(change: Any) -> gw.Graph:
        g = gw.load(tmp_path / "g.gw")
        notes = json.loads(json.dumps(document["notes"]))
        change(notes["adapters"])
        g.notes.update(notes)
        return g

    changes = [
        lambda d: d.pop("chains"),
        lambda d: d["adapters"][0].update(adapter={"$class": "Adam"}),
        lambda d: d["adapters"][0].update(adapter={"$class": "LoRA", "r": -1}),
        lambda d: d["adapters"][0].update(places=[3]),
        lambda d: d["adapters"][0].update(variables={"layer0/q": {"lora_A": "nothing"}}),
        lambda d: d["adapters"][0].update(places=[{"kind": "os", "fields": {}}]),
        lambda d: d["chains"][0].update(base="nothing"),
        lambda d: d["chains"][0]["links"][0].update(adapter="other"),
        lambda d: d.update(frozen=[None]),
        lambda d: d.update(adapters={"a": 1}),
    ]
    for change in changes:
        with pytest.raises(ArchiveError):
            of(opened(change))

"""The panel of adapters without a browser: tables, switches, merges, files, spectra in training."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, GradwrightError, GraphError
from gradwright.models import Decoder, DecoderConfig
from gradwright_widgets import AdapterPanel, Workbench
from gradwright_widgets.panels.adapters.panel import AdaptersPanel
from gradwright_widgets.panels.adapters.spectra import largest_values, spectrum
from tests.support.panels import sent, wait_for

CONFIG = DecoderConfig(vocabulary=16, width=16, layers=2, heads=2, context=32)
BATCH = [[1, 2, 3, 4, 5, 6], [3, 2, 1, 3, 2, 1]]


def model(method=None, where="q|v", **options) -> Decoder:
    made = Decoder(CONFIG, seed=1)
    gw.adapters.add(made, method or gw.adapters.LoRA(r=2, init=False), where=where, **options)
    return made


def store(panel: AdapterPanel) -> dict[str, np.ndarray]:
    """Return what a page that has just come knows: norms, ranks and spectra."""
    content, buffers = panel.part(AdaptersPanel).new_view_messages()[0]
    n = len(content["keys"])
    norms, ranks, spectra = (np.frombuffer(b, "<f4") for b in buffers)
    return {
        "steps": np.array(content["steps"]), "keys": content["keys"],
        "norms": norms.reshape(-1, n), "ranks": ranks.reshape(-1, n),
        "spectra": spectra.reshape(n, content["values"]),
    }  # fmt: skip


def test_the_table_tells_what_is_trained():
    made = model(gw.adapters.LoRA(r=2, bias="none"), keep="head")
    panel = AdapterPanel(made)
    (row,) = panel.adapters
    assert (row["name"], row["method"], row["settings"], row["on"]) == ("default", "LoRA", "r=2",
                                                                        True)  # fmt: skip
    assert (row["places"], row["trained"], row["bytes"]) == (4, 4 * 64, 4 * 64 * 4)
    rows = {(r["adapter"], r["place"]): r for r in panel.adapter_rows}
    assert len(rows) == 5 and rows["", "head"]["trained"] == 256
    place = rows["default", "layer1/v"]
    assert (place["leaves"], place["percent"]) == ("lora_A 2×16, lora_B 16×2", 25.0)
    assert "lora_A 2×16" in panel.to_table() and "layer1/v" in panel.to_table()


@pytest.mark.parametrize(
    ("method", "where"),
    [
        (gw.adapters.LoRA(r=3, init=False, alpha=5), "q"),
        (gw.adapters.LoRA(r=3, init=False), "embed"),
        (gw.adapters.DoRA(r=2, init=False), "q"),
        (gw.adapters.LoHa(r=2), "q"),
        (gw.adapters.IA3(), "q"),
    ],
    ids=lambda x: x if isinstance(x, str) else type(x).__name__,
)
def test_spectra_are_those_of_what_a_merge_would_add(method, where):
    made = model(method, where)
    (adapted,) = gw.adapters.of(made).values()
    rng = np.random.default_rng(0)
    state = {k: v + 0.1 * rng.standard_normal(v.shape).astype("f") for k, v in
             adapted.state().items()}  # fmt: skip
    adapted.load_state(state)
    panel = AdapterPanel(made)
    found = panel.measure_deltas()
    before = {p.name: p.array() for p in adapted.places}
    gw.adapters.merge(adapted)
    for place in adapted.places:
        delta = (place.array() - before[place.name]).astype(np.float64).reshape(place.shape[0], -1)
        norm, values = found["default", place.name]
        expected = np.linalg.svd(delta, compute_uv=False)
        assert norm == pytest.approx(np.linalg.norm(delta), rel=1e-4)
        np.testing.assert_allclose(values, expected[: len(values)], atol=1e-4 * expected[0])


def test_large_matrices_are_measured_by_their_image():
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((600, 5)), rng.standard_normal((5, 700))
    expected = np.linalg.svd(a @ b, compute_uv=False)[:5]
    np.testing.assert_allclose(largest_values(a @ b, 5), expected, rtol=1e-8)
    assert np.isnan(largest_values(np.full((3, 2), np.nan))).all()


def test_what_is_no_part_of_a_weight_is_measured_by_itself():
    made = Decoder(CONFIG)
    gw.adapters.add(made, gw.adapters.NormTuning())
    assert all(np.isfinite(norm) for norm, _ in AdapterPanel(made).measure_deltas().values())
    p = {"prefix": np.full((2, 3), 2.0)}
    norm, values = spectrum(gw.adapters.LoRA(), SimplePlace(), p)
    assert (norm, len(values)) == (pytest.approx(np.sqrt(24.0)), 0)


class SimplePlace:
    name, kind, uses = "layer0", "block", ()


def test_norms_are_sampled_while_training(monkeypatch):
    made = model(gw.adapters.LoRA(r=2))
    trainer = gw.Trainer(made.graph, made.loss, gw.optim.Adam(0.1))
    panel = AdapterPanel(made, trainer)
    part = panel.part(AdaptersPanel)
    monkeypatch.setattr("gradwright_widgets.panels.adapters.history.SECONDS", 0.0)
    monkeypatch.setattr("gradwright_widgets.panels.adapters.history.SHARE", 1e9)
    panel._receive(panel, {"kind": "adapters.sync"}, [])
    messages = sent(panel, monkeypatch)
    trainer.fit([made.examples(BATCH)] * 12, progress=False)
    part._deltas_work.join(30)
    part._deltas_pace.flush()
    shown: list[int] = []
    for content, _ in messages:
        if content["kind"] == "adapters.deltas":
            assert content["start"] <= len(shown)
            shown[content["start"] :] = content["steps"]
    known = store(panel)
    assert shown == known["steps"].tolist(), "what came in parts is the whole"
    assert known["steps"][0] == 0 and known["steps"][-1] == 12 and len(known["steps"]) > 2
    assert (known["norms"][0] == 0).all() and (known["norms"][-1] > 0).all()
    norm, values = panel.measure_deltas()["default", "layer0/q"]
    k = known["keys"].index(["default", "layer0/q"])
    assert known["norms"][-1, k] == pytest.approx(norm, rel=1e-5)
    np.testing.assert_allclose(known["spectra"][k, :2], values, rtol=1e-5)
    assert np.isnan(known["spectra"][k, 2:]).all() and np.isnan(known["ranks"]).all()


def test_ranks_of_adalora_fall_and_are_told():
    method = gw.adapters.AdaLoRA(init_r=4, target_r=1, total_step=12, tinit=1, tfinal=2)
    made = model(method)
    trainer = gw.Trainer(made.graph, made.loss, gw.optim.Adam(0.05))
    panel = AdapterPanel(made, trainer)
    for _ in range(12):
        trainer.step(made.examples(BATCH))
        panel.measure_deltas()
    known = store(panel)
    (adapted,) = gw.adapters.of(made).values()
    assert (known["ranks"][0] == 4).all() and known["ranks"][-1].sum() == 4
    named = dict(zip((k[1] for k in known["keys"]), known["ranks"][-1].tolist(), strict=True))
    assert named == method.ranks(adapted)
    other = gw.adapters.add(made, gw.adapters.LoRA(r=1), where="o", name="other")
    panel.measure_deltas()
    again = store(panel)
    assert len(again["keys"]) == 6 and len(again["steps"]) == 12, "what was known stays"
    np.testing.assert_array_equal(again["norms"][:-1, :4], known["norms"][:-1])
    assert np.isnan(again["norms"][0, 4:]).all()
    other.remove()


def test_a_click_switches_and_weighs():
    made = model()
    panel = AdapterPanel(made)
    (adapted,) = gw.adapters.of(made).values()
    panel._receive(panel, {"kind": "adapters.switch", "name": "default", "on": False}, [])
    assert not adapted.is_enabled and panel.adapters[0]["on"] is False
    panel._receive(panel, {"kind": "adapters.weigh", "name": "default", "weight": 0.5}, [])
    assert adapted.weight == 0.5 and panel.adapters[0]["weight"] == 0.5
    assert [edit["text"] for edit in panel.edits] == ["adapter default on → off",
                                                      "weight of default 1 → 0.5"]  # fmt: skip
    panel.undo_edits()
    assert adapted.is_enabled and adapted.weight == 1.0
    assert panel.adapters[0]["on"] and panel.adapters[0]["weight"] == 1.0
    for wrong in (None, True, "1", float("nan"), float("inf")):
        panel._receive(panel, {"kind": "adapters.weigh", "name": "default", "weight": wrong}, [])
        assert panel.message and adapted.weight == 1.0


def test_a_merge_tells_its_drift_and_is_taken_back():
    made = model()
    feeds = made.examples(BATCH)
    panel = AdapterPanel(made, feeds=feeds)
    held = made.graph.values["layer0/q"].copy()
    panel._receive(panel, {"kind": "adapters.drift", "name": "default"}, [])
    drift = panel.adapter_drift["default"]
    assert drift["output"] == "logits" and 0 <= drift["relative"] < 1e-5 and drift["same"] == 1
    np.testing.assert_array_equal(made.graph.values["layer0/q"], held)
    assert panel.adapters[0]["on"] and not panel.adapters[0]["merged"]
    panel._receive(panel, {"kind": "adapters.merge", "name": "default"}, [])
    assert panel.adapters[0]["merged"] and (made.graph.values["layer0/q"] != held).any()
    panel._receive(panel, {"kind": "adapters.unmerge", "name": "default"}, [])
    np.testing.assert_array_equal(made.graph.values["layer0/q"], held)
    assert panel.message == ""
    packed = gw.quant.quantize(Decoder(DecoderConfig(**{**CONFIG.__dict__, "width": 32})), "q4_0")
    gw.adapters.add(packed.model, gw.adapters.LoRA(r=2, init=False), where="q")
    panel = AdapterPanel(packed.model, feeds=feeds)
    with pytest.raises(GraphError, match="packed again"):
        panel.merge_adapter("default")
    panel.measure_drift("default")
    assert panel.adapter_drift["default"]["packed"] == 2
    assert panel.adapter_drift["default"]["relative"] > 1e-5
    with pytest.raises(GraphError, match="nothing to run on"):
        AdapterPanel(model()).measure_drift("default")


def test_adapters_on_disk_are_listed_and_loaded(tmp_path):
    made = model()
    (first,) = gw.adapters.of(made).values()
    gw.adapters.save(first, tmp_path / "rhymes.v2")
    (tmp_path / "rhymes2").mkdir()
    (tmp_path / "rhymes2/adapter_config.json").write_text('{"peft_type": ')
    (tmp_path / "notes").mkdir()
    panel = AdapterPanel(made, folder=tmp_path)
    good, bad = panel.adapter_files
    assert (good["name"], good["method"]) == ("rhymes.v2", "LoRA") and "rank 2" in good["about"]
    assert bad["name"] == "rhymes2" and bad["method"] == ""
    panel._receive(panel, {"kind": "adapters.load", "at": 0}, [])
    panel._receive(panel, {"kind": "adapters.load", "at": 0}, [])
    assert panel.message == "" and len(gw.adapters.of(made)) == 3
    assert [row["name"] for row in panel.adapters] == ["default", "rhymes.v2", "rhymes.v2_2"]
    for at in (1, 7, -1, None, True, "0"):
        panel._receive(panel, {"kind": "adapters.load", "at": at}, [])
        assert panel.message and len(gw.adapters.of(made)) == 3
    with pytest.raises((ArchiveError, OSError)):
        panel.load_adapter(tmp_path / "notes")


def test_nothing_is_switched_or_merged_under_a_training():
    made = model()
    trainer = gw.Trainer(made.graph, made.loss, gw.optim.Adam(0.1))
    panel = AdapterPanel(made, trainer)
    found: list[str] = []

    class Click(gw.Callback):
        def on_step_end(self, trainer, record):
            for kind in ("switch", "merge", "drift", "unmerge"):
                panel._receive(panel, {"kind": f"adapters.{kind}", "name": "default"}, [])
                found.append(panel.message)

    trainer.add_callback(Click())
    trainer.fit([made.examples(BATCH)] * 2, progress=False)
    assert trainer.progress.outcome == "finished"
    assert len(found) == 8 and all("is being trained" in message for message in found)


def test_the_workbench_has_a_tab_where_there_are_any():
    made = Decoder(CONFIG)
    bench = Workbench(made.graph)
    assert bench.adapters == []
    adapted = gw.adapters.add(made, gw.adapters.LoRA(r=1), where="q")
    bench.refresh()
    assert bench._trait_values["adapters"], "the tab comes though nobody looks at it"
    adapted.remove()
    bench.refresh()
    assert bench._trait_values["adapters"] == []


def test_a_training_is_sampled_only_while_somebody_looks():
    made = model()
    trainer = gw.Trainer(made.graph, made.loss, gw.optim.Adam(0.1))
    bench = Workbench(made.graph, trainer)
    trainer.fit([made.examples(BATCH)] * 3, progress=False)
    assert bench._parts[AdaptersPanel]._history.steps == []
    bench.tab = "adapters"
    wait_for(lambda: bench._parts[AdaptersPanel]._history.steps)
    bench.part(AdaptersPanel)._deltas_work.join(30)


def test_no_message_raises(monkeypatch):
    lost = []
    monkeypatch.setattr(threading, "excepthook", lambda args: lost.append(args.exc_value))
    panel = AdapterPanel(model())
    for kind in ("switch", "weigh", "merge", "unmerge", "drift", "load", "look", "sync"):
        for wrong in (None, True, -1, 10**30, float("nan"), "", "</script>", [], {}, [None]):
            panel._receive(panel, {"kind": f"adapters.{kind}", "name": wrong, "at": wrong}, [])
    panel.part(AdaptersPanel)._deltas_work.join(30)
    assert not lost and '"adapters.deltas"' in panel.to_html()
    with pytest.raises(TypeError, match="shows a"):
        AdapterPanel(None)
    with pytest.raises(GradwrightError, match="no adapter 'x'"):
        panel.switch_adapter("x", True)

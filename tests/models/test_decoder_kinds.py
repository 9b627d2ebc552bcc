"""Kinds of decoders without another library: caches, packed rows, blocks, mapped weights."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError, ShapeError
from gradwright.models import Decoder, DecoderConfig, RopeScaling
from gradwright.ops.quantised.ggml import FORMATS

SIZES = {"vocabulary": 29, "width": 32, "layers": 2, "heads": 4, "inner": 48, "context": 64}
FACTORS = {"short_factor": (1.0, 1.2, 1.5, 2.0), "long_factor": (1.0, 2.0, 4.0, 8.0)}
KINDS = {
    "llama": {},
    "grouped": {"kv_heads": 2, "head_size": 6, "tied": True},
    "biases": {"qkv_bias": True, "out_bias": True, "mlp_bias": True, "qk_norm": True},
    "windows": {"window": 3, "full_layers": (1,), "kv_heads": 2},
    "gemma2": {
        **{"norm": "rms_plus_one", "post_norms": True, "activation": "gelu_tanh", "kv_heads": 2},
        **{"attention_cap": 2.0, "logit_cap": 3.0, "attention_scale": 0.2, "window": 4},
        **{"embedding_scale": 32**0.5, "tied": True, "full_layers": (1,)},
    },
    "gpt2": {"norm": "layer", "positions": "learned", "gated": False, "activation": "relu"},
    "experts": {"experts": 4, "experts_per_token": 2},
    "partial": {"rotary_size": 4},
    "linear": {"rope_scaling": RopeScaling("linear", factor=2.0)},
    "dynamic": {"rope_scaling": RopeScaling("dynamic", factor=2.0, original_length=9)},
    "yarn": {"rope_scaling": RopeScaling("yarn", factor=4.0, original_length=16)},
    "llama3": {"rope_scaling": RopeScaling("llama3", factor=8.0, original_length=16)},
    "longrope": {"rope_scaling": RopeScaling("longrope", 4.0, 9, **FACTORS)},
}


def made(kind: str, **more) -> Decoder:
    """Return a model of weights so large that all parts of it show."""
    model = Decoder(DecoderConfig(**SIZES, **KINDS[kind]), **more)
    rng = np.random.default_rng(1)
    for v in model.graph.variables:
        model.graph.values[v.name] = model.graph.values[v.name] + 0.3 * rng.standard_normal(v.shape)
    return model


def run(model: Decoder, ids, **feeds) -> np.ndarray:
    with gw.Session(model.graph) as session:
        return session.run(model.logits, {"ids": np.atleast_2d(ids), **feeds})


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_is_told_by_the_cache_as_by_the_whole_row(kind) -> None:
    """A row is fed as a prompt, then token by token, from caches with room to spare.

    By angles of the length of a row, keys that were turned before it grew stay as they are, as in
    transformers, so what is behind the original length differs.
    """
    model = made(kind)
    ids = np.random.default_rng(2).integers(0, 29, 14)
    session = model.generation().session
    session.values.commit({v.name: model.graph.values.array(v.name) for v in model.graph.variables})
    c = model.config
    past = np.zeros((c.layers, 2, 1, c.shared, 20, c.features), np.float32)
    at = 0
    for n in (5, 1, 1, 2, 1, 4):
        feeds = {"ids": ids[None, at : at + n], "position": [at], "last": [n - 1]}
        if "length" in session.graph:
            feeds["length"] = [[at + n] * n]
        found = session.run(["logits", "present", "all_logits"], {**feeds, "past": past})
        logits, present, each = found.values() if isinstance(found, dict) else found
        past[:, :, :, :, at : at + n] = present
        at += n
        if kind not in ("dynamic", "longrope") or at <= 9:
            whole = run(model, ids[:at])[0]
            np.testing.assert_allclose(logits[0], whole[-1], 1e-4, 2e-5)
            np.testing.assert_allclose(each[0], whole[-n:], 1e-4, 2e-5)


@pytest.mark.parametrize("kind", ["llama", "windows", "gemma2", "gpt2", "longrope"])
def test_rows_that_lie_one_after_another_are_those_alone(kind) -> None:
    model, alone = made(kind, position_ids=True), made(kind)
    rows = [[5, 6, 7, 8, 9], [1, 2, 3], [4, 4], list(range(8)), [3, 1]]
    batch = model.examples(rows, n_prompt=[0, 2, 0, 1, 0])
    assert batch["ids"].shape == (3, 8)
    with gw.Session(model.graph) as session:
        logits, loss, tokens = session.run([model.logits, model.loss, model.tokens], batch)
    padded = alone.examples(rows, n_prompt=[1, 2, 1, 1, 1])
    with gw.Session(alone.graph) as session:
        wanted, n = session.run([alone.loss, alone.tokens], padded)
    assert tokens == n
    np.testing.assert_allclose(loss, wanted, 1e-5)
    first = np.flatnonzero((batch["ids"] == 5) & (batch["position_ids"] == 0))[0]
    np.testing.assert_allclose(
        logits.reshape(-1, 29)[first : first + 5], run(alone, rows[0])[0], 1e-4, 1e-5
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_learns(kind) -> None:
    """Gradients are those of differences, and reach every weight; a bias of keys moves nothing."""
    model = Decoder(DecoderConfig(**{**SIZES, "layers": 1, "width": 16, "inner": 16}, **{
        **KINDS[kind], **({} if "full_layers" not in KINDS[kind] else {"full_layers": ()}),
        **({"rotary_size": 2} if kind == "partial" else {}),
        **({"rope_scaling": RopeScaling("longrope", 4.0, 9, short_factor=(1.0, 1.2),
            long_factor=(2.0, 3.0))} if kind == "longrope" else {}),
    }))  # fmt: skip
    rng = np.random.default_rng(0)
    for v in model.graph.variables:
        model.graph.values[v.name] = model.graph.values[v.name] + 0.2 * rng.standard_normal(v.shape)
    batch = model.examples(rng.integers(0, 29, (2, 12)).tolist())
    variables = list(model.graph.variables)
    grads = gw.gradients(model.loss, variables)
    report = gw.gradient_check(model.graph, model.loss, batch)
    assert report.passed, report
    with gw.Session(model.graph) as session:
        found = session.run(list(grads), batch)
    silent = [v.name for v, g in zip(variables, found, strict=True) if not np.any(g)]
    assert silent == ["layer0/k_bias"] * ("layer0/k_bias" in silent)


def test_packed_weights_are_those_they_stand_for() -> None:
    """Blocks of ggml formats for matrices, embedding and a tied head, against what they decode."""
    for tied in (False, True):
        config = DecoderConfig(**{**SIZES, "inner": 64}, tied=tied)
        plain = Decoder(config)
        names = [n for n, s in config.weights() if len(s) == 2]
        packed = {n: ("q8_0", "q4_0")[i % 2] for i, n in enumerate(names)}
        values = {v.name: plain.graph.values[v.name] for v in plain.graph.variables}
        blocks = {n: FORMATS[kind].pack(values[n].reshape(-1, 32)).reshape(len(values[n]), -1)
                  for n, kind in packed.items()}  # fmt: skip
        for n, kind in packed.items():
            raw = blocks[n].reshape(-1, FORMATS[kind].n_bytes)
            plain.graph.values[n] = FORMATS[kind].unpack(raw).reshape(values[n].shape)
        held = {n: blocks.get(n, values[n]) for n in values}
        model = Decoder(config, values=held, packed=packed)
        ids = [[3, 1, 4, 1, 5]]
        np.testing.assert_allclose(run(model, ids), run(plain, ids), 1e-3, 1e-5)
        rows = [m.generate([[3, 1, 4]], 8)[0].tokens for m in (model, plain)]
        assert rows[0] == rows[1]
        assert not any(model.graph[n].node.trainable for n in packed)
    with pytest.raises(ShapeError, match="rows of 24 are no blocks of q8_0"):
        Decoder(DecoderConfig(**{**SIZES, "width": 24}), packed={"embed": "q8_0"})
    for wrong, what in (({"norm": "q8_0"}, "no matrix"), ({"embed": "q9"}, "no blocks of 'q9'")):
        with pytest.raises(GraphError, match=what):
            Decoder(config, packed=wrong)


def test_given_arrays_are_used_where_they_lie_and_never_written(tmp_path) -> None:
    config = DecoderConfig(**SIZES)
    first = Decoder(config, seed=3)
    values = {}
    for name, shape in config.weights():
        path = tmp_path / name.replace("/", "_")
        first.graph.values[name].tofile(path)
        values[name] = np.memmap(path, np.float32, "r", shape=shape)
    model = Decoder(config, values=values)
    assert all(np.shares_memory(model.graph.values[n], values[n]) for n in values)
    before = {n: a.copy() for n, a in values.items()}
    trainer = gw.Trainer(model.graph, model.loss, gw.optim.AdamW(1e-2))
    other = gw.Trainer(first.graph, first.loss, gw.optim.AdamW(1e-2))
    for _ in range(3):
        losses = [t.step(model.examples([[1, 2, 3, 4]])).metrics["loss"] for t in (trainer, other)]
        assert losses[0] == losses[1]
    assert all(np.array_equal(values[n], before[n]) for n in values)
    assert not np.array_equal(model.graph.values["head"], before["head"])
    lacking = {n: a for n, a in values.items() if n != "norm"}
    with pytest.raises(GraphError, match="missing: norm"):
        Decoder(config, values=lacking)
    with pytest.raises(ShapeError, match=r"norm is f32\[3\]"):
        Decoder(config, values={**lacking, "norm": np.ones(3, np.float32)})


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"norm": "batch"}, "no norm 'batch'"),
        ({"activation": "tanh"}, "no activation 'tanh'"),
        ({"positions": "none"}, "no positions 'none'"),
        ({"rotary_size": 6, "head_size": 4}, "6 of 4 features"),
        ({"window": 0}, "a window of 0 keys"),
        ({"full_layers": (2,)}, "are no layers"),
        ({"experts": 2, "experts_per_token": 3}, "3 of 2 experts"),
        ({"experts": 2, "mlp_bias": True}, "experts are gated"),
        ({"rope_scaling": RopeScaling("longrope", **FACTORS), "heads": 8}, "factors do not fit"),
    ],
    ids=str,
)
def test_kinds_that_there_are_not_are_refused(wrong, what) -> None:
    with pytest.raises(GraphError, match=what):
        DecoderConfig(**{**SIZES, **wrong})


def test_scalings_that_make_no_angles_are_refused() -> None:
    for wrong, what in (
        ({"kind": "ntk2"}, "no scaling of rotary positions 'ntk2'"),
        ({"kind": "linear", "factor": 0.0}, "makes no angles"),
        ({"kind": "longrope"}, "longrope needs factors"),
        ({"kind": "yarn", "beta_slow": 40.0}, "makes no angles"),
        ({"kind": "llama3", "low_freq_factor": 9.0}, "makes no angles"),
    ):
        with pytest.raises(GraphError, match=what):
            RopeScaling(**wrong)

"""Adapters on a model in a mapped file: numbers by hand, protocol, state, shared pages."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.adapters.initial.lcg import Lcg
from gradwright.debug.float64 import Float64Run
from gradwright.errors import ArchiveError, FeedError, GraphError, TrainingError
from gradwright.models import Decoder, DecoderConfig, from_gguf, save_gguf
from gradwright.recipes.mapped.first import first_values, next_tokens
from gradwright.recipes.mapped.uncorrected import UncorrectedAdamW

from .llama_by_hand import first_a, loss_and_gradients, moved

IDS = np.array([12, 48, 25, 9, 31])


def config(**changes: Any) -> DecoderConfig:
    sizes: dict[str, Any] = {
        "vocabulary": 64, "width": 32, "layers": 2, "heads": 4, "kv_heads": 2, "inner": 64,
        "context": 32, "eps": 1e-5,
    }  # fmt: skip
    return DecoderConfig(**{**sizes, **changes})


def file(tmp_path: Path, kind: str = "q8_0", **changes: Any) -> Path:
    """Return a file of a model whose weights are large enough that attention matters."""
    rng, made = np.random.default_rng(3), config(**changes)
    values = {
        name: (rng.standard_normal(shape) * 0.3 + (len(shape) == 1)).astype("f4")
        for name, shape in made.weights()
    }
    path = tmp_path / "model.gguf"
    save_gguf(Decoder(made, values=values), path, kind=kind)
    return path


@pytest.mark.parametrize(
    ("kind", "changes"),
    [("q8_0", {}), ("f32", {"tied": True, "qkv_bias": True})],
    ids=["packed", "tied, with biases"],
)
def test_the_numbers_are_those_by_hand_in_float64(
    tmp_path: Path, kind: str, changes: dict[str, Any]
) -> None:
    """Losses, gradients and weights of five steps; the plan's float32 follows them closely."""
    path = file(tmp_path, kind, **changes)
    trainer = gw.MappedTrainer(path, r=4, t_seq=5, seed=42, init_scale=0.05)
    model = trainer.model
    weights = {n: model.floats(n).astype("f8") for n, _ in model.config.weights()}
    layers = [trainer.adapted.variables[p.name] for p in trainer.adapted.places]
    leaves = [t for layer in layers for t in (layer["lora_a"], layer["lora_b"])]
    targets = np.full(5, 7)
    held = [(a, np.zeros((4, 8, 4))) for a in first_a(model.config, 4, 42, 0.05)]
    for t, (a, _) in zip(layers, held, strict=True):
        assert np.array_equal(model.graph.values[t["lora_a"].name], a.astype("f4"))
    moments = [[np.zeros(t.shape), np.zeros(t.shape)] for t in leaves]
    grads = gw.gradients(trainer._loss, leaves)
    losses = []
    for step in range(1, 6):
        narrow = [(a.astype("f4").astype("f8"), b.astype("f4").astype("f8")) for a, b in held]
        loss, found = loss_and_gradients(model.config, weights, narrow, IDS, targets)
        feeds = dict(zip(leaves, (x for pair in narrow for x in pair), strict=True))
        feeds |= {"ids": IDS[None], "protocol/targets": targets[None]}
        run = Float64Run([trainer._loss, *grads], feeds, values=model.graph.values)
        assert abs(run.env[run.copies[trainer._loss]] - loss) < 1e-12
        for ours, theirs in zip(grads, (x for pair in found for x in pair), strict=True):
            np.testing.assert_allclose(run.env[run.copies[ours]], theirs, rtol=0, atol=1e-12)
        loss, found = loss_and_gradients(model.config, weights, held, IDS, targets)
        flat = [x for pair in held for x in pair]
        hp = (1e-3, 0.9, 0.999, 1e-8, 0.0, 1 / (1 - 0.9**step), 1 / (1 - 0.999**step))
        for i, g in enumerate(x for pair in found for x in pair):
            flat[i], *moments[i] = moved(flat[i], g, *moments[i], hp)
        held = list(zip(flat[::2], flat[1::2], strict=True))
        reported = trainer.step(IDS, targets=7)
        assert reported is not None and reported.step == step
        assert reported.loss == pytest.approx(loss, abs=2e-5)
        norm = math.sqrt(sum((g**2).sum() for pair in found for g in pair))
        assert reported.grad_norm == pytest.approx(norm, rel=1e-4)
        losses.append(loss)
    assert losses == sorted(losses, reverse=True)
    for t, exact in zip(leaves, flat, strict=True):
        np.testing.assert_allclose(model.graph.values[t.name], exact, atol=1e-5)


def test_nothing_of_the_base_changes_and_the_first_step_is_that_of_the_base(tmp_path: Path) -> None:
    path = file(tmp_path)
    before = path.read_bytes()
    base = from_gguf(path)
    trainer = gw.MappedTrainer(path, r=4, t_seq=5)
    weights = {n: trainer.model.graph.values.array(n) for n, _ in base.config.weights()}
    assert all(not w.flags.writeable and not w.flags.owndata for w in weights.values())
    feeds = {"ids": IDS[None]}
    logits = base.graph.output(feeds, base.logits)["logits"]
    assert np.array_equal(trainer.model.graph.output(feeds, trainer.model.logits)["logits"], logits)
    first = trainer.step(IDS, targets=[3, 1, 4, 1, 5])
    p = logits[0].astype("f8") - np.log(np.exp(logits[0].astype("f8")).sum(-1, keepdims=True))
    assert first.loss == pytest.approx(-p[np.arange(5), [3, 1, 4, 1, 5]].mean(), rel=1e-5)
    assert first.tokens_per_second > 0
    steps = [trainer.step(IDS, targets=[3, 1, 4, 1, 5]) for _ in range(20)]
    assert steps[-1].loss < first.loss
    assert len(trainer.trainer.session.plans) == 1  # forward, backward and update
    assert path.read_bytes() == before
    assert all(np.array_equal(base.graph.values[n], w) for n, w in weights.items())


def test_names_counts_and_first_values_are_those_of_the_original(tmp_path: Path) -> None:
    trainer = gw.MappedTrainer(file(tmp_path), r=4, t_seq=5, seed=7, init_scale=0.5)
    state = trainer.state()
    assert trainer.n_weights == sum(a.size for a in state.values()) == 2 * 4 * (4 * 32 + 8 * 4)
    names = [
        f"blk.{i}.attn_q.head_{h}.lora_{x}.weight" for i in (0, 1) for h in range(4) for x in "ab"
    ]
    assert list(state) == names
    stream = Lcg(7)
    for name, a in state.items():
        if name.endswith("a.weight"):
            exact = 0.5 * stream.cosines(128).reshape(4, 32)
            assert np.array_equal(a, exact.astype("f4"))
        else:
            assert a.shape == (8, 4) and not a.any()
    trainer.step(IDS)
    moments = trainer.state(moments=True).keys() - state.keys()
    stems = {n.removesuffix(".weight") for n in names}
    assert moments == {f"{stem}.{m}" for stem in stems for m in "mv"}


def test_the_stream_is_that_of_one_number_after_the_other() -> None:
    def by_hand(state: int, n: int) -> list[float]:
        found = []
        for _ in range(n):
            state = (state * 1103515245 + 12345) & 0x7FFFFFFF
            found.append((state + 1.0) / 2147483648.0)
        return found

    for n in (1, 5, 64, 65):
        assert Lcg(42).uniform(n).tolist() == by_hand(42, n)
    stream = Lcg(42)
    assert [*stream.uniform(3), *stream.uniform(0), *stream.uniform(4)] == by_hand(42, 7)
    hashed = (104729 + 5) * 2654435761 % 2147483647
    assert Lcg.hashed(5).uniform(2).tolist() == by_hand(hashed, 10)[8:]
    u, v = by_hand(42, 2)
    pair = np.array([np.cos(2 * np.pi * v), np.sin(2 * np.pi * v)])
    np.testing.assert_allclose(Lcg(42).normals(2), np.sqrt(-2 * np.log(u)) * pair)
    assert len(Lcg(1).normals(5)) == 5


def test_state_and_gradients_are_reset_by_two_calls(tmp_path: Path) -> None:
    settings = {"r": 2, "t_seq": 5, "init_scale": 0.1}
    trainer = gw.MappedTrainer(file(tmp_path), **settings, accumulation=2)
    assert trainer.step(IDS) is None
    trainer.reset_gradients()
    assert trainer.step(IDS) is None and trainer.step(IDS + 1).step == 1
    moments = {n: a for n, a in trainer.state(moments=True).items() if n.endswith((".m", ".v"))}
    assert any(a.any() for a in moments.values())
    trainer.step(IDS)
    trainer.reset_gradients()
    for name, a in trainer.state(moments=True).items():
        assert name not in moments or np.array_equal(a, moments[name])
    weights = trainer.state()
    trainer.reset()
    assert trainer.trainer.steps_done == 0
    assert all(np.array_equal(a, weights[n]) for n, a in trainer.state(moments=True).items())
    other = gw.MappedTrainer(trainer.model.source, **settings, accumulation=2)
    other.load_state(weights)
    for one in (trainer, other):
        one.step(IDS)
        one.step(IDS + 1)
    assert all(np.array_equal(a, other.state()[n]) for n, a in trainer.state().items())


@pytest.mark.parametrize("heads", [1, 4])
def test_what_is_saved_goes_on_as_if_nothing_had_been(tmp_path: Path, heads: int) -> None:
    path = file(tmp_path, heads=heads, kv_heads=None)
    made = [
        gw.MappedTrainer(path, r=2, t_seq=5, init_scale=0.1, deterministic=True) for _ in range(2)
    ]
    for _ in range(3):
        made[0].step(IDS)
    made[0].save(tmp_path / "at_3.gguf")
    made[1].load(tmp_path / "at_3.gguf")
    with pytest.raises(ArchiveError, match="of the type 'training', no model"):
        gw.open(tmp_path / "at_3.gguf")
    for _ in range(2):
        a, b = (one.step(IDS) for one in made)
        assert (a.step, a.loss, a.grad_norm) == (b.step, b.loss, b.grad_norm)
    held = made[1].state(moments=True)
    with pytest.raises(ArchiveError, match="no training that was saved"):
        made[1].load(path)
    held.pop("blk.0.attn_q.head_0.lora_a.m")
    with pytest.raises(GraphError, match=r"missing: blk\.0\.attn_q\.head_0\.lora_a\.m"):
        made[0].load_state(held)
    wrong = {**made[0].state(), "blk.0.attn_q.head_0.lora_a.weight": np.zeros((3, 32))}
    with pytest.raises(GraphError, match=r"is \[3, 32\], not \[2, 32\]"):
        made[0].load_state(wrong)
    assert all(np.array_equal(a, made[1].state()[n]) for n, a in made[0].state().items())


def test_a_rate_of_zero_moves_moments_alone(tmp_path: Path) -> None:
    optimizer = gw.optim.AdamW(0.0, weight_decay=0.5)
    trainer = gw.MappedTrainer(file(tmp_path), r=2, t_seq=5, optimizer=optimizer)
    before = trainer.state()
    trainer.step(IDS)
    after = trainer.state(moments=True)
    assert all(np.array_equal(after[n], a) for n, a in before.items())
    assert after["blk.1.attn_q.head_3.lora_b.m"].any()


def test_rows_are_trained_on_by_fit_as_by_steps(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 64, (6, 5))
    path = file(tmp_path)
    one, other = (gw.MappedTrainer(path, r=2, t_seq=5, deterministic=True) for _ in range(2))
    history = one.fit(rows, shuffle=False, progress=False)
    losses = [other.step(row).loss for row in rows]
    assert history.steps["loss"].tolist() == losses
    assert next_tokens(rows[0]).tolist() == [*rows[0, 1:], rows[0, -1]]


def test_a_model_from_scratch_begins_as_the_original_and_learns() -> None:
    """Sizes and first loss of the original's tiny model: it is ln 627 = 6.4409, as good as."""
    sizes = DecoderConfig(
        vocabulary=627, width=64, heads=4, layers=2, inner=128, context=32, eps=1e-5
    )
    for corrected in (True, False):
        trainer = gw.MappedTrainer.from_scratch(sizes, t_seq=32, untied=False, corrected=corrected)
        assert trainer.model.config.tied and trainer.n_weights == trainer.model.n_weights
        ids = np.random.default_rng(0).integers(0, 627, 32)
        losses = [trainer.step(ids).loss for _ in range(5)]
        assert losses[0] == pytest.approx(math.log(627), abs=0.05)
        assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0] - 0.2
    assert isinstance(trainer.trainer.optimizer, UncorrectedAdamW)
    state = trainer.state()
    assert state["blk.1.ffn_down.weight"].shape == (64, 128) and "output.weight" not in state


def test_first_values_are_drawn_in_the_order_of_the_original() -> None:
    made = config(qkv_bias=True)
    values, stream = first_values(made, 5, 0.5), Lcg.hashed(5)
    assert np.array_equal(
        values["embed"], (0.02 * stream.normals(64 * 32)).reshape(64, 32).astype("f4")
    )
    assert np.array_equal(
        values["head"], (0.02 * stream.normals(64 * 32)).reshape(64, 32).astype("f4")
    )
    std = 0.5 / math.sqrt(32)
    for i in range(2):
        drawn = [stream.normals(8 * 32).reshape(8, 32) * std for _ in range(8)]
        exact = {"q": drawn[:4], "k": drawn[4::2], "v": drawn[5::2]}
        for name, heads in exact.items():
            assert np.array_equal(values[f"layer{i}/{name}"], np.concatenate(heads).astype("f4"))
            assert not values[f"layer{i}/{name}_bias"].any()
        for name, scale in (("o", 32), ("gate", 32), ("up", 32), ("down", 64)):
            w = values[f"layer{i}/{name}"]
            exact_w = stream.normals(w.size).reshape(w.shape) * (0.5 / math.sqrt(scale))
            assert np.array_equal(w, exact_w.astype("f4"))
    assert (values["norm"] == 1).all()


def test_adamw_without_correction_is_that_of_a_row_of_seven_numbers() -> None:
    g = gw.Graph()
    w = g.variable("w", (3,), init=[1.0, -2.0, 0.5])
    optimizer = UncorrectedAdamW(0.01, beta2=0.95, weight_decay=0.1)
    trainer = gw.Trainer(g, ((w - 3.0) ** 2.0).sum(), optimizer)
    p, m, v = np.array([1.0, -2.0, 0.5]), np.zeros(3), np.zeros(3)
    for _ in range(6):
        p, m, v = moved(p, 2 * (p - 3), m, v, (0.01, 0.9, 0.95, 1e-8, 0.1, 0.9, 0.95))
        trainer.step({})
        np.testing.assert_allclose(g.values["w"], p, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda t: t.step(IDS[:4]), FeedError, "ids are 4 tokens"),
        (lambda t: t.step([IDS, IDS]), FeedError, "2 rows, and a step takes one"),
        (lambda t: t.step([1, 2, 3, 4, 64]), FeedError, "ids are no tokens"),
        (lambda t: t.step(IDS, targets=-1), FeedError, "targets are no tokens"),
        (lambda t: t.step(IDS + 0.5), FeedError, "ints from 0 to 63"),
        (lambda t: t.step([[1], [2, 3]]), FeedError, "ids are no row of tokens"),
        (lambda t: t.fit([]), FeedError, "there are no rows"),
        (lambda t: t.load_state(t.state(), step=-1), GraphError, "step=-1 counts no steps"),
        (lambda t: gw.MappedTrainer(t.model.source, t_seq="5"), TrainingError, "t_seq='5'"),
        (lambda t: gw.MappedTrainer(t.model.source, t_seq=0), TrainingError, "t_seq=0"),
        (lambda t: gw.MappedTrainer(t.model.source, t_seq=33), TrainingError, "1 to 32"),
        (lambda t: gw.MappedTrainer(t.model.source, t_seq=5, untied=False), GraphError, "untied"),
        (
            lambda t: gw.MappedTrainer(t.model.source, t_seq=5, qkv_bias=True),
            GraphError,
            "qkv_bias",
        ),
        (lambda t: gw.MappedTrainer(t.model.source, r=9, t_seq=5), gw.errors.ShapeError, "rank 9"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(
    tmp_path: Path, call: Any, error: Any, match: str
) -> None:
    trainer = gw.MappedTrainer(file(tmp_path), r=2, t_seq=5)
    with pytest.raises(error, match=match):
        call(trainer)
    assert trainer.trainer.steps_done == 0


def test_adapters_of_heads_are_switched_merged_and_checked_as_others(tmp_path: Path) -> None:
    path = file(tmp_path, "f32", qkv_bias=True)
    base, trainer = from_gguf(path), gw.MappedTrainer(path, r=2, t_seq=5, init_scale=0.3)
    model, adapted, feeds = trainer.model, trainer.adapted, {"ids": IDS[None]}
    for _ in range(3):
        trainer.step(IDS)

    def logits(one: Decoder) -> Any:
        return one.graph.output(feeds, one.logits)["logits"]

    exact, learned = logits(base), logits(model)
    with adapted.disabled():
        assert np.array_equal(logits(model), exact)
    whole = gw.adapters.merged(adapted)
    state = trainer.state()
    q = base.graph.values["layer1/q"].reshape(4, 8, 32)
    for h in range(4):
        a, b = (state[f"blk.1.attn_q.head_{h}.lora_{x}.weight"] for x in "ab")
        found = whole.graph.values["layer1/q"].reshape(4, 8, 32)[h]
        np.testing.assert_allclose(found, q[h] + b @ a, atol=1e-6)
    np.testing.assert_allclose(logits(whole), learned, atol=1e-4)
    generated = [one.generate([[5, 9, 2]], 6)[0].tokens for one in (model, whole)]
    assert generated[0] == generated[1]
    leaves = list(adapted.variables["layer1/q"].values())
    feeds |= {"protocol/targets": IDS[None]}
    report = gw.gradient_check(model.graph, trainer._loss, feeds, wrt=leaves, max_per_param=8)
    assert report.passed, report


def test_settings_that_are_none_leave_the_model_as_it_was(tmp_path: Path) -> None:
    model = from_gguf(file(tmp_path))
    names, trained = [n.name for n in model.graph.nodes], [t.name for t in model.graph.trainable]
    with pytest.raises(TypeError, match="clipnorm"):
        gw.MappedTrainer(model, r=2, t_seq=5, clipnorm=1.0)
    with pytest.raises(TrainingError, match="t_seq=0"):
        gw.MappedTrainer(model, r=2, t_seq=0)
    assert [n.name for n in model.graph.nodes] == names
    assert [t.name for t in model.graph.trainable] == trained
    assert gw.MappedTrainer(model, r=2, t_seq=5).step(IDS) is not None


CHILD = """
import sys, numpy as np, gradwright as gw
trainer = gw.MappedTrainer(sys.argv[1], r=2, t_seq=8)
trainer.step(np.arange(8))
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="pages are counted in /proc")
def test_pages_of_the_base_are_shared_between_processes(tmp_path: Path) -> None:
    """Two trainings of one file: none of its pages is a process's own, and all are shared."""
    path = file(tmp_path, width=256, inner=2048, vocabulary=512)
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    try:
        for child in children:
            assert child.stdout is not None and child.stdout.readline() == "ready\n"
        for child in children:
            sizes = _pages(child.pid, path)
            assert sizes["Private_Dirty"] == sizes["Private_Clean"] == sizes["Anonymous"] == 0
            assert sizes["Shared_Clean"] > 0.9 * path.stat().st_size / 1024, sizes
    finally:
        for child in children:
            child.communicate("", timeout=300)


def _pages(pid: int, path: Path) -> dict[str, int]:
    """Return what /proc says of the mappings of a file, in kB, summed."""
    found: dict[str, int] = {}
    inside = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            inside = line.endswith(str(path))
        elif inside and rest[-1] == "kB":
            found[first[:-1]] = found.get(first[:-1], 0) + int(rest[0])
    return found

"""Attention at work: memory of flash attention, generation with caches, what masks must survive."""

from __future__ import annotations

import tracemalloc
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError, ShapeError
from gradwright.models import KvCache, generate

Array = np.ndarray[Any, Any]


def heads(rng: np.random.Generator, n: int, m: int, t: int, s: int, e: int) -> list[Array]:
    """Return queries of n heads, keys and values of m."""
    return [rng.standard_normal((1, h, k, e)).astype("f4") for h, k in ((n, t), (m, s), (m, s))]


# -- flash attention -------------------------------------------------------------------------------


@pytest.mark.parametrize("attrs", [{}, {"is_causal": True, "left_window_size": 300}])
def test_flash_attention_holds_no_table_of_pairs(attrs: dict[str, Any]) -> None:
    """Neither the plans, forward and with gradients, nor what the op itself allocates."""
    t = 1280
    arrays = heads(np.random.default_rng(0), 2, 1, t, t, 8)
    g = gw.Graph()
    xs = [g.placeholder(n, a.shape) for n, a in zip("qkv", arrays, strict=True)]
    y = gw.nn.flash_attention(*xs, **attrs)
    grads = gw.gradients((y * y).sum(), xs)
    table = t * t * 4
    with gw.Session(g) as session:
        for targets in ([y], [y, *grads]):
            plan = session.plan(targets, {x: x.shape for x in xs})
            assert all(spec.size < t * t for spec in plan.program.specs)
            memory = plan.memory()
            assert max(memory.arena, memory.unshared, memory.constants) < table / 10
            feeds = dict(zip(xs, arrays, strict=True))
            session.run(targets, feeds)
            tracemalloc.start()
            session.run(targets, feeds)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < table / 2


@pytest.mark.parametrize("tile", [1, 2, 3, 5, 8])
@pytest.mark.parametrize(("n", "m"), [(3, 3), (6, 2), (6, 1)])
def test_heads_that_are_computed_together_are_those_apart(n: int, m: int, tile: int) -> None:
    """Small tiles hold a part of the heads that share keys, large ones many groups of them."""
    rng = np.random.default_rng(tile)
    shapes = (2, n, 4, 3), (2, m, 5, 3), (2, m, 5, 2)
    g = gw.Graph()
    xs = [g.constant(rng.standard_normal(s)) for s in shapes]
    found = []
    for y in (
        gw.nn.flash_attention(*xs, tile=tile, right_window_size=1),
        gw.nn.attention(*xs, None, None, None, g.constant(5), right_window_size=1)[0],
    ):
        found.append([y, *gw.gradients((y * y).sum(), xs)])
    with gw.Session(g) as session:
        for a, b in zip(*map(session.run, found), strict=True):
            np.testing.assert_allclose(a, b, 1e-12, 1e-12)


def test_flash_attention_takes_sizes_that_are_not_known_yet() -> None:
    rng = np.random.default_rng(1)
    g = gw.Graph()
    q = g.placeholder("q", ("B", 4, "T", 8))
    k, v = (g.placeholder(n, ("B", 2, "S", 8)) for n in "kv")
    flash = gw.nn.flash_attention(q, k, v, tile=16)
    plain = gw.nn.grouped_query_attention(q, k, v)
    pairs = [flash, plain, *gw.gradients(flash, [q, k, v]), *gw.gradients(plain, [q, k, v])]
    with gw.Session(g) as session:
        for t, s in ((20, 33), (1, 40), (5, 5)):
            feeds = dict(zip((q, k, v), heads(rng, 4, 2, t, s, 8), strict=True))
            a, b, *grads = session.run(pairs, feeds)
            np.testing.assert_allclose(a, b, 1e-5, 1e-5)
            for x, y in zip(grads[:3], grads[3:], strict=True):
                np.testing.assert_allclose(x, y, 1e-4, 1e-5)


# -- masks -----------------------------------------------------------------------------------------


def test_hidden_keys_may_hold_anything() -> None:
    """A NaN among keys that nobody sees leaks neither into results nor into values' gradients."""
    g = gw.Graph()
    q, k, v = (g.placeholder(n, (1, 1, 3, 2)) for n in "qkv")
    y, *_ = gw.nn.attention(q, k, v, g.constant([True, True, False]))
    (dv,) = gw.gradients(y, [v])
    arrays = heads(np.random.default_rng(2), 1, 1, 3, 3, 2)
    arrays[1][0, 0, 2] = np.nan
    with gw.Session(g) as session:
        found = session.run([y, dv], dict(zip((q, k, v), arrays, strict=True)))
    assert all(np.isfinite(a).all() for a in found) and not found[1][0, 0, 2].any()


@pytest.mark.parametrize("empty", [0, 1, 3])
def test_large_attention_takes_sizes_of_none(empty: int) -> None:
    """No samples, heads, or features, of as many positions as are computed tile by tile."""
    shape = [2, 2, 80, 3]
    shape[empty] = 0
    g = gw.Graph()
    x = g.constant(np.zeros(shape, np.float32))
    y = gw.nn.scaled_dot_product_attention(x, x, x, scale=0.5)
    for found in gw.Session(g).run([y, *gw.gradients((y * y).sum(), [x])]):
        assert found.shape == tuple(shape)


@pytest.mark.parametrize("name", ["attention", "flash_attention", "scaled_dot_product_attention"])
def test_a_query_that_sees_nothing_gets_zeros(name: str) -> None:
    rng = np.random.default_rng(3)
    g = gw.Graph()
    arrays = heads(rng, 1, 1, 4, 2, 2)
    q, k, v = (g.placeholder(n, a.shape) for n, a in zip("qkv", arrays, strict=True))
    if name == "flash_attention":  # two queries stand before the first key
        y = gw.nn.flash_attention(q, k, v, is_causal=True)
    else:
        seen = g.constant(np.array([[False], [False], [True], [True]]))
        y = getattr(gw.nn, name)(q, k, v, seen)
        y = y[0] if isinstance(y, tuple) else y
    grads = gw.gradients(y, [q, k, v])
    with gw.Session(g) as session:
        found, dq, dk, dv = session.run([y, *grads], dict(zip((q, k, v), arrays, strict=True)))
    assert not found[:, :, :2].any() and found[:, :, 2:].all()
    assert not dq[:, :, :2].any() and all(np.isfinite(d).all() for d in (dq, dk, dv))


def test_a_mask_that_is_nan_is_seen() -> None:
    g = gw.Graph()
    q = g.constant(np.ones((1, 1, 2, 2)))
    mask = g.constant([[0.0, np.nan], [0.0, -np.inf]])
    y = gw.Session(g).run(gw.nn.attention(q, q, q, mask)[0])
    assert np.isnan(y[0, 0, 0]).all() and np.isfinite(y[0, 0, 1]).all()


def test_dot_product_attention_is_that_of_jax(jax: ModuleType) -> None:
    """In float32: JAX takes the softmax in float32 whatever the dtype."""
    rng = np.random.default_rng(4)
    shapes = (2, 5, 4, 8), (2, 7, 2, 8), (2, 7, 2, 8)
    q, k, v = (rng.standard_normal(s).astype("f4") for s in shapes)
    bias, mask = rng.standard_normal((2, 4, 5, 7)).astype("f4"), rng.random((1, 1, 5, 7)) < 0.8
    mask[..., 0] = True
    g = gw.Graph()
    n, m = np.array([5, 3], np.int32), np.array([7, 4], np.int32)
    for given, attrs, theirs in (
        ((), {"is_causal": True, "scale": 0.3}, {}),
        ((bias, mask), {"local_window_size": (9, 1)}, {"bias": bias, "mask": mask}),
        ((None, None, n, m), {}, {"query_seq_lengths": n, "key_value_seq_lengths": m}),
    ):
        xs = [None if a is None else g.constant(a) for a in (q, k, v, *given)]
        y = gw.nn.dot_product_attention(*xs, **attrs)
        wanted = jax.nn.dot_product_attention(q, k, v, **attrs, **theirs)
        with gw.Session(g) as session:
            np.testing.assert_allclose(session.run(y), np.asarray(wanted), 1e-5, 1e-5)


# -- caches ----------------------------------------------------------------------------------------

VOCABULARY, WIDTH, HEADS, KV_HEADS, LAYERS = 29, 32, 4, 2, 2
FEATURES = WIDTH // HEADS


def transformer(g: gw.Graph, ids: Any, position: Any, caches: list[KvCache] | None) -> Any:
    """Return logits of a transformer with rotary positions, grouped queries and gated layers."""
    rng = np.random.default_rng(5)

    def weight(name: str, *shape: int) -> Any:
        values = rng.standard_normal(shape) / np.sqrt(shape[0])
        return g[name] if name in g else g.variable(name, shape, init=values)

    def by_heads(x: Any, n: int) -> Any:
        return x.reshape(x.shape[0], x.shape[1], n, FEATURES).transpose(0, 2, 1, 3)

    n_new = gw.shape_of(ids)[1]
    at = gw.cumsum(gw.ones_like(ids), 1) - 1 + position
    x = gw.nn.embedding(ids, weight("table", VOCABULARY, WIDTH))
    for i in range(LAYERS):
        h = gw.nn.rms_norm(x)
        q = by_heads(h @ weight(f"q{i}", WIDTH, WIDTH), HEADS)
        k, v = (by_heads(h @ weight(f"{c}{i}", WIDTH, KV_HEADS * FEATURES), KV_HEADS) for c in "kv")
        q, k = gw.nn.fused_rope(q, k, at)
        if caches is None:
            y, *_ = gw.nn.attention(q, k, v, is_causal=True)
        else:
            keys, values = caches[i].append(k, v, position)
            none = (None, None, None)
            y, *_ = gw.nn.attention(q, keys, values, *none, position + n_new, is_causal=True)
        y = y.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[1], WIDTH)
        x = x + y @ weight(f"o{i}", WIDTH, WIDTH)
        h = gw.nn.rms_norm(x) @ weight(f"up{i}", WIDTH, 2 * WIDTH)
        x = x + gw.nn.silu(h) @ weight(f"down{i}", 2 * WIDTH, WIDTH)
    return gw.nn.rms_norm(x) @ weight("head", WIDTH, VOCABULARY)


def test_256_tokens_are_generated_with_two_plans() -> None:
    """One plan for the prompt, one for all tokens; logits are those of a run without caches."""
    prompt, n = np.random.default_rng(6).integers(0, VOCABULARY, (2, 11)), 256
    g = gw.Graph()
    ids, position = g.placeholder("ids", (2, "T"), "int64"), g.placeholder("at", (), "int64")
    caches = [
        KvCache(g, f"layer{i}", batch=2, heads=KV_HEADS, capacity=280, features=FEATURES)
        for i in range(LAYERS)
    ]
    logits = transformer(g, ids, position, caches)[:, -1]
    token = gw.nn.token_sample(logits, temperature=0.7, top_p=0.95)
    with gw.Session(g, seed=3) as session:
        where = {"ids": ids, "position": position, "caches": caches}
        steps = list(generate(session, [token, logits], prompt, n, **where))
        assert len(session.plan_cache) == 2
    tokens, found = (np.stack(parts, 1) for parts in zip(*steps, strict=True))
    assert tokens.shape == (2, n) and len(np.unique(tokens)) > 10
    whole = transformer(g, ids, g.constant(np.int64(0)), None)
    with gw.Session(g) as session:
        text = np.concatenate([prompt, tokens[:, :-1]], 1)
        wanted = session.run(whole, {ids: text})[:, prompt.shape[1] - 1 :]
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)


def test_a_cache_that_is_too_small_is_told_before_anything_runs() -> None:
    g = gw.Graph()
    ids, at = g.placeholder("ids", (1, "T"), "int64"), g.placeholder("at", (), "int64")
    cache = KvCache(g, "layer", batch=1, heads=1, capacity=4, features=1)
    k = gw.cast(ids, "float32")[:, None, :, None]
    cache.append(k, k, at)
    with pytest.raises(GraphError, match="written already"):
        cache.append(k, k, at)
    with gw.Session(g) as session:
        where = {"ids": ids, "position": at, "caches": [cache]}
        with pytest.raises(ShapeError, match="2 tokens of prompt and 4 more do not fit into 4"):
            generate(session, ids[:, -1], [[1, 2]], 4, **where)
        for no_rows in ([1, 2], [[1, 2], [3]], [[]]):
            with pytest.raises(ShapeError, match="a row of tokens per sample"):
                generate(session, ids[:, -1], no_rows, 1, **where)
        with pytest.raises(GraphError, match="-1 tokens cannot"):
            generate(session, ids[:, -1], [[1]], -1, **where)
        with pytest.raises(GraphError, match="3 positions from 2 do not fit into 4"):
            session.run(ids, {ids: [[1, 2, 3]], at: 2}, cache.updates)
        assert not session.values["layer/key_cache"].any()
        list(generate(session, ids[:, -1], [[1, 2]], 3, **where))
        assert session.values["layer/key_cache"].ravel().tolist() == [1, 2, 2, 2]
        unused = KvCache(g, "other", batch=1, heads=1, capacity=4, features=1)
        with pytest.raises(GraphError, match="nothing is written to the cache of 'other/key"):
            generate(session, ids[:, -1], [[1]], 1, **{**where, "caches": [cache, unused]})


def test_generations_do_not_write_over_each_other() -> None:
    g = gw.Graph()
    ids, at = g.placeholder("ids", (1, "T"), "int64"), g.placeholder("at", (), "int64")
    cache = KvCache(g, "layer", batch=1, heads=1, capacity=4, features=1)
    k = gw.cast(ids, "float32")[:, None, :, None]
    cache.append(k, k, at)
    where = {"ids": ids, "position": at, "caches": [cache]}
    with gw.Session(g) as one, gw.Session(g) as two:
        first = generate(one, ids[:, -1], [[1]], 3, **where)
        second = generate(two, ids[:, -1], [[2]], 3, **where)
        next(first), next(second)
        with pytest.raises(GraphError, match="another generation has begun"):
            next(first)
        assert len(list(second)) == 2


def test_quantised_caches_stay_near() -> None:
    """8 bits: within half a step; TurboQuant: the least error that few bits allow (Max 1960)."""
    rng = np.random.default_rng(7)
    q, k, v = heads(rng, 2, 2, 16, 64, 64)
    turn = np.linalg.qr(rng.standard_normal((64, 64)))[0].astype("f4")
    g = gw.Graph()
    tq, tk, tv = (g.constant(a) for a in (q, k, v))
    codes, scale = gw.nn.kv_cache_quantize(tk, block_size=16)
    back = gw.nn.kv_cache_dequantize(codes, scale)
    rotation, exact = g.constant(turn), gw.nn.grouped_query_attention(tq, tk, tv)
    with gw.Session(g) as session:
        near, steps, wanted = session.run([back, scale, exact])
        assert (abs(near - k) <= np.repeat(steps, 16, -1) * 0.5001).all()
        for bits, error in ((1, 0.3634), (2, 0.1175), (3, 0.03454), (4, 0.009497)):
            few = {"bits": bits}
            keys, values = (gw.nn.turbo_quantize(x, rotation, **few) for x in (tk, tv))
            # Each query sees one key: what comes back is its value.
            own = gw.nn.turbo_quant_attention(tk * 1e3, *keys, *values, rotation, **few)
            y = gw.nn.turbo_quant_attention(tq, *keys, *values, rotation, **few)
            found, all_of = session.run([own, y])
            assert np.isclose(np.square(found - v).sum() / np.square(v).sum(), error, 0.05)
            assert np.linalg.norm(all_of - wanted) < 2 * np.sqrt(error) * np.linalg.norm(wanted)


# -- states ----------------------------------------------------------------------------------------


def test_linear_attention_goes_on_where_it_stopped() -> None:
    """A prompt in one piece, in two, and position by position give the same."""
    rng = np.random.default_rng(8)
    arrays = [rng.standard_normal((2, 9, n)) / 2 for n in (12, 6, 4)]
    arrays += [-rng.random((2, 9, 2)), rng.random((2, 9, 2))]
    shape = {"q_num_heads": 4, "kv_num_heads": 2, "chunk_size": 4}
    g = gw.Graph()
    q, k, v, decay, beta = (g.constant(a) for a in arrays)
    whole, end = gw.nn.linear_attention(q, k, v, None, decay, beta, **shape)

    def piece(a: int, b: int, state: Any) -> Any:
        parts = (x[:, a:b] for x in (decay, beta))
        return gw.nn.linear_attention(q[:, a:b], k[:, a:b], v[:, a:b], state, *parts, **shape)

    first, state = piece(0, 5, None)
    rest = [first]
    for i in range(5, 9):
        if i % 2:
            y, state = piece(i, i + 1, state)
        else:
            step = [x[:, i].reshape(2, n, -1) for x, n in ((q, 4), (k, 2), (v, 2))]
            y, state = gw.nn.linear_attention_decode(*step, state, decay[:, i], beta[:, i])
            y = y.reshape(2, 1, -1)
        rest.append(y)
    with gw.Session(g) as session:
        a, b, c, d = session.run([whole, gw.concat(rest, axis=1), end, state])
    np.testing.assert_allclose(a, b, 1e-12, 1e-12)
    np.testing.assert_allclose(c, d, 1e-12, 1e-12)


def test_strong_decay_does_not_overflow() -> None:
    """e^800 and more would, if decays were taken apart into factors."""
    g = gw.Graph()
    x = g.constant(np.random.default_rng(9).standard_normal((1, 40, 4)))
    heads = {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "gated"}
    for width in (2, 4):
        decay = g.variable(f"decay{width}", (1, 40, width), init=-50.0, dtype="float64")
        y, state = gw.nn.linear_attention(x, x, x, None, decay, **heads)
        with gw.Session(g) as session:
            found = session.run([y, state, *gw.gradients(y, [decay])])
        assert all(np.isfinite(a).all() for a in found)


# -- functions between the steps -------------------------------------------------------------------


def test_flex_attention_with_functions_is_attention() -> None:
    """Causal masks, soft caps and tensors from outside; errors name the function."""
    rng = np.random.default_rng(10)
    g = gw.Graph()
    q, k, v = (g.constant(a) for a in heads(rng, 4, 2, 3, 3, 4))
    bias = g.variable("bias", (3, 3), init=rng.standard_normal((3, 3)))

    def rule(s: Any) -> Any:
        s = gw.nn.tanh(s / 5.0) * 5.0 + bias
        return gw.where(gw.nn.causal_mask(s), s, -np.inf)

    y = gw.nn.flex_attention(q, k, v, rule, lambda p: p * 1.0)
    wanted, *_ = gw.nn.attention(q, k, v, bias, softcap=5.0, is_causal=True)
    grads = [gw.gradients((t * t).sum(), [bias])[0] for t in (y, wanted)]
    with gw.Session(g) as session:
        a, b, da, db = session.run([y, wanted, *grads])
    np.testing.assert_allclose(a, b, 1e-6, 1e-6)
    np.testing.assert_allclose(da, db, 1e-5, 1e-6)
    with pytest.raises(ShapeError, match="score_mod returns"):
        gw.nn.flex_attention(q, k, v, lambda s: s.sum(-1))
    with pytest.raises(GraphError, match="prob_mod returned 3"):
        gw.nn.flex_attention(q, k, v, prob_mod=lambda p: 3)

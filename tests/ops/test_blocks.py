"""Layers and adapters: what no other library says, and what they refuse at run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError


def run(build: Any, *xs: Any, training: bool = False) -> Any:
    g = gw.Graph()
    with g, gw.Session(g, seed=3) as session:
        ys = build(*(g.constant(x) for x in xs))
        return session.run(list(ys) if isinstance(ys, tuple) else ys, training=training)


def test_the_end_of_a_sub_layer_drops_and_scales_in_training(rng: Any) -> None:
    x, bias, residual = rng.standard_normal((40, 5)), rng.standard_normal(5), np.zeros((40, 5))
    found = run(
        lambda *xs: gw.nn.fused_bias_dropout_residual(*xs, p=0.25), x, bias, residual,
        training=True,
    )  # fmt: skip
    kept = found != 0
    np.testing.assert_allclose(found[kept], ((x + bias) / 0.75)[kept], 1e-12)
    assert 0.15 < 1 - kept.mean() < 0.35


@pytest.mark.parametrize("dtype", ["int8", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_codes_times_scale_are_the_norm_again(dtype: str, norm: str, rng: Any) -> None:
    x, w = rng.standard_normal((6, 32)), rng.uniform(0.5, 2, 32)
    codes, scale = run(lambda x, w: gw.nn.fused_norm_quantize(x, w, norm=norm, dtype=dtype), x, w)
    wanted = run(getattr(gw.nn, f"{norm}_norm"), x, w)
    assert codes.dtype == gw.spec.dtype(dtype)
    error = np.abs(codes.astype(np.float64) * scale - wanted)
    step = {"int8": 0.5, "float8_e4m3fn": 448 / 2**4, "float8_e5m2": 57344 / 2**3}[dtype]
    assert (error <= scale * step * (1 + 1e-9)).all()


def test_parts_side_by_side_or_summed_are_the_whole_map(rng: Any) -> None:
    x, w, b = rng.standard_normal((3, 8)), rng.standard_normal((8, 6)), rng.standard_normal(6)
    whole = x @ w + b
    columns = [
        run(lambda *xs, k=k: gw.nn.column_parallel_linear(*xs, parts=3, part=k), x, w, b)
        for k in range(3)
    ]
    np.testing.assert_allclose(np.concatenate(columns, -1), whole, 1e-12)
    rows = [
        run(lambda *xs, k=k: gw.nn.row_parallel_linear(*xs, parts=4, part=k), x, w, b)
        for k in range(4)
    ]
    np.testing.assert_allclose(sum(rows), whole, 1e-12)


def test_dora_that_has_learned_nothing_is_the_map_it_adapts(rng: Any) -> None:
    x, w = rng.standard_normal((3, 4)), rng.standard_normal((4, 5))
    a, b, m = rng.standard_normal((4, 2)), np.zeros((2, 5)), np.linalg.norm(w, axis=0)
    np.testing.assert_allclose(run(gw.nn.dora_matmul, x, w, a, b, m), x @ w, 1e-12)


def test_an_adapter_that_does_not_exist_is_an_error(rng: Any) -> None:
    x, w = rng.standard_normal((2, 4)), rng.standard_normal((4, 5))
    a, b = rng.standard_normal((3, 4, 2)), rng.standard_normal((3, 2, 5))
    with pytest.raises(GraphError, match="index 3 is out of range"):
        run(gw.nn.multi_lora_matmul, x, w, a, b, np.array([0, 3]))


def test_rows_without_an_adapter_are_the_plain_map(rng: Any) -> None:
    x, w = rng.standard_normal((2, 4)), rng.standard_normal((4, 5))
    a, b = rng.standard_normal((3, 4, 2)), rng.standard_normal((3, 2, 5))
    found = run(gw.nn.multi_lora_matmul, x, w, a, b, np.array([-1, -7]))
    np.testing.assert_allclose(found, x @ w, 1e-12)


def test_a_chain_takes_no_op_that_is_not_elementwise() -> None:
    g = gw.Graph()
    with pytest.raises(GraphError, match="softmax is not an elementwise op"):
        gw.nn.fused_elementwise_chain(("relu", "softmax"), g.constant([1.0]))


def test_a_bag_of_padding_only_is_zero() -> None:
    table = np.arange(6.0).reshape(3, 2) + 1
    for mode in ("sum", "mean", "max"):
        found = run(
            lambda i, w, m=mode: gw.nn.embedding_bag(i, w, mode=m, padding_idx=0),
            np.array([[0, 0], [0, 2]]), table,
        )  # fmt: skip
        np.testing.assert_array_equal(found, [[0, 0], [5, 6]])


def test_a_copy_is_never_the_tensor_itself() -> None:
    g = gw.Graph()
    w = g.variable("w", init=np.ones(3))
    with gw.Session(g) as session:
        found = session.run(gw.nn.copy(w))
    assert not np.shares_memory(found, g.values["w"])

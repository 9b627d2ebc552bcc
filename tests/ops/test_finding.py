"""Ops found by ONNX's names and by words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, GraphError, UnsupportedOpError
from gradwright.op import OPS
from gradwright.ops.reference.onnx import NONE, PARTS
from gradwright.ops.reference.search import words_of


@pytest.mark.parametrize(
    ("operator", "call"),
    [
        *(("CastLike", "gw.cast"), ("ReduceLogSum", "gw.sum"), ("Upsample", "gw.image.resize")),
        *(("Scatter", "gw.scatter_update"), ("SequenceMap", "gw.scan")),
        *(("RandomNormalLike", "gw.random.normal"), ("ai.onnx.ml.Scaler", "gw.sub")),
        *(("ai.onnx.ml:Imputer", "gw.where"), ("ai.onnx.MatMul", "gw.matmul")),
        *(("com.microsoft.FastGelu", "gw.nn.gelu"), ("Attention", "gw.nn.attention")),
        ("com.microsoft.MultiHeadAttention", "gw.nn.multi_head_attention"),
    ],
)
def test_an_operator_is_found_with_its_domain_and_without(operator: str, call: str) -> None:
    assert gw.ops.find(operator).call == call


def test_an_operator_of_another_domain_is_another() -> None:
    assert gw.ops.find("com.microsoft.Attention").name != gw.ops.find("ai.onnx.Attention").name
    with pytest.raises(UnsupportedOpError):
        gw.ops.find("ai.onnx.ml.MatMul")


@pytest.mark.parametrize("operator", NONE)
def test_an_operator_that_no_op_computes_has_a_reason(operator: str) -> None:
    with pytest.raises(UnsupportedOpError) as raised:
        gw.ops.find(operator)
    assert raised.value.hint == NONE[operator]


def test_parts_are_ops_that_tell_of_it() -> None:
    for operator, ours in PARTS.items():
        assert OPS.keys() >= {*ours}
        for name in ours:
            assert operator in gw.ops.find(name).descriptor["onnx_parts"]


@pytest.mark.parametrize(
    ("words", "first"),
    [
        *(("top k", "top_k"), ("TopK", "top_k"), ("layer norm backward", "layer_norm")),
        *(("cross entropy", "sparse_softmax_cross_entropy"), ("batchnorm", "batch_norm")),
        *(("max pooling", "max_pool2d"), ("pooling max", "max_pool2d"), ("rotary", "rope")),
        *(("binary cross entropy", "sigmoid_cross_entropy"), ("matrix inverse", "inv")),
        *(("gradient of softmax", "softmax"), ("one hot encoding", "one_hot")),
        *(("masked fill", "where"), ("unsqueeze", "expand_dims"), ("Gemm", "linear")),
        *(("moving average", "ema_update"), ("average pooling", "avg_pool2d")),
        *(("sofmax", "softmax"), ("dropuot", "dropout"), ("atention", "attention")),
        *(("convolucion 2d", "conv2d"), ("lstm cell", "lstm_cell"), ("adam", "adam_step")),
    ],
)
def test_words_lead_to_the_op(words: str, first: str) -> None:
    assert gw.ops.search(words)[0].name == first


def test_what_fits_less_stands_further_down_or_is_left_out() -> None:
    names = [entry.name for entry in gw.ops.search("cross entropy")]
    assert {"softmax_cross_entropy", "sigmoid_cross_entropy"} <= {*names[:3]}
    assert "relu" not in names and len(names) <= 20
    assert len(gw.ops.search("norm", most=3)) == 3
    assert all(e.op.namespace == "loss" for e in gw.ops.search("mean", namespace="loss"))


def test_every_op_is_first_where_its_own_name_is_asked_for() -> None:
    for entry in gw.ops.table():
        assert gw.ops.search(entry.name, most=1)[0].name == entry.name


@pytest.mark.parametrize(
    "words", ["", "   ", "frobnicate", "of the", "<b>zebra crossing</b>", "\0"]
)
def test_nothing_is_found_for_what_says_nothing(words: str) -> None:
    found = gw.ops.search(words)
    assert not found and str(found).startswith("function")


def test_what_is_no_op_is_noted() -> None:
    found = gw.ops.search("softmax backward")
    assert found.notes == ("backward: gw.gradients",)
    assert str(found).endswith("backward: gw.gradients")
    assert ">backward: gw.gradients</p>" in found._repr_html_()


def test_names_are_taken_apart() -> None:
    assert words_of("RMSNorm") == ["rms", "norm"] and words_of("conv2d") == ["conv", "2d"]
    assert words_of("skipRmsNorm") == words_of("skip_rms_norm") == ["skip", "rms", "norm"]


@pytest.mark.parametrize("odd", [None, 3, b"relu", ["relu"], {}, np.zeros(2)])
def test_what_is_no_text_is_told(odd: Any) -> None:
    with pytest.raises(UnsupportedOpError, match="need: text"):
        gw.ops.find(odd)
    for named in ({"text": odd}, {"text": "relu", "namespace": odd}):
        with pytest.raises(GraphError, match="is no text"):
            gw.ops.search(**named)
    if type(odd) is not int:
        with pytest.raises(GraphError, match="is no number of ops"):
            gw.ops.search("relu", most=odd)
    if odd is not None:
        with pytest.raises(ArchiveError, match="description of ops"):
            gw.ops.check(odd)

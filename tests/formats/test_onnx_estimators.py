"""Estimators of scikit-learn as skl2onnx writes them: some of ``tests/formats/estimators.py``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw

pytest.importorskip("skl2onnx", reason="no skl2onnx: pip install -e '.[test]'")
pytest.importorskip("onnxruntime", reason="no onnxruntime: pip install -e '.[test]'")
from onnx import helper

from tests.formats.estimators import MOST, difference, rows, theirs

SHORT = (
    *("PoissonRegressor", "SVR rbf", "KNeighborsRegressor by distance", "GaussianProcessRegressor"),
    *("LogisticRegression with names", "SVC of two with probabilities", "MultinomialNB"),
    *("SVC of three with probabilities", "OneVsOneClassifier", "MultiOutputClassifier"),
    *("RandomForestClassifier", "GradientBoostingRegressor", "StackingClassifier"),
    *("CalibratedClassifierCV", "ColumnTransformer", "GaussianMixture full", "IsolationForest"),
    *("LocalOutlierFactor", "OneHotEncoder of texts", "TfidfVectorizer", "texts to classes"),
)


@pytest.fixture(scope="module")
def known() -> dict[str, Any]:
    return {name: parts for name, *parts in rows()}


def test_there_are_as_many_as_we_say(known: dict[str, Any]) -> None:
    assert len(known) >= 110


@pytest.mark.parametrize("name", SHORT)
def test_an_estimator_is_what_onnx_runtime_makes_of_it(known: dict[str, Any], name: str) -> None:
    assert difference(*known[name]) < MOST


TEXTS = ["the cat, a d\u00f6g", "", "ab  cd\u00e9 f"]


@pytest.mark.parametrize("texts", [TEXTS, [TEXTS], ["", ""], ["?"]])
@pytest.mark.parametrize("mark", [0, 1])
@pytest.mark.parametrize(
    "how",
    [
        {"tokenexp": "[a-z]+"}, {"tokenexp": "a|ab"}, {"tokenexp": "b*"}, {"tokenexp": "."},
        {"separators": [" ", ","]}, {"separators": [", ", "a"]}, {"separators": [""]},
        {"separators": ["[a-c]+"]}, {"tokenexp": "[a-z]+", "mincharnum": 3},
    ],
    ids=str,
)  # fmt: skip
def test_texts_are_taken_apart_as_onnx_runtime_does(texts: Any, mark: int, how: Any) -> None:
    attrs = {"mark": mark, "mincharnum": 1, "pad_value": "#", **how}
    node = helper.make_node("Tokenizer", ["X"], ["y"], domain="com.microsoft", **attrs)
    x = np.array(texts, object)
    x_info, y_info = (
        helper.make_tensor_value_info(n, 8, [None] * r)
        for n, r in (("X", x.ndim), ("y", x.ndim + 1))
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", [x_info], [y_info])
    data = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    wanted = theirs(data, x)["y"]
    read = gw.onnx.load(data)
    again = gw.onnx.to_model(read, opset=18)
    again.ir_version = 10
    for found in (read.output({"X": x}, "y")["y"], theirs(again.SerializeToString(), x)["y"]):
        assert found.shape == wanted.shape and found.tolist() == wanted.tolist()

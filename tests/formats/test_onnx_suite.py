"""The node cases of ONNX's backend suite: each is built, run in a session, and compared.

They run in a process of their own, in which the libraries that know the answers (onnx.reference,
torch, scipy) cannot be imported. ``python -m tests.formats.onnx_report`` prints a table by
operator.
"""

from __future__ import annotations

import fnmatch
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gradwright as gw
from tests.formats.test_onnx_round_trip import OWN
from tests.support.onnx_cases import is_expanded

onnx = pytest.importorskip("onnx", reason="no onnx: pip install -e '.[onnx]'")
ROOT = Path(__file__).parents[2]

EXPECTED = {
    "test_attention_4d_causal_fp16_expanded": "two of 192 elements differ in float16's last place, "
    "to which every step of the softmax is rounded there, and the end here",
    "test_loop16_seq_none": "a carry there starts as an optional, and is a sequence after a step",
}
"""Pattern of a case -> why it does not pass; all others have to."""
NOT_WRITTEN = {
    "test_upsample_nearest": "its scales are fed, and ONNX has no Upsample any more",
}
"""Case that passes -> why it is not written again."""
NOT_READ = {
    **dict.fromkeys(
        ("ai.onnx.ml:CastMap", "ai.onnx.ml:DictVectorizer"),
        "maps are no tensors, sequences or optionals",
    ),
    ":Constant": "what it holds is a constant of the graph: the importer itself knows it",
}
"""Operator that no reader knows -> why."""
OPENED = {
    ":MaxRoiPool": "maxima over masks",
    ":Scatter": "deprecated: a ScatterElements",
    ":Upsample": "deprecated: a Resize",
    "ai.onnx.ml:ArrayFeatureExtractor": "a Gather",
    "ai.onnx.ml:Binarizer": "a comparison",
    "ai.onnx.ml:CategoryMapper": "a LabelEncoder",
    "ai.onnx.ml:FeatureVectorizer": "a Concat",
    "ai.onnx.ml:Imputer": "a Where",
    "ai.onnx.ml:LinearClassifier": "a product, and the place of its maximum",
    "ai.onnx.ml:LinearRegressor": "a product",
    "ai.onnx.ml:Normalizer": "a quotient by a norm",
    "ai.onnx.ml:OneHotEncoder": "a LabelEncoder and a comparison",
    "ai.onnx.ml:SVMClassifier": "kernels and votes, both products",
    "ai.onnx.ml:SVMRegressor": "kernels and a product",
    "ai.onnx.ml:Scaler": "a difference and a product",
    "ai.onnx.ml:TreeEnsemble": "steps down all trees at once",
    "ai.onnx.ml:TreeEnsembleClassifier": "deprecated: steps down all trees at once",
    "ai.onnx.ml:TreeEnsembleRegressor": "deprecated: steps down all trees at once",
    "ai.onnx.ml:ZipMap": "the columns themselves",
    "ai.onnx.preview.training:Gradient": "the nodes of the gradient",
}
"""Operator that is read as several ops, or another one, and written as these -> what they are."""
SEVERAL = {
    ":CastLike": "a Cast to a dtype that is known; as itself where a rank is not",
    ":CenterCropPad": "a slice and a pad",
    ":RandomNormalLike": "normal, of the shape of another tensor",
    ":RandomUniformLike": "uniform, of the shape of another tensor",
    ":ReduceLogSum": "log and sum",
    ":SequenceMap": "a scan over sequences",
}
"""Operator that is none of our ops alone, but is written again -> what it is."""


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, Any]]:
    """Run all cases in another process, and return what became of each."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.formats.onnx_report", "--json"],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


def reason(name: str) -> str:
    return next((why for p, why in EXPECTED.items() if fnmatch.fnmatchcase(name, p)), "")


def test_nothing_fails_unexpectedly(outcomes: dict[str, Any]) -> None:
    failed = [f"{n}: {o['error']}" for n, o in outcomes.items() if o["error"] and not reason(n)]
    assert not failed, "\n".join(failed)


def test_what_passes_is_not_excused(outcomes: dict[str, Any]) -> None:
    passed = [name for name, found in outcomes.items() if not found["error"] and reason(name)]
    assert not passed, f"take them off EXPECTED: {passed}"
    unused = [p for p in EXPECTED if not fnmatch.filter(outcomes, p)]
    assert not unused, f"no case is called {unused}"


@pytest.mark.parametrize(("expanded", "size", "failed"), [(False, 1404, 10), (True, 480, 1)])
def test_all_but_few_of_each_set_pass(
    outcomes: dict[str, Any], expanded: bool, size: int, failed: int
) -> None:
    errors = [found["error"] for n, found in outcomes.items() if is_expanded(n) == expanded]
    assert len(errors) == size
    assert len(errors) - errors.count("") <= failed


def test_what_is_read_is_written_and_means_the_same(outcomes: dict[str, Any]) -> None:
    """The checker accepts it, it is read again, and its results are those of the suite."""
    failed = {name: found["again"] for name, found in outcomes.items() if found["again"]}
    unexpected = [f"{name}: {error}" for name, error in failed.items() if name not in NOT_WRITTEN]
    assert not unexpected, "\n".join(unexpected)
    assert set(NOT_WRITTEN) == set(failed), "take what is written off NOT_WRITTEN"


def known() -> tuple[set[str], set[str]]:
    """Return all operators of ONNX, and those that are read."""
    there = {f"{s.domain}:{s.name}" for s in onnx.defs.get_all_schemas()}
    return there, there & {f"{domain}:{name}" for domain, name in gw.onnx.operators()}


def test_each_operator_is_read_and_written_as_itself(outcomes: dict[str, Any]) -> None:
    there, read = known()
    assert there - read == set(NOT_READ)
    kept = {op for found in outcomes.values() for op in found["kept"]}
    kept |= {f":{op_type}" for op_type in OWN}
    assert read - kept == set(OPENED)


def test_the_description_of_our_ops_names_each_operator() -> None:
    rules = [op["onnx"] for op in gw.ops.descriptors()["ops"] if op["onnx"]]
    named = {f"{rule['domain']}:{rule['op_type']}" for rule in rules}
    assert known()[1] - named == set(OPENED) | set(SEVERAL)

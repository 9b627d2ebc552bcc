"""The node cases of ONNX's backend suite: each is built, run in a session, and compared.

They run in a process of their own, in which the libraries that know the answers (onnx.reference,
torch, scipy) cannot be imported. ``python -m tests.onnx_report`` prints a table by operator.
"""

from __future__ import annotations

import fnmatch
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .onnx_cases import is_expanded

pytest.importorskip("onnx", reason="no onnx: pip install -e '.[onnx]'")
ROOT = Path(__file__).parent.parent

EXPECTED = {
    "test_image_decoder_*": "decoding JPEG, PNG and the like needs an image library",
    "test_bernoulli*": "the numbers expected are those of numpy's random generator",
    "test_training_dropout_default": "the mask expected is that of numpy's random generator",
    "test_training_dropout_default_mask": "the mask expected is that of numpy's random generator",
    "test_training_dropout": "the mask expected is that of numpy's random generator",
    "test_training_dropout_mask": "the mask expected is that of numpy's random generator",
    "test_attention_4d_causal_fp16_expanded": "two of 192 elements differ in float16's last place, "
    "to which every step of the softmax is rounded there, and the end here",
    "test_loop16_seq_none": "a sequence there holds items of ranks 0 and 1",
    "test_affine_grid_3d_align_corners_expanded": "branches of an If return ranks 0 and 1",
}
"""Pattern of a case -> why it does not pass; all others have to."""


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    """Run all cases in another process; return the error of each, "" for one that passes."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.onnx_report", "--json"],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, str] = json.loads(done.stdout)
    return found


def reason(name: str) -> str:
    return next((why for p, why in EXPECTED.items() if fnmatch.fnmatchcase(name, p)), "")


def test_nothing_fails_unexpectedly(outcomes: dict[str, str]) -> None:
    failed = [f"{name}: {e}" for name, e in outcomes.items() if e and not reason(name)]
    assert not failed, "\n".join(failed)


def test_what_passes_is_not_excused(outcomes: dict[str, str]) -> None:
    passed = [name for name, error in outcomes.items() if not error and reason(name)]
    assert not passed, f"take them off EXPECTED: {passed}"
    unused = [p for p in EXPECTED if not fnmatch.filter(outcomes, p)]
    assert not unused, f"no case is called {unused}"


@pytest.mark.parametrize(("expanded", "size"), [(False, 1404), (True, 480)])
def test_most_of_each_set_passes(outcomes: dict[str, str], expanded: bool, size: int) -> None:
    errors = [e for name, e in outcomes.items() if is_expanded(name) == expanded]
    assert len(errors) == size
    assert errors.count("") >= 0.97 * size

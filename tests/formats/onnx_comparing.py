"""Every node case of ONNX's suite that ONNX Runtime opens, node beside node.

    python -m tests.formats.onnx_comparing [part of a name]

prints what differs, and how much of what rounding explains the others take. The exit code says
whether anything differs that `KNOWN` does not explain.
"""

from __future__ import annotations

import collections
import fnmatch
import sys

import numpy as np

import gradwright as gw
from gradwright.errors import GradwrightError
from tests.support.onnx_cases import as_given

KNOWN = {
    "test_cast_*_to_INT[24]": "ONNX Runtime wraps numbers that do not fit, where ONNX saturates",
    "test_cast_*_to_UINT[24]": "ONNX Runtime wraps numbers that do not fit, where ONNX saturates",
    "test_attention_4d_with_past_and_present_qk_matmul_bias_?d_mask_causal": "ONNX Runtime masks "
    "with the lowest number, not with minus infinity",
    "test_maxunpool_export_with_output_shape": "ONNX Runtime takes indices as of the larger output",
}
"""Pattern of a case -> why ONNX Runtime computes something else; onnx.reference has it as we do."""
LEAST = 1600
"""Cases that are compared at least; the others ONNX Runtime does not open, or we do not read."""


def main(part: str = "") -> int:
    from onnx.backend.test.loader import load_model_tests

    with np.errstate(all="ignore"):
        cases = [c for c in load_model_tests(kind="node") if part in c.name]
    outcomes: collections.Counter[str] = collections.Counter()
    shares: list[tuple[float, str]] = []
    unknown = 0
    for case in cases:
        names = [info.name for info in case.model.graph.input]
        given = zip(names, map(as_given, case.data_sets[0][0]), strict=False)
        try:
            found = gw.onnx.compare(case.model, dict(given))
        except GradwrightError as error:
            outcomes[type(error).__name__] += 1
            continue
        outcomes["agrees" if found.agrees else "differs"] += 1
        shares += [(row.ratio, f"{case.name}: {row}") for row in found if row.verdict == "ok"]
        if found.first is not None:
            known = any(fnmatch.fnmatchcase(case.name, pattern) for pattern in KNOWN)
            known &= found.first.second.endswith("with gradwright")
            unknown += not known
            print("  known" if known else "UNKNOWN", case.name, found.first)
    shares.sort(reverse=True)
    print(dict(outcomes), f"{len(shares)} nodes")
    for ratio, text in shares[:5]:
        print(f"  {ratio:.2f} of what rounding explains: {text}")
    return int(unknown > 0 or (not part and outcomes["agrees"] < LEAST))


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))

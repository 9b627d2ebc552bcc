"""Every node case of ONNX's suite that ONNX Runtime opens, node beside node.

    python -m tests.formats.onnx_comparing [part of a name]
    python -m tests.formats.onnx_comparing --wrong 1.001 [part of a name]

prints what differs, and how much of what rounding explains the others take. The exit code says
whether anything differs that `KNOWN` does not explain. ``--few`` takes the last case of every
operator, and the last that is its function's body. With ``--wrong`` the op of each case's last
float32 is made to compute so many times too much, and what is not found is printed: drawn, empty
and stored results, zeros and infinities, and sums that may be off by as much.
"""

from __future__ import annotations

import collections
import contextlib
import fnmatch
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.errors import GradwrightError
from gradwright.spec import is_floating
from tests.support.onnx_cases import as_given, is_expanded, operator

KNOWN = {
    "test_cast_*_to_INT[24]": "ONNX Runtime wraps numbers that do not fit, where ONNX saturates",
    "test_cast_*_to_UINT[24]": "ONNX Runtime wraps numbers that do not fit, where ONNX saturates",
    "test_attention_4d_with_past_and_present_qk_matmul_bias_?d_mask_causal": "ONNX Runtime masks "
    "with the lowest number, not with minus infinity",
    "test_resize_downsample_scales_*_align_corners": "ONNX Runtime aligns the corners of the size "
    "in whole elements, ONNX those of the size that the scales give",
    "test_maxunpool_export_with_output_shape": "ONNX Runtime takes indices as of the larger output",
}
"""Pattern of a case -> why ONNX Runtime computes something else; onnx.reference has it as we do."""
LEAST = 0.85
"""Share of cases that are compared; the others ONNX Runtime does not open, or we do not read."""


def main(part: str = "") -> int:
    part, few = ("", True) if part == "--few" else (part, False)
    outcomes: collections.Counter[str] = collections.Counter()
    shares: list[tuple[float, str]] = []
    unknown = 0
    cases = loaded(part)
    if few:
        cases = [*{(operator(c), is_expanded(c.name)): (c, fed) for c, fed in cases}.values()]
    for case, feeds in cases:
        try:
            found = gw.onnx.compare(case.model, feeds)
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
    return int(unknown > 0 or (not part and outcomes["agrees"] < LEAST * len(cases)))


def loaded(part: str) -> list[tuple[Any, dict[str, Any]]]:
    """Return the cases that are called so, and what is fed to each."""
    from onnx.backend.test.loader import load_model_tests

    with np.errstate(all="ignore"):
        cases = [c for c in load_model_tests(kind="node") if part in c.name]
    names = ([info.name for info in c.model.graph.input] for c in cases)
    given = (map(as_given, c.data_sets[0][0]) for c in cases)
    return [(c, dict(zip(n, g, strict=False))) for c, n, g in zip(cases, names, given, strict=True)]


def mutate(factor: float, part: str = "") -> int:
    """Print of how many cases a wrong op is found, and which it is not."""
    outcomes: collections.Counter[str] = collections.Counter()
    for case, feeds in loaded(part):
        with contextlib.suppress(GradwrightError):
            found = gw.onnx.compare(case.model, feeds)
            rows = [r for r in found if r.spec.startswith("f32") and r.drawn[0] in found.graph]
            if not found.agrees or not rows:
                continue
            with wrong(type(found.graph[rows[-1].drawn[0]].node.op), factor):
                caught = not gw.onnx.compare(case.model, feeds).agrees
            outcomes["found" if caught else "missed"] += 1
            if not caught:
                print("  missed", case.name, rows[-1])
    print(dict(outcomes))
    return 0


@contextlib.contextmanager
def wrong(op: type[gw.Op], factor: float) -> Iterator[None]:
    """Have an op compute so many times too much."""
    own, right = "forward" in vars(op), op.forward

    def more(y: Any) -> Any:
        y = np.asarray(y)
        return (y * factor).astype(y.dtype) if is_floating(y.dtype) else y

    def forward(self: gw.Op, *xs: Any) -> Any:
        y: Any = right(self, *xs)
        return tuple(map(more, y)) if isinstance(y, tuple) else more(y)

    op.forward = forward  # type: ignore[method-assign]
    try:
        yield
    finally:
        if own:
            op.forward = right  # type: ignore[method-assign]
        else:
            del op.forward


if __name__ == "__main__":
    if sys.argv[1:2] == ["--wrong"]:
        raise SystemExit(mutate(float(sys.argv[2]), *sys.argv[3:]))
    raise SystemExit(main(*sys.argv[1:]))

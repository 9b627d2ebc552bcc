"""What kernels take on GPUs that need not be here: ``python -m tests.kernels.gates``.

Compiles generated and hand-written kernels for sm_80, sm_90 and sm_100 by Triton's own tools,
writes registers, spills, shared memory and the share of wide accesses into ``kernels/REPORT.md``,
and fails where a kernel spills. ``--print`` writes nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import triton

import gradwright as gw
from gradwright.op import find_op
from gradwright.ops.core.pullback import Pullback
from gradwright_kernels import compile_ahead
from gradwright_kernels.compile.compiler import SHARED_LIMIT, Binary, Call, compile_call
from gradwright_kernels.fused.generated import generate
from tests.kernels.steps import Group, gated, groups_of, mlp, transformer

CAPABILITIES = 80, 90, 100
REPORT = Path(__file__).parents[2] / "kernels" / "REPORT.md"
BYTES = re.compile(r"\b(?:ld|st)\.global\S*?(?:\.v(\d))?\.[bsuf](\d+)")
KEY = gw.TensorSpec((2,), "uint64")
IDS, SIZES = (gw.TensorSpec((n,), "int64") for n in (4096, 8))


def groups() -> Iterator[tuple[str, Group]]:
    """Yield the fused groups of training steps at sizes of real ones, equal kernels once."""
    made = {
        "mlp": mlp(256, 1024),
        "mlp, bfloat16": mlp(256, 1024, "bfloat16"),
        "mlp, float64": mlp(256, 1024, "float64"),
        "transformer": transformer(768),
        "gated": gated(4096),
        "gated, wide": gated(32_768),
    }
    seen = set()
    for name, step in made.items():
        for group in groups_of(*step):
            key = group.op.kernel, len(group.op.shape), max(group.op.shape, default=1)
            if key not in seen:
                seen.add(key)
                yield name, group


def calls() -> Iterator[tuple[str, Call]]:
    """Yield launches of generated kernels, each with a name."""
    for step, group in groups():
        specs = *group.ins, *group.op.outs
        arrays = [np.empty(s.shape, s.dtype) for s in specs]
        made = generate(group.op.kernel, group.op.shape, arrays, group.names)
        names = " ".join(dict.fromkeys(group.op.names))
        shape = "x".join(map(str, group.op.shape))
        for n, launch in enumerate(made.launches):
            part = f", launch {n + 1}" if n else ""
            yield f"{step}: {names} [{shape}]{part}", launch.call


def written(capability: int) -> Iterator[tuple[str, Binary]]:
    """Yield hand-written kernels, compiled."""
    x, w = gw.TensorSpec((4096, 1024)), gw.TensorSpec((1024,))
    norm = find_op("layer_norm")()
    ops = {
        "softmax": (find_op("softmax")(), (x,)),
        "layer_norm": (norm, (x, w, w)),
        "layer_norm, gradient": (
            Pullback(op=norm, n_inputs=3, wrt=(0, 1, 2), present=(True,)),
            (x, w, w, x),
        ),
        "matmul": (find_op("matmul")(), (x, gw.TensorSpec((1024, 512)))),
        "bernoulli": (find_op("bernoulli")(shape=(4096, 1024), p=0.1, dtype="bool"), (KEY,)),
        "uniform": (find_op("uniform")(shape=(4096, 1024)), (KEY,)),
        "normal": (find_op("normal")(shape=(4096, 1024)), (KEY,)),
        "randint": (find_op("randint")(shape=(4096, 1024), high=100), (KEY,)),
        "gather, gradient": (find_op("gather_grad")(), (x, IDS, gw.TensorSpec((32_000, 1024)))),
        "cumsum": (find_op("cumsum")(axis=-1), (x,)),
        "linear_scan": (find_op("linear_scan")(), (x, x)),
        "grouped_matmul": (
            find_op("grouped_matmul")(),
            (x, gw.TensorSpec((8, 1024, 512)), SIZES),
        ),
        "grouped_matmul, gradient": (
            find_op("grouped_matmul_grad")(),
            (x, gw.TensorSpec((4096, 512)), SIZES),
        ),
    }
    for name, (op, ins) in (ops | large("bfloat16") | large("float32")).items():
        for binary in compile_ahead(op, *ins, capability=capability):
            yield f"{name}: {binary.name.strip('_')}", binary


def large(dtype: str) -> dict[str, tuple[Any, tuple[gw.TensorSpec, ...]]]:
    """Return ops of products with their inputs, at sizes of real models, by name."""

    def of(*shape: int, dtype: str = dtype) -> gw.TensorSpec:
        return gw.TensorSpec(shape, dtype)

    found: dict[str, tuple[Any, tuple[gw.TensorSpec, ...]]] = {}
    for width in (64, 128):
        q, k, rows = of(2, 8, 512, width), of(2, 4, 512, width), of(2, 8, 512, dtype="float32")
        causal = {"is_causal": True}
        found[f"attention {width}"] = find_op("flash_attention")(**causal), (q, k, k)
        back = find_op("flash_attention_grad")(**causal)
        found[f"attention {width}, gradient"] = back, (q, q, k, k, rows, rows)
    mask = of(512, 512)
    back = find_op("flash_attention_mask_grad")()
    found["attention 128, gradient of a mask"] = back, (q, q, k, k, rows, rows, mask)
    h, w, ids = of(512, 768), of(32_000, 768), of(512, dtype="int64")
    asked = [of(512, dtype="float32")] * 4
    found["head"] = find_op("head_log_probs")(), (h, w, ids)
    found["head, gradient"] = find_op("head_log_probs_grad")(), (*asked, h, w, ids)
    x, kernel, y = of(8, 64, 56, 56), of(128, 64, 3, 3), of(8, 128, 56, 56)
    conv, pool = {"padding": 1}, {"kernel_size": 2}
    found["convolution"] = find_op("conv2d")(**conv), (x, kernel, of(128))
    found["convolution, gradient of images"] = find_op("conv_input_grad")(**conv), (y, kernel, x)
    found["convolution, gradient of weight"] = find_op("conv_weight_grad")(**conv), (x, y, kernel)
    found["convolution, depthwise"] = (
        find_op("conv2d")(groups=64, **conv),
        (x, of(64, 1, 3, 3)),
    )
    half, taps = of(8, 64, 28, 28), of(8, 64, 28, 28, dtype="uint8")
    found["largest of windows"] = find_op("max_pool2d")(**pool), (x,)
    found["largest of windows, gradient"] = find_op("untap")(**pool), (half, taps, x)
    found["means of windows, gradient"] = find_op("avg_pool_grad")(**pool), (half, x)
    codes, absmax = of(512 * 768 // 2, 1, dtype="uint8"), of(512 * 768 // 64, dtype="float32")
    found["NF4"] = find_op("nf4_matmul")(out_features=512), (h, codes, absmax)
    blocks = of(512, 768 // 256 * 144, dtype="uint8")
    found["q4_k"] = find_op("ggml_matmul")(format="q4_k"), (h, blocks)
    return {f"{name}, {dtype}": op for name, op in found.items()}


def wide_share(ptx: str) -> float | None:
    """Return the share of bytes that accesses of 16 bytes move; None where there are none."""
    found = [(int(v or 1) * int(bits) // 8) for v, bits in BYTES.findall(ptx)]
    return sum(n for n in found if n >= 16) / sum(found) if found else None


def main() -> int:
    """Print the table, write it, and say what does not hold."""
    lines, wrong = [], []
    generated = list(calls())
    for capability in CAPABILITIES:
        rows = [(name, compile_call(call, capability)) for name, call in generated]
        for name, binary in [*rows, *written(capability)]:
            used, share = binary.resources(), wide_share(binary.ptx)
            if used.spilled_bytes or used.shared_bytes > SHARED_LIMIT[capability]:
                wrong.append(f"sm_{capability}, {name}: {used}")
            wide = "" if share is None else f"{share:.0%}"
            lines.append(
                f"| {capability} | {name} | {used.threads} | {used.registers} "
                f"| {used.spilled_bytes} | {used.shared_bytes} | {wide} |"
            )
    head = [
        f"Compiled by Triton {triton.__version__}: `python -m tests.kernels.gates`.",
        "Wide: the share of bytes in loads and stores of 16 bytes at once.",
        "",
        "| sm | kernel | threads | registers | spilled | shared | wide |",
        "|---|---|---|---|---|---|---|",
    ]
    text = "\n".join([*head, *lines, ""])
    print(text, *wrong, sep="\n")
    if "--print" not in sys.argv:
        REPORT.write_text(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

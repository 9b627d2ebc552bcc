"""Opening a gigabyte: time, and private memory more than before, for GGUF and safetensors.

    python -m tests.benchmarks.opening [folder]

A Llama of 1.2 G weights as Q8_0 with a vocabulary of 32,000, and as much in safetensors, are
written once, to stay if a folder is named, and then opened in turns: ``gw.inspect``, ``gw.open``,
and all weights taken as arrays. Told are the least of seven by the clock and of the processor, and
anonymous pages of Linux's smaps_rollup, at most.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.formats.gguf.writing import write

LAYERS, WIDTH, INNER, WORDS = 24, 2048, 5632, 32_000
ROUNDS = 7


def gguf(path: Path) -> None:
    rng = np.random.default_rng(0)

    def packed(rows: int, n: int) -> np.ndarray:
        return rng.integers(0, 60, (rows, n // 32 * 34), dtype=np.uint8)

    tensors = {"token_embd.weight": packed(WORDS, WIDTH), "output.weight": packed(WORDS, WIDTH)}
    tensors["output_norm.weight"] = np.ones(WIDTH, "f4")
    for i in range(LAYERS):
        for name, rows, n in (
            *(("attn_q", WIDTH, WIDTH), ("attn_k", 256, WIDTH), ("attn_v", 256, WIDTH)),
            *(("attn_output", WIDTH, WIDTH), ("ffn_gate", INNER, WIDTH), ("ffn_up", INNER, WIDTH)),
            ("ffn_down", WIDTH, INNER),
        ):
            tensors[f"blk.{i}.{name}.weight"] = packed(rows, n)
        for name in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{i}.{name}.weight"] = np.ones(WIDTH, "f4")
    sizes = {
        **{"context_length": 2048, "embedding_length": WIDTH, "block_count": LAYERS},
        **{"feed_forward_length": INNER, "attention.head_count": 32},
        **{"attention.head_count_kv": 4, "attention.layer_norm_rms_epsilon": 1e-5},
    }
    words = {
        "model": "llama",
        "tokens": [f"token{i}" for i in range(WORDS)],
        "scores": np.zeros(WORDS, "f4"),
        "token_type": np.ones(WORDS, "i4"),
    }
    keys: dict[str, Any] = {"general.architecture": "llama"}
    keys |= {f"llama.{k}": v for k, v in sizes.items()}
    keys |= {f"tokenizer.ggml.{k}": v for k, v in words.items()}
    write(path, keys, tensors, {n: "q8_0" for n, a in tensors.items() if a.dtype == np.uint8})


def safetensors(path: Path) -> None:
    array = np.zeros((2048, 2048), "f2")
    gw.safetensors.save({f"w{i}": array for i in range(144)}, path)


def private() -> float:
    """Return megabytes of memory that lies in no file."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Anonymous")) / 1024


def main() -> None:
    with tempfile.TemporaryDirectory() as own:
        show(Path(sys.argv[1] if len(sys.argv) > 1 else own))


def show(folder: Path) -> None:
    files = {"GGUF": folder / "model.gguf", "safetensors": folder / "model.safetensors"}
    for path, make in zip(files.values(), (gguf, safetensors), strict=True):
        if not path.exists():
            make(path)
    uses: dict[str, Callable[[Path], Any]] = {
        "gw.inspect": gw.inspect,
        "gw.open": gw.open,
        "and all arrays": _taken,
    }
    took: dict[tuple[str, str], list[tuple[float, float]]] = {}
    grown: dict[tuple[str, str], float] = {}
    for _ in range(ROUNDS):
        for name, path in files.items():
            for label, use in uses.items():
                before, start, used = private(), time.perf_counter(), time.process_time()
                held = use(path)
                spent = time.perf_counter() - start, time.process_time() - used
                took.setdefault((name, label), []).append(spent)
                grown[name, label] = max(grown.get((name, label), 0.0), private() - before)
                del held
    for name, path in files.items():
        print(f"{name}, {path.stat().st_size / 1e9:.2f} GB")
        for label in uses:
            wall, cpu = (1000 * min(times) for times in zip(*took[name, label], strict=True))
            more = f"{max(0.0, grown[name, label]):5.1f} MB more"
            print(f"  {label:<15} {wall:6.1f} ms, of the processor {cpu:6.1f} ms, {more}")


def _taken(path: Path) -> Any:
    held = gw.open(path)
    values = held.graph.values if isinstance(held, gw.models.Decoder) else held
    return held, [values[name] for name in values]


if __name__ == "__main__":
    main()

"""``python -m tests.benchmarks.decoding [kind ...]``: tokens a second beside llama.cpp.

A Llama of 150 million random weights goes on greedily from a prompt: ours with x as it is and as
bytes, and llama.cpp (``make oracle-llama``), which reads the file that we write, from where it is
mapped and with rows that it repacks; on one thread and two, in turns. As float32 transformers is
beside them. A decode step is the difference of a long run and a short one, over its tokens; of all
rounds the shortest counts, since others may use the machine. One thread is timed by the processor
time of the process, two by the clock on the wall. Ours chooses the tokens, too.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

for _pool in ("OPENBLAS", "MKL", "OMP"):  # before numpy is imported
    os.environ.setdefault(f"{_pool}_NUM_THREADS", "1")

import numpy as np  # noqa: E402

from gradwright.cpu.llvm.packed.machine import machine  # noqa: E402
from gradwright.models import Decoder, from_gguf, save_gguf, state_dict  # noqa: E402
from gradwright.session import Session  # noqa: E402
from tests.benchmarks.packed import CONFIG, weights  # noqa: E402
from tests.models.llama_cpp import library, opened  # noqa: E402
from tests.support import networks  # noqa: E402

Tokens = Callable[[int, int], Any]
"""Reads a prompt of so many tokens, and gives so many new ones."""
KINDS = "f32", "q8_0", "q4_0", "q4_k", "q6_k"
N_SHORT, N_PROMPT, N_NEW, ROWS = 16, 64, 25, 8


def decoder(kind: str) -> Decoder:
    """Return a decoder of random weights of a kind."""
    if kind == "f32":
        rng = np.random.default_rng(0)
        values = {
            name: (0.02 * rng.standard_normal(shape) if len(shape) > 1 else np.ones(shape))
            for name, shape in CONFIG.weights()
        }
        return Decoder(CONFIG, values={n: w.astype("f4") for n, w in values.items()})
    values = weights(kind)
    return Decoder(CONFIG, values=values, packed={n: kind for n, w in values.items() if w.ndim > 1})


def ours(model: Decoder, threads: int, rows: int = 1, **settings: Any) -> Tokens:
    """Return our way, compiled."""
    made = model.generation(threads=threads, **settings)

    def run(prompt: int, new: int) -> Any:
        return made.generate([list(range(1, prompt + 1))] * rows, new)

    for prompt, new in ((N_SHORT, 2), (N_PROMPT, 1)):
        run(prompt, new)
    assert isinstance(made.session, Session)
    made.session.wait_for_kernels()
    return run


def of_llama(path: Path, threads: int, *, repacked: bool) -> Tokens:
    """Return llama.cpp's way, by its C functions alone: no sampling, no Python between tokens."""
    lib = library()
    theirs = opened(path, threads=threads, repacked=repacked, n_ctx=512)
    context, numbers = theirs.ctx, (lib.llama_token * N_PROMPT)(*range(1, N_PROMPT + 1))

    def run(prompt: int, new: int, held: Any = theirs) -> None:
        lib.llama_memory_clear(lib.llama_get_memory(context), True)
        lib.llama_decode(context, lib.llama_batch_get_one(numbers, prompt))
        lib.llama_get_logits(context)
        for _ in range(new - 1):
            lib.llama_decode(context, lib.llama_batch_get_one(numbers, 1))
            lib.llama_get_logits(context)

    return run


def of_transformers(model: Decoder) -> Tokens:
    """Return the way of transformers on one thread, with its cache."""
    import torch

    torch.set_num_threads(1)
    theirs = networks.llama(CONFIG)
    theirs.load_state_dict(
        {n: torch.from_numpy(np.array(w)) for n, w in state_dict(model).items()}, strict=False
    )

    def run(prompt: int, new: int) -> Any:
        ids = torch.arange(1, prompt + 1)[None]
        return theirs.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, min_new_tokens=new,
            do_sample=False, pad_token_id=0, eos_token_id=None,
        )  # fmt: skip

    return run


def rivals(kind: str, path: Path) -> Iterator[tuple[tuple[str, int, int], Tokens]]:
    """Yield a name, threads and rows, and a way."""
    save_gguf(decoder(kind), path, kind=kind)
    model = from_gguf(path)
    ways: dict[str, dict[str, str]] = {"ours float32": {}, "ours int8": {"activations": "int8"}}
    if kind == "f32":
        del ways["ours int8"]
    for threads in (1, 2):
        for name, more in ways.items():
            yield (name, threads, 1), ours(model, threads, **more)
        yield ("llama.cpp mapped", threads, 1), of_llama(path, threads, repacked=False)
        if kind != "f32":
            yield ("llama.cpp repacked", threads, 1), of_llama(path, threads, repacked=True)
    if kind == "f32":
        yield ("transformers", 1, 1), of_transformers(model)
    for name, more in ways.items():
        yield (name, 1, ROWS), ours(model, 1, ROWS, **more)


def measured(ways: Mapping[Any, Tokens], rounds: int) -> dict[Any, tuple[float, float]]:
    """Return seconds of a step of decoding, and of reading a prompt."""
    runs = {"short": (N_SHORT, 1), "long": (N_SHORT, N_NEW), "prompt": (N_PROMPT, 1)}
    best = {(key, name): float("inf") for key in ways for name in runs}
    for number in range(rounds):
        for key, run in ways.items():
            if key[1] > 1 and number % 2:  # threads that wait for each other take long where
                continue  # others use the machine
            clock = time.process_time if key[1] == 1 else time.perf_counter
            for name, sizes in runs.items():
                began = clock()
                run(*sizes)
                best[key, name] = min(best[key, name], clock() - began)
    return {
        key: ((best[key, "long"] - best[key, "short"]) / (N_NEW - 1), best[key, "prompt"])
        for key in ways
    }


def show(kind: str, rounds: int) -> None:
    """Print tokens a second of a kind of weights, and how many times those of others they are."""
    with tempfile.TemporaryDirectory() as folder:
        found = measured(dict(rivals(kind, Path(folder) / "m.gguf")), rounds)
    others = {key: taken for key, taken in found.items() if not key[0].startswith("ours")}
    for (name, threads, rows), (step, prompt) in found.items():
        line = f"{kind:5}{name:20}{threads:2}{rows:5}{rows / step:10.1f}"
        line += f"{rows * N_PROMPT / prompt:10.0f}"
        if rows > 1:
            line += f"   {rows * found[name, threads, 1][0] / step:.1f}x so many runs"
        elif name.startswith("ours"):
            line += "".join(
                f"   {their_step / step:.2f}/{their_prompt / prompt:.2f} of {other.split()[-1]}"
                for (other, n, _), (their_step, their_prompt) in others.items()
                if n == threads
            )
        print(line, flush=True)


def main() -> None:
    """Print a table for each kind of weights."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", default=KINDS, help=", ".join(KINDS))
    parser.add_argument("--rounds", type=int, default=8)
    asked = parser.parse_args()
    print(f"{machine().name}; llama-cpp-python {library().__version__}")
    print(f"{'':25}thr rows  tokens/s  prompt/s   ours to theirs: decode/prompt of {N_PROMPT}")
    for kind in asked.kinds:
        show(kind, asked.rounds)


if __name__ == "__main__":
    main()

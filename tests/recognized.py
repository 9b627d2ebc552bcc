"""What is recognised in models of transformers that both of torch's exporters wrote.

    python -m tests.recognized [model ...] [--large]

Models of eight families with random weights are exported by TorchDynamo and by TorchScript, with
attention in steps (eager) and as torch's own function (sdpa). Each is read, recognised, and held
against itself: results and gradients before and after, and what was found against the layers that
the model has. Prints nodes and the processor's time of a forward on one thread, before and after;
``--large`` is for times: four layers of 256 features, 8 x 64 tokens. Needs torch, transformers and
onnxscript.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

for _pool in ("OPENBLAS", "MKL", "OMP"):  # before numpy is imported
    os.environ.setdefault(f"{_pool}_NUM_THREADS", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np  # noqa: E402

import gradwright as gw  # noqa: E402

Array = np.ndarray[Any, Any]
CLOSE = 2e-6
"""How far results may be from what they were, in shares of the largest."""
SLOPES = 2e-5
"""The same for gradients."""
HEADS, WORDS = 4, 64
FOUND = {
    "llama": {"rms_norm": (2, 1), "rope": (2, 0), "attention": (1, 0), "silu": (1, 0)},
    "qwen3": {"rms_norm": (4, 1), "rope": (2, 0), "attention": (1, 0), "silu": (1, 0)},
    "gemma2": {"rms_norm": (4, 1), "rope": (2, 0), "attention": (1, 0), "gelu": (1, 0)},
    "neox": {"rope": (2, 0), "attention": (1, 0), "gelu": (1, 0)},
    "gpt2": {"attention": (1, 0), "gelu": (1, 0)},
    "bert": {"attention": (1, 0), "gelu": (1, 0)},
    "vit": {"attention": (1, 0), "gelu": (1, 0)},
    "t5": {"rms_norm": (2, 1), "attention": (1, 0), "gelu": (1, 0)},
}
"""By model and kind: how many a layer has, and how many there are beside."""
WHOLE = {"gelu": ("bert", "vit", "neox", "gemma2")}
"""What TorchDynamo writes as the operator that ONNX has for it, and in which models."""


def models(layers: int, width: int) -> dict[str, tuple[Any, Any, bool]]:
    """Return configuration, class and whether it reads words, by name."""
    import transformers as t

    own: dict[str, Any] = {
        "hidden_size": width,
        "intermediate_size": width * 3 // 2,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "vocab_size": WORDS,
    }
    shared = {**own, "num_key_value_heads": HEADS // 2}
    head = {"head_dim": width // HEADS}
    image = {k: v for k, v in own.items() if k != "vocab_size"}
    return {
        "llama": (t.LlamaConfig(**shared, pad_token_id=0), t.LlamaForCausalLM, True),
        "qwen3": (t.Qwen3Config(**shared, **head), t.Qwen3ForCausalLM, True),
        "gemma2": (t.Gemma2Config(**shared, **head), t.Gemma2ForCausalLM, True),
        "neox": (t.GPTNeoXConfig(**own, max_position_embeddings=128), t.GPTNeoXForCausalLM, True),
        "gpt2": (
            t.GPT2Config(n_embd=width, n_layer=layers, n_head=HEADS, vocab_size=WORDS),
            t.GPT2LMHeadModel,
            True,
        ),
        "bert": (t.BertConfig(**own, max_position_embeddings=128), t.BertModel, True),
        "vit": (t.ViTConfig(**image, image_size=16, patch_size=8), t.ViTModel, False),
        "t5": (
            t.T5Config(
                d_model=width,
                d_ff=width * 3 // 2,
                num_layers=layers,
                num_heads=HEADS,
                d_kv=width // HEADS,
                vocab_size=WORDS,
                feed_forward_proj="gated-gelu",
            ),
            t.T5EncoderModel,
            True,
        ),
    }


def exported(
    config: Any, make: Any, reads_words: bool, size: tuple[int, int]
) -> Iterator[tuple[str, bytes, dict[str, Array]]]:
    """Yield how a model was exported, the file, and inputs for it."""
    import torch

    class Wrapped(torch.nn.Module):
        def __init__(self, model: Any) -> None:
            super().__init__()
            self.model = model

        def forward(self, *xs: Any) -> Any:
            cached = getattr(config, "use_cache", False) and config.model_type != "t5"
            own = dict(zip(inputs, xs, strict=True)) | ({"use_cache": False} if cached else {})
            return self.model(**own)[0]

    batch, length = size
    if reads_words:
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[-1, length * 2 // 3 :] = 0
        words = torch.randint(0, WORDS, (batch, length))
        inputs = {"input_ids": words, "attention_mask": mask}
    else:
        inputs = {"pixel_values": torch.randn(batch, 3, 16, 16)}
    axes = {k: {0: "batch", **({1: "length"} if reads_words else {})} for k in inputs}
    for attention in ("eager", "sdpa"):
        config._attn_implementation = attention
        with contextlib.suppress(ValueError):  # models that have no such form
            torch.manual_seed(0)
            model = Wrapped(make(config).eval())
            for p in model.parameters():
                if p.ndim == 1:  # norms of other weights than one
                    p.data += 0.3 * torch.randn_like(p)
            for dynamo in (True, False):
                file = io.BytesIO()
                own: dict[str, Any] = {"dynamic_axes": axes, "opset_version": 17}
                if dynamo:
                    dims = tuple(
                        {i: torch.export.Dim(n) for i, n in axes[k].items()} for k in inputs
                    )
                    own = {"dynamic_shapes": {"xs": dims}, "verbose": False}
                with contextlib.redirect_stdout(io.StringIO()):
                    try:
                        torch.onnx.export(
                            model,
                            tuple(inputs.values()),
                            file,
                            dynamo=dynamo,
                            input_names=[*inputs],
                            output_names=["out"],
                            **own,
                        )
                    except torch.onnx.errors.OnnxExporterError:
                        continue
                name = f"{attention}, {'dynamo' if dynamo else 'script'}"
                yield name, file.getvalue(), {k: x.numpy() for k, x in inputs.items()}


def slopes(g: gw.Graph, feeds: dict[str, Array]) -> list[Array]:
    """Return gradients with respect to the first, the middle and the last parameter."""
    chosen = [g.trainable[i] for i in (0, len(g.trainable) // 2, -1)]
    found = gw.gradients(gw.sin(g["out"]).sum(), chosen)
    return list(g.output(feeds, *found).values())


def milliseconds(g: gw.Graph, feeds: dict[str, Array], runs: int) -> float:
    """Return the least time of the processor that a forward took, kernels compiled."""
    best = float("inf")
    with gw.Session(g, threads=1) as session:
        for _ in range(runs):
            start = time.process_time()
            session.run("out", feeds)
            best = min(best, time.process_time() - start)
    return best * 1e3


def distance(found: Array, before: Array) -> float:
    return float(np.abs(found - before).max() / max(np.abs(before).max(), 1e-30))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("models", nargs="*", default=[], help="which; all, if none is named")
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    layers, width, size, runs = (4, 256, (8, 64), 40) if options.large else (2, 32, (2, 7), 10)
    wrong = 0
    print(f"{'':24}{'nodes':>12}{'results':>10}{'slopes':>10}{'ms':>16}  found")
    for name, (config, make, reads_words) in models(layers, width).items():
        if options.models and name not in options.models:
            continue
        for how, file, feeds in exported(config, make, reads_words, size):
            g = gw.onnx.load(file, trainable=True)
            feeds = {t.name: feeds[t.name] for t in g.placeholders}
            before, steep = g.output(feeds, "out")["out"], slopes(g, feeds)
            slow = milliseconds(g, feeds, runs)
            made = gw.recognize(g, outputs=["out"])
            far = distance(g.output(feeds, "out")["out"], before)
            off = max(distance(a, b) for a, b in zip(slopes(g, feeds), steep, strict=True))
            fast = milliseconds(g, feeds, runs)
            wanted = {
                kind: layers * each + beside
                for kind, (each, beside) in FOUND[name].items()
                if "script" in how or name not in WHOLE.get(kind, ())
            }
            is_wrong = made.counts != wanted or far > CLOSE or off > SLOPES
            wrong += is_wrong
            counts = ", ".join(f"{n} {kind}" for kind, n in made.counts.items())
            print(
                f"{name + ', ' + how:24}{made.nodes[0]:6} {made.nodes[1]:5}{far:10.1e}{off:10.1e}"
                f"{slow:8.2f}{fast:8.2f}  {counts}{'  WRONG' if is_wrong else ''}",
                flush=True,
            )
            for missed in made.missed:
                print(f"    not {missed.kind}: {missed.where}: {missed.why}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

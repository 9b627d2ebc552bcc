"""Random tiny decoders of transformers, read, run, made to generate, written and read there again.

    python -m tests.models.random_huggingface [count] [--seed N]    models of seeds N, N + 1, ...
    python -m tests.models.random_huggingface --seed N --one        one model, its settings, here

Sizes of heads, shared heads, biases, windows, scalings of positions, caps and experts are drawn.
Logits have to be within 1e-5 of their size, or three times as far as transformers' own in float32
are from those in float64; greedy tokens have to be the same. Windows of one key are left
out: with its cache transformers 5.24 then sees all keys, and without it only one.
"""

from __future__ import annotations

import copy
import random
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.models import from_pretrained, save_pretrained
from tests.models import theirs as other
from tests.support.campaign import Campaign

WINDOWED = ("Mistral", "Mixtral", "Phi3", "Qwen2", "Qwen3", "Gemma2")
CLASSES = ("Llama", "GPT2", *WINDOWED)


def settings(seed: int) -> tuple[str, dict[str, Any]]:
    """Return a class of transformers, and settings of its config."""
    draw = random.Random(seed)
    name, heads = draw.choice(CLASSES), draw.choice((1, 2, 4, 6))
    size = draw.choice((4, 8, 16))
    if name == "GPT2":
        return name, {
            **{"n_embd": heads * size, "n_layer": draw.choice((1, 3)), "n_head": heads},
            **{"n_inner": draw.choice((None, 10)), "n_positions": 64},
            **{"activation_function": draw.choice(("gelu", "gelu_new", "relu", "silu"))},
        }
    found = {
        **{"num_attention_heads": heads, "hidden_size": heads * size},
        "num_key_value_heads": draw.choice([n for n in (1, 2, 3, 6) if heads % n == 0]),
        **{"num_hidden_layers": draw.choice((1, 2, 4)), "intermediate_size": draw.choice((8, 24))},
        **{"tie_word_embeddings": draw.random() < 0.5, "rms_norm_eps": draw.choice((1e-5, 1e-2))},
    }
    if name not in ("Qwen2", "Phi3"):
        found["head_dim"] = draw.choice((size, 6, 10))
    if name != "Phi3":
        found |= _positions(draw)
    elif draw.random() < 0.5:
        found |= other.rope("default", partial_rotary_factor=0.5)
    if name in WINDOWED:
        found["sliding_window"] = draw.choice((2, 3, 7, 100))
    if name in ("Qwen2", "Qwen3"):
        found["use_sliding_window"] = draw.random() < 0.7
        found["max_window_layers"] = draw.choice((0, 1, 3))
    if name in ("Llama", "Qwen3", "Gemma2"):
        found["attention_bias"] = draw.random() < 0.5
    if name == "Mixtral":
        found["num_local_experts"] = draw.choice((2, 5))
        found["num_experts_per_tok"] = draw.choice((1, 2))
    if name == "Gemma2":
        found["query_pre_attn_scalar"] = draw.choice((8, 100))
        found["attn_logit_softcapping"] = draw.choice((None, 2.0, 50.0))
        found["final_logit_softcapping"] = draw.choice((None, 3.0))
    return name, found


def _positions(draw: random.Random) -> dict[str, Any]:
    old = {"original_max_position_embeddings": draw.choice((8, 16, 64))}
    return draw.choice(
        (
            {},
            other.rope("linear", factor=draw.choice((2.0, 3.5))),
            {**other.rope("dynamic", factor=2.0), "max_position_embeddings": 32},
            other.rope("yarn", factor=4.0, attention_factor=draw.choice((None, 0.9)), **old),
            other.rope("llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=3.0, **old),
        )
    )


def problem(seed: int) -> str:
    """Return what is otherwise than in transformers; or ""."""
    torch = other.torch_of()
    name, more = settings(seed)
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as made, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(made)
        theirs = other.made_of(name, more, seed)
        ids = rng.integers(1, 36, (2, rng.choice((1, 5, 30))))
        with torch.no_grad():
            wanted = theirs(torch.tensor(ids)).logits.numpy()
        model = from_pretrained(other.saved(theirs, folder / "theirs"))
        with gw.Session(model.graph, kernels="off") as session:
            found = session.run(model.logits, {"ids": ids})
        if (off := _off(found, wanted)) > 1e-5:
            with torch.no_grad():
                exact = copy.deepcopy(theirs).double()(torch.tensor(ids)).logits.numpy()
            if off > 3 * _off(wanted, exact):
                return f"logits are off by {off:.1e}"
        prompt = ids[0, :7].tolist()
        tokens = model.generation(eos=(), kernels="off").generate([prompt], 20)[0].tokens
        if tokens != other.greedy(theirs, prompt, 20):
            return "other tokens"
        save_pretrained(model, folder / "ours")
        with torch.no_grad():
            again = other.loaded(folder / "ours")(torch.tensor(ids)).logits.numpy()
        off = _off(again, wanted)
        return f"written, logits are off by {off:.1e}" if off > 1e-6 else ""


def _off(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def _shown(seed: int) -> Iterator[str]:
    yield f"{settings(seed)}"


CAMPAIGN = Campaign(
    "tests.models.random_huggingface",
    "random decoders",
    problem,
    _shown,
    "the same in transformers",
    count=300,
    batch=50,
)


if __name__ == "__main__":
    CAMPAIGN.main(__doc__)

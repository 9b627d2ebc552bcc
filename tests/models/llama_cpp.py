"""Our GGUF files in llama.cpp, as a command of its own: ``python -m tests.models.llama_cpp``.

For each architecture and kind of weights a small decoder is written by `save_gguf`, and llama.cpp
and the decoder read that file. Prompt and tokens are the same for both: at each place the logits
are compared, and which token is the best. llama.cpp rounds what it multiplies with quantised
weights to 8 bits and we do not, so tokens whose logits are nearer than that are counted apart. A
file without a tokenizer, and one with it, are both read. ``make oracle-llama`` builds llama.cpp
into ``build/llama``.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from gradwright.models import Decoder, DecoderConfig, RopeScaling, Tokenizer, from_gguf, save_gguf

Array = np.ndarray[Any, Any]
BUILT = Path(__file__).parents[2] / "build" / "llama"
N_PROMPT, N_NEW = 6, 24
SIZES: dict[str, Any] = {
    **{"vocabulary": 320, "width": 256, "layers": 2, "heads": 4, "kv_heads": 2, "inner": 512},
    **{"context": 256, "eps": 1e-5},
}
GEMMA: dict[str, Any] = {
    **{"norm": "rms_plus_one", "activation": "gelu_tanh", "tied": True, "embedding_scale": 16.0},
}
GPT2: dict[str, Any] = {
    **{"norm": "layer", "positions": "learned", "activation": "gelu_tanh", "gated": False},
    **{"qkv_bias": True, "out_bias": True, "mlp_bias": True, "kv_heads": None, "tied": True},
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "linear": ("llama", {"rope_scaling": RopeScaling("linear", 4.0, 64)}),
    "yarn": ("llama", {"rope_scaling": RopeScaling("yarn", 4.0, 64)}),
    "llama3": ("llama", {"rope_scaling": RopeScaling("llama3", 8.0, 32)}),
    "mixtral": ("llama", {"experts": 4}),
    "qwen2": ("qwen2", {"qkv_bias": True}),
    "qwen3": ("qwen3", {"qk_norm": True, "head_size": 128, "tied": True}),
    "gemma": ("gemma", GEMMA),
    "gemma2": (
        "gemma2",
        {
            **{**GEMMA, "post_norms": True, "attention_cap": 50.0, "logit_cap": 30.0},
            **{"window": 8, "full_layers": (1,)},
        },
    ),
    "phi3": ("phi3", {}),
    "gpt2": ("gpt2", GPT2),
}
"""Name -> architecture of GGUF, and what its config says beside `SIZES`."""
KINDS = {"f32": 2e-5, "f16": 2e-3, "q8_0": 0.05, "q4_0": 0.05, "q4_k": 0.05, "q6_k": 0.05}
"""Kind of weights -> how far llama.cpp's logits may be from ours, relative rms."""
LOOKED_UP = 5e-4
"""Likewise of float32 where the network has GELU, which ggml looks up in a table of float16."""


def library() -> Any:
    """Return llama-cpp-python, as `make oracle-llama` built it or as it is installed."""
    if BUILT.is_dir() and str(BUILT) not in sys.path:
        sys.path.append(str(BUILT))
    try:
        return importlib.import_module("llama_cpp")
    except ImportError:
        raise SystemExit("llama-cpp-python is not here: make oracle-llama builds it") from None


def opened(path: Path, *, threads: int = 1, repacked: bool = True, **settings: Any) -> Any:
    """Return llama.cpp's model of a file; not ``repacked``, it reads weights where they lie."""
    lib = library()
    given = lib.llama_cpp.llama_model_default_params

    def params() -> Any:
        found = given()
        found.use_extra_bufts = repacked
        return found

    with mock.patch.object(lib.llama_cpp, "llama_model_default_params", params):
        return lib.Llama(
            str(path), n_threads=threads, n_threads_batch=threads, verbose=False, **settings
        )


def drawn(config: DecoderConfig, seed: int = 0) -> Decoder:
    """Return a decoder with random weights, norms and biases among them."""
    rng = np.random.default_rng(seed)
    values = {}
    for name, shape in config.weights():
        x = rng.standard_normal(shape)
        if len(shape) > 1:
            values[name] = x / np.sqrt(shape[-1])
        else:
            values[name] = 0.1 * x + (name.endswith("norm") and config.norm != "rms_plus_one")
    return Decoder(config, values={name: x.astype("f4") for name, x in values.items()})


def tokenizer_of(vocabulary: int) -> Tokenizer:
    """Return a tokenizer of bytes, and of a few pairs of them."""
    import tokenizers

    of_bytes = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    pairs = [(a, b) for a in "aeioust" for b in "aeioulmnrst"][: vocabulary - len(of_bytes) - 1]
    tokens = [*of_bytes, *(a + b for a, b in pairs), "<|end|>"]
    model = tokenizers.models.BPE({t: i for i, t in enumerate(tokens)}, pairs)
    inner = tokenizers.Tokenizer(model)
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    inner.add_special_tokens(["<|end|>"])
    return Tokenizer(inner)


def theirs_of(path: Path, tokens: Sequence[int]) -> Array:
    """Return llama.cpp's logits after each token, with keys and values as float32."""
    theirs = opened(path, n_ctx=SIZES["context"], logits_all=True, type_k=0, type_v=0,
                    swa_full=False)  # fmt: skip
    theirs.eval(tokens[:N_PROMPT])
    for token in tokens[N_PROMPT:]:  # as when it generates
        theirs.eval([token])
    found: Array = theirs.scores[: len(tokens)].copy()
    return found


def compared(path: Path, prompt: list[int]) -> tuple[float, int, int, int]:
    """Return how far logits are apart, and how many best tokens are the same, near, others."""
    model = from_gguf(path)
    (completion,) = model.generate([prompt], N_NEW)
    tokens = [*prompt, *completion.tokens]
    ours = model.graph.output({"ids": np.array([tokens])}, model.logits)["logits"][0]
    found = theirs_of(path, tokens)
    off = np.sqrt(np.square(found - ours).mean() / np.square(ours).mean())
    error = 3 * 2**0.5 * np.sqrt(np.square(found - ours).mean(-1))  # of a difference of two
    best, rival = ours.argmax(-1), found.argmax(-1)
    lost = np.take_along_axis(ours, best[:, None], -1) - np.take_along_axis(
        ours, rival[:, None], -1
    )
    new = slice(N_PROMPT - 1, -1)
    assert best[new].tolist() == completion.tokens
    is_same, is_near = (best == rival)[new], (lost[:, 0] < error)[new]
    return float(off), int(is_same.sum()), int((~is_same & is_near).sum()), int((~is_near).sum())


def main() -> None:
    """Print a line for each architecture and kind; exit with 1 where one is otherwise."""
    lib = library()
    print(f"llama-cpp-python {lib.__version__}; {lib.llama_print_system_info().decode().strip()}")
    print(f"{'':9}{'kind':6}{'logits apart':>13}{'same':>6}{'near':>6}{'other':>7}")
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, (architecture, more)) in enumerate(MODELS.items()):
            config = DecoderConfig(**{**SIZES, **more})
            model = drawn(config, number)
            model.tokenizer = tokenizer_of(config.vocabulary) if number % 2 else None
            prompt = np.random.default_rng(number).integers(3, 256, N_PROMPT).tolist()
            for kind, most in KINDS.items():
                path = Path(folder) / f"{name}-{kind}.gguf"
                save_gguf(model, path, kind=kind, architecture=architecture)
                off, same, near, others = compared(path, prompt)
                if kind == "f32" and config.activation == "gelu_tanh":
                    most = LOOKED_UP
                is_fine = off < most and not others and (same == N_NEW or kind[0] == "q")
                wrong += not is_fine
                print(
                    f"{name:9}{kind:6}{off:13.1e}{same:6}{near:6}{others:7}"
                    + ("" if is_fine else "  otherwise"),
                    flush=True,
                )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

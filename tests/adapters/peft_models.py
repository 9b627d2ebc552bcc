"""The same tiny Llama of transformers with an adapter of peft, and as a decoder with ours."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.models import Decoder, DecoderConfig, load_state_dict
from tests.models.theirs import made_of, torch_of

Array = np.ndarray[Any, Any]
LLAMA: dict[str, Any] = {
    **{"vocab_size": 37, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": False},
    **{"use_cache": False},
}
CONFIG = DecoderConfig(
    vocabulary=37, width=32, layers=2, heads=4, kv_heads=2, inner=48, context=128
)
_PARTS = {"embed_tokens": "embed", "lm_head": "head"}


def llama(seed: int = 0, **more: Any) -> Any:
    """Return the model of transformers, weights so large that all parts of it show."""
    return made_of("Llama", {**LLAMA, **more}, seed)


def decoder(theirs: Any) -> Decoder:
    """Return a decoder with the weights of a model of transformers."""
    return decoder_of({n: t.numpy() for n, t in theirs.state_dict().items()}, CONFIG)


def decoder_of(state: dict[str, Array], config: DecoderConfig) -> Decoder:
    """Return a decoder with weights by the names of transformers."""
    model = Decoder(config)
    load_state_dict(model, state, "llama")
    return model


def with_peft(theirs: Any, config: Any) -> Any:
    """Return the model with an adapter of peft in it, whose own warnings are not ours."""
    from peft import get_peft_model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return get_peft_model(theirs, config)


def place_of(module: str) -> str:
    """Return what we call a weight of a module.

    >>> place_of("base_model.model.model.layers.1.self_attn.q_proj")
    'layer1/q'
    """
    part = module.rpartition(".")[2]
    label = _PARTS.get(part, part.removesuffix("_proj"))
    layer = re.search(r"layers\.(\d+)", module)
    return f"layer{layer[1]}/{label}" if layer else label


def trained(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an adapter of peft trains, by our names: ``place/leaf``, or ``leaf`` alone."""
    for name, p in model.named_parameters():
        if p.requires_grad:
            yield _ours(name), p


def _ours(name: str) -> str:
    plain = name.removesuffix(".weight").replace(".default", "")
    leaf = "lora_B.bias" if plain.endswith("lora_B.bias") else plain.rpartition(".")[2]
    return f"{place_of(plain.removesuffix(f'.{leaf}'))}/{leaf}"


def values(model: Any) -> dict[str, Array]:
    """Return all numbers of an adapter by our names, what it shares and does not train, too."""
    found = {name: p.detach().numpy().copy() for name, p in trained(model)}
    for name, b in model.named_buffers():
        leaf = name.removesuffix(".default").rpartition(".")[2]
        if leaf in ("vera_A", "vera_B"):
            found[leaf] = b.numpy().copy()
    return found


def drawn(model: Any, seed: int = 1) -> dict[str, Array]:
    """Return numbers for all that an adapter trains, some way from where it begins."""
    torch = torch_of()
    torch.manual_seed(seed)
    return {n: (p.detach() + torch.randn(p.shape) * 0.2).numpy() for n, p in trained(model)}


def put(model: Any, given: dict[str, Array]) -> None:
    """Let an adapter of peft have these numbers."""
    torch = torch_of()
    with torch.no_grad():
        for name, p in trained(model):
            p.copy_(torch.from_numpy(given[name]))


def logits_there(model: Any, ids: Array) -> Array:
    """Return the logits of the real tokens of a model of peft."""
    torch = torch_of()
    with torch.no_grad():
        found: Array = model(input_ids=torch.tensor(ids)).logits.numpy()
    return found[:, -ids.shape[1] :]


def gradients_of(model: Any, ids: Array) -> tuple[float, dict[str, Array]]:
    """Return loss and gradients of an adapter of peft by our names."""
    torch = torch_of()
    model.zero_grad()
    loss = model(input_ids=torch.tensor(ids), labels=torch.tensor(ids)).loss
    loss.backward()
    return loss.item(), {name: p.grad.numpy().copy() for name, p in trained(model)}


def close(found: Array, wanted: Array, tolerance: float) -> None:
    """Assert that arrays differ by no more than a part of the largest number."""
    assert found.shape == wanted.shape
    worst = np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-6)
    assert worst <= tolerance, f"off by {worst:.2e} of the largest number"


def run(session: gw.Session, model: Decoder, ids: Array) -> Array:
    """Return logits."""
    found: Array = session.run(model.logits, {"ids": ids})
    return found

"""The keys that say what a tokenizer is, from one of the library tokenizers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import GraphError
from ..tokenizers import TextCodec, Tokenizer
from .splits import GPT2, name_of
from .tokenizers import BYTE, CONTROL, SPACE, UNKNOWN, USER, GgufTokenizer

NORMAL, UNUSED = 1, 5


def tokenizer_keys(tokenizer: TextCodec, vocabulary: int) -> dict[str, Any]:
    """Return the keys of a tokenizer, with unused tokens up to the size of a vocabulary.

    Raises GraphError for one that GGUF has no words for.
    """
    if isinstance(tokenizer, GgufTokenizer):
        return dict(tokenizer.keys)
    if not isinstance(tokenizer, Tokenizer):
        raise GraphError(
            f"GGUF has no words for a {type(tokenizer).__name__}",
            need="a gw.models.Tokenizer",
            hint="model.tokenizer = None writes the weights alone",
        )
    held = json.loads(tokenizer.inner.to_str())
    model = held["model"]
    if model.get("type") == "WordPiece":
        kind, found = "bert", {}
    elif model.get("type") == "BPE" and model.get("byte_fallback"):
        kind, found = "llama", _sentence_pieces(held)
    elif model.get("type") == "BPE" and _uses_bytes(held):
        kind, found = "gpt2", _byte_pairs(held)
    else:
        raise GraphError(
            f"GGUF has no words for this tokenizer of kind {model.get('type')}",
            need="byte BPE, BPE of SentencePiece with bytes, or WordPiece",
        )
    tokens, types = _tokens(held, vocabulary)
    if kind == "bert":
        tokens = [_word_piece(token, kind_) for token, kind_ in zip(tokens, types, strict=True)]
    return {
        "tokenizer.ggml.model": kind,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array(types, np.int32),
        **({"tokenizer.ggml.scores": _scores(held, tokens)} if kind == "llama" else {}),
        **found,
        **_surrounding(held, tokens, kind),
    }


def _tokens(held: Mapping[str, Any], vocabulary: int) -> tuple[list[str], list[int]]:
    """Return all tokens by their numbers, and their types."""
    model = held["model"]
    known = {i: token for token, i in model["vocab"].items()}
    added = {entry["id"]: entry for entry in held.get("added_tokens", [])}
    known |= {i: entry["content"] for i, entry in added.items()}
    if known and max(known) >= vocabulary:
        raise GraphError(
            f"the tokenizer has {max(known) + 1:,} tokens, the model {vocabulary:,}",
            need="a model at least as large",
        )
    tokens, types = [], []
    for i in range(vocabulary):
        token = known.get(i)
        tokens.append(f"[PAD{i}]" if token is None else token)
        types.append(_type(token, added.get(i), model))
    return tokens, types


def _type(token: str | None, added: Mapping[str, Any] | None, model: Mapping[str, Any]) -> int:
    if token is None:
        return UNUSED
    if token == model.get("unk_token"):
        return UNKNOWN
    if added is not None:
        return CONTROL if added.get("special") else USER
    is_byte = model.get("byte_fallback") and len(token) == 6 and token.startswith("<0x")
    return BYTE if is_byte else NORMAL


def _merges(held: Mapping[str, Any]) -> list[str]:
    merges = held["model"]["merges"]
    return [m if isinstance(m, str) else " ".join(m) for m in merges]


# -- byte pairs ------------------------------------------------------------------------------------


def _steps(part: Any) -> list[Mapping[str, Any]]:
    """Return the steps of a part of a tokenizer that may be a sequence of them."""
    if part is None:
        return []
    if part.get("type") == "Sequence":
        inner = part.get("pretokenizers") or part.get("normalizers") or part.get("decoders") or []
        return [step for each in inner for step in _steps(each)]
    return [part]


def _uses_bytes(held: Mapping[str, Any]) -> bool:
    return any(step["type"] == "ByteLevel" for step in _steps(held["pre_tokenizer"]))


def _byte_pairs(held: Mapping[str, Any]) -> dict[str, Any]:
    """Return the split rule and the merges."""
    patterns: list[str] = []
    prefix = False
    for step in _steps(held["pre_tokenizer"]):
        if step["type"] == "Split" and step["behavior"] == "Isolated" and not step["invert"]:
            patterns.append(step["pattern"].get("Regex") or step["pattern"].get("String", ""))
        elif step["type"] == "Digits" and step["individual_digits"]:
            patterns.append(r"\p{N}")
        elif step["type"] == "ByteLevel":
            prefix = prefix or step["add_prefix_space"]
            patterns += [GPT2] if step.get("use_regex", True) else []
        else:
            raise _unsaid("step of splitting", step["type"])
    name = name_of(tuple(patterns), bool(held["model"].get("ignore_merges")))
    if name is None:
        raise _unsaid("split rule", patterns)
    if held.get("normalizer") is not None and _steps(held["normalizer"])[0]["type"] != "NFC":
        raise _unsaid("normalizer", held["normalizer"]["type"])
    found = {"tokenizer.ggml.pre": name, "tokenizer.ggml.merges": _merges(held)}
    return found | ({"tokenizer.ggml.add_space_prefix": True} if prefix else {})


def _unsaid(what: str, value: Any) -> GraphError:
    return GraphError(
        f"GGUF has no words for the {what} {value!r:.200}",
        hint="model.tokenizer = None writes the weights alone",
    )


# -- pieces ----------------------------------------------------------------------------------------


def _sentence_pieces(held: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether a space is put before a text."""
    steps = [*_steps(held.get("normalizer")), *_steps(held.get("pre_tokenizer"))]
    prefix = False
    for step in steps:
        if step["type"] == "Prepend" and step["prepend"] == SPACE:
            prefix = True
        elif step["type"] == "Metaspace":
            prefix = step.get("prepend_scheme", "always") != "never"
        elif step["type"] not in ("Replace", "Split"):
            raise _unsaid("step of normalizing", step["type"])
    return {"tokenizer.ggml.pre": "default", "tokenizer.ggml.add_space_prefix": prefix}


def _scores(held: Mapping[str, Any], tokens: Sequence[str]) -> np.ndarray[Any, Any]:
    """Return −1, −2, … for what merges make, in their order, and less for what no merge makes."""
    order: dict[str, int] = {}
    for pair in _merges(held):
        order.setdefault(pair.replace(" ", "", 1), len(order) + 1)
    last = len(order) + 1
    return -np.array([order.get(token, last) for token in tokens], np.float32)


def _word_piece(token: str, kind: int) -> str:
    """Return a piece as files spell it: with a mark at the begin of a word, none within."""
    if kind in (CONTROL, UNKNOWN) or (token.startswith("[") and token.endswith("]")):
        return token
    return token[2:] if token.startswith("##") else SPACE + token


def _surrounding(held: Mapping[str, Any], tokens: Sequence[str], kind: str) -> dict[str, Any]:
    """Return which tokens a template puts around a text, and the unknown one."""
    found: dict[str, Any] = {}
    before, after = _template(held.get("post_processor"))
    first, last = ("cls", "seperator") if kind == "bert" else ("bos", "eos")
    for name, token, flag in ((first, before, "bos"), (last, after, "eos")):
        if token is not None:
            found[f"tokenizer.ggml.{name}_token_id"] = tokens.index(token)
        found[f"tokenizer.ggml.add_{flag}_token"] = token is not None
    unknown = held["model"].get("unk_token")
    if unknown is not None and unknown in tokens:
        found["tokenizer.ggml.unknown_token_id"] = tokens.index(unknown)
    return found


def _template(part: Mapping[str, Any] | None) -> tuple[str | None, str | None]:
    """Return the token before a text, and the one after it."""
    if part is None:
        return None, None
    if part["type"] == "Sequence":
        found = [_template(inner) for inner in part["processors"]]
        return next((t for t in found if t != (None, None)), (None, None))
    if part["type"] == "BertProcessing":
        return part["cls"][0], part["sep"][0]
    if part["type"] != "TemplateProcessing":
        return None, None
    before, after, seen = None, None, False
    for piece in part["single"]:
        if "Sequence" in piece:
            seen = True
        elif seen:
            after = piece["SpecialToken"]["id"]
        else:
            before = piece["SpecialToken"]["id"]
    return before, after

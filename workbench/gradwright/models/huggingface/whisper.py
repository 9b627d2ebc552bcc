"""Whisper as Hugging Face writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import ArchiveError, GraphError
from ...spec import TensorSpec
from ..whisper.config import WhisperConfig
from ..whisper.speech import SpeechTokens
from .family import NEEDED, Family
from .fields import whole
from .settings import read_settings, written_settings

WHISPER = Family(
    "whisper",
    "WhisperForConditionalGeneration",
    keys={
        "vocab_size": ("vocabulary", NEEDED),
        "d_model": ("width", NEEDED),
        "encoder_layers": ("encoder_layers", NEEDED),
        "decoder_layers": ("decoder_layers", NEEDED),
        "encoder_attention_heads": ("encoder_heads", NEEDED),
        "decoder_attention_heads": ("decoder_heads", NEEDED),
        "encoder_ffn_dim": ("encoder_inner", NEEDED),
        "decoder_ffn_dim": ("decoder_inner", NEEDED),
        "num_mel_bins": ("bands", 80),
        "max_source_positions": ("frames", 1500),
        "max_target_positions": ("context", 448),
        "activation_function": ("activation", "gelu"),
        "dropout": ("dropout", 0.0),
    },
    names={
        "conv1": "model.encoder.conv1",
        "conv2": "model.encoder.conv2",
        "encoder_positions": "model.encoder.embed_positions",
        "encoder_norm": "model.encoder.layer_norm",
        "embed": "model.decoder.embed_tokens",
        "positions": "model.decoder.embed_positions",
        "norm": "model.decoder.layer_norm",
        "head": "proj_out",
        **{
            f"{part}_layer/{ours}": f"model.{part}.layers.{{i}}.{theirs}"
            for part in ("encoder", "decoder")
            for ours, theirs in {
                "attention_norm": "self_attn_layer_norm",
                **{n: f"self_attn.{n}_proj" for n in "qkv"},
                "o": "self_attn.out_proj",
                "cross_norm": "encoder_attn_layer_norm",
                **{f"cross_{n}": f"encoder_attn.{n}_proj" for n in "qkv"},
                "cross_o": "encoder_attn.out_proj",
                "mlp_norm": "final_layer_norm",
                "up": "fc1",
                "down": "fc2",
            }.items()
        },
    },
    only={"scale_embedding": (None, False), "tie_word_embeddings": (None, True)},
)


def read_whisper(data: Mapping[str, Any], specs: Mapping[str, TensorSpec]) -> WhisperConfig:
    """Return the config of a Whisper."""
    return WhisperConfig(**read_settings(WHISPER, data, WhisperConfig))


def written_whisper(config: WhisperConfig) -> dict[str, Any]:
    """Return the ``config.json`` of a Whisper."""
    inner = {"encoder_ffn_dim": config.encoder_hidden, "decoder_ffn_dim": config.decoder_hidden}
    return written_settings(WHISPER, config) | inner | {"is_encoder_decoder": True}


def read_tokens(data: Mapping[str, Any], otherwise: Any = None) -> dict[str, Any]:
    """Return what tokens rows begin with, and which are not written, of a generation's config.

    A language and a task are told by their names, or by tokens that are forced; one that is null is
    that of a language to be found out. Where no languages are named, it is taken from
    ``otherwise``, what the model's own config forces, and without one the row begins before it.
    """
    untimed = data.get("no_timestamps_token_id")
    speech = SpeechTokens(
        {name.removeprefix("<|").removesuffix("|>"): i for name, i in _ids(data, "lang_to_id")},
        dict(_ids(data, "task_to_id")),
        None if untimed is None else whole(untimed, "no_timestamps_token_id"),
    )
    first = whole(data.get("decoder_start_token_id", 0), "decoder_start_token_id")
    found: dict[str, Any] = {"start": _start(data, otherwise, first, speech), "speech": speech}
    for ours, key in (("suppress", "suppress_tokens"), ("suppress_first", "begin_suppress_tokens")):
        tokens = data.get(key) or []
        if not isinstance(tokens, list):
            raise ArchiveError(f"{key} is {type(tokens).__name__}", need="a list of tokens")
        found[ours] = [whole(token, key) for token in tokens]
    return found


def _start(
    data: Mapping[str, Any], otherwise: Any, first: int, speech: SpeechTokens
) -> list[int | None]:
    """Return what rows begin with."""
    told = {key: data[key] for key in ("language", "task") if data.get(key) is not None}
    for key, name in told.items():
        if not isinstance(name, str):
            raise ArchiveError(f"{key} is {str(name)[:40]!r}", need="a name")
    if told:
        try:
            return speech.begin(first, **told)
        except GraphError as error:
            raise ArchiveError(f"generation_config.json has {error}") from error
    forced = _forced(data.get("forced_decoder_ids"))
    if speech.languages:
        language, *rest = forced or [None]
        return speech.closed([first, language, *(t for t in rest if t is not None)])
    if None in forced:
        forced = _forced(otherwise) or forced
    known = forced.index(None) if None in forced else len(forced)
    return speech.closed([first, *forced[:known]])


def _ids(data: Mapping[str, Any], key: str) -> list[tuple[str, int]]:
    """Return pairs of a name and a token."""
    pairs = data.get(key) or {}
    if not isinstance(pairs, dict):
        raise ArchiveError(f"{key} is {type(pairs).__name__}", need="names and their tokens")
    return [(name, whole(token, key)) for name, token in pairs.items()]


def _forced(pairs: Any) -> list[Any]:
    """Return the tokens of pairs of a place and a token."""
    pairs = pairs or []
    if not isinstance(pairs, list) or not all(isinstance(p, list) and len(p) == 2 for p in pairs):
        raise ArchiveError("forced_decoder_ids are none", need="pairs of a place and a token")
    return [None if t is None else whole(t, "forced_decoder_ids") for _, t in pairs]


def written_tokens(model: Any) -> dict[str, Any]:
    """Return the keys that tell the same."""
    first, *rest = model.start
    found: dict[str, Any] = {"decoder_start_token_id": first}
    if rest:
        found["forced_decoder_ids"] = [[i, token] for i, token in enumerate(rest, 1)]
    speech = model.speech
    if speech.languages:
        found["lang_to_id"] = {f"<|{name}|>": token for name, token in speech.languages.items()}
    if speech.tasks:
        found["task_to_id"] = dict(speech.tasks)
    if speech.untimed is not None:
        found["no_timestamps_token_id"] = speech.untimed
    if speech != SpeechTokens():
        found["is_multilingual"] = bool(speech.languages)
    if model.suppress:
        found["suppress_tokens"] = model.suppress
    return found | {"begin_suppress_tokens": model.suppress_first or None}

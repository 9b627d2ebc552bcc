"""A model from a GGUF file: its arrays stay in the file, packed ones packed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ArchiveError
from ...formats.gguf.kinds import Kind
from ...formats.gguf.mapped import Gguf, Tensor
from ...formats.source import naming
from ...spec import is_floating
from ..decoder import Decoder
from ..decoder.packing import is_packable
from ..encoders.bert import Bert, BertConfig
from .architectures import FACTORS, FOLDED, Config, config_of, factors_of, known
from .names import Place, places
from .tokenizers import GgufTokenizer, ends, tokenizer_problem

Array = np.ndarray[Any, Any]
PACKED = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "mxfp4")
"""Kinds that products read as they lie; the others become float32 when a file is opened."""


def from_gguf(path: str | os.PathLike[str]) -> Any:
    """Return the model in a GGUF file, or in all files that it is split into.

    It is a `Decoder`, or a `Bert` of the architecture ``bert``, without a head or with classes.
    Its weights are views of the mapped file, and are not copied: blocks stay packed, and are not
    trained. What lies in half precision or in blocks that no product reads (``iq2_xs`` and such)
    becomes float32. Where its tokenizer is of a kind, or is split by a rule, that is not known
    here, the model has none, and ``gw.inspect(path)`` says why.

    Raises:
        ArchiveError: the file is damaged, of an architecture that is not known, or its tensors are
            not those that its keys tell of.
        GraphError: its sizes do not go together.

    >>> import pathlib, tempfile
    >>> from gradwright.models import Decoder, DecoderConfig, from_gguf, save_gguf
    >>> model = Decoder(DecoderConfig(vocabulary=32, width=32, layers=1, heads=2, inner=64))
    >>> path = pathlib.Path(tempfile.mkdtemp(), "small.gguf")
    >>> save_gguf(model, path, kind="q8_0")
    >>> again = from_gguf(path)
    >>> again.packed["layer0/q"], len(again.generate([[1, 2]], 3)[0].tokens)
    ('q8_0', 3)
    """
    held = Gguf(path)
    with naming(str(os.fspath(path))):
        return _model_of(held, Path(path))


def _model_of(held: Gguf, path: Path) -> Decoder | Bert:
    factors = factors_of(held.shapes, lambda name: held[name].floats())
    kinds = {name: info.kind for name, info in held.infos.items()}
    config, wanted, packed = laid_out(held.facts, held.shapes, kinds, factors)
    values: dict[str, Array] = {}
    for place in wanted:
        tensor = held[place.tensor]
        data = tensor.data if place.name in packed else _floats(place, tensor)
        values[place.name] = data if place.start is None else data[place.rows]
    for name, shape in config.weights():
        if name not in values:
            values[name] = np.zeros(shape, np.float32)
    if held.facts["general.architecture"] in FOLDED:
        for name in values:
            if name.endswith("norm"):
                values[name] = values[name] - np.float32(1)
    tokenizer = None if tokenizer_problem(held.facts) else GgufTokenizer(held.facts)
    if tokenizer is not None and len(tokenizer) > config.vocabulary:
        raise ArchiveError(f"{len(tokenizer):,} tokens, {config.vocabulary:,} rows of token_embd")
    more: dict[str, Any] = {"tokenizer": tokenizer, "source": path}
    if not isinstance(config, BertConfig):
        more["eos"] = ends(held.facts, config.vocabulary)
    return built(config, graph_name(held.facts), values, packed, **more)


def built(
    config: Config, name: str, values: Mapping[str, Array], packed: Mapping[str, str], **more: Any
) -> Decoder | Bert:
    """Return the model that a config is of."""
    model = Bert if isinstance(config, BertConfig) else Decoder
    return model(config, name=name, values=values, packed=packed, **more)  # type: ignore[arg-type]


def laid_out(
    facts: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    kinds: Mapping[str, Kind],
    factors: Mapping[str, Array],
) -> tuple[Config, list[Place], dict[str, str]]:
    """Return what model a header tells of, where its weights lie, and which stay packed."""
    if facts.get("general.type", "model") != "model":
        raise ArchiveError(
            f"it is of the type {facts['general.type']!r:.40}, no model",
            hint="gw.adapters.load(model, path) reads an adapter",
        )
    config = config_of(facts, shapes, factors)
    name = facts["general.architecture"]
    absent = known(name).absent
    wanted = [p for p in places(config, name) if p.tensor in shapes or p.name not in absent]
    check(wanted, shapes)
    packed = {
        place.name: kinds[place.tensor].name
        for place in wanted
        if kinds[place.tensor].name in PACKED and is_packable(place.name, place.shape)
    }
    return config, wanted, packed


def _floats(place: Place, tensor: Tensor) -> Array:
    if not tensor.is_packed and not is_floating(tensor.data.dtype):
        raise ArchiveError(f"the tensor {place.tensor!r} holds {tensor.kind}", need="floats")
    return tensor.floats()


def check(wanted: list[Place], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ArchiveError unless the tensors are those of the places, each of the right shape."""
    rows: dict[str, int] = {}
    for place in wanted:
        rows[place.tensor] = rows.get(place.tensor, 0) + place.shape[0]
    for place in wanted:
        shape = (rows[place.tensor], *place.shape[1:])
        if place.tensor not in shapes:
            raise ArchiveError(f"the tensor {place.tensor!r} is missing", need=f"{shape}")
        if shapes[place.tensor] != shape:
            raise ArchiveError(
                f"the tensor {place.tensor!r} has the shape {shapes[place.tensor]}", need=f"{shape}"
            )
    if left := sorted(shapes.keys() - rows.keys() - set(FACTORS)):
        raise ArchiveError(
            f"the tensor {left[0][:60]!r} has no place in this architecture",
            facts=[f"and {len(left) - 1:,} more"] if len(left) > 1 else [],
        )


def graph_name(facts: Mapping[str, Any]) -> str:
    """Return what the graph of a file is called."""
    name = facts.get("general.name")
    words = "".join(c if c.isalnum() else "_" for c in name) if isinstance(name, str) else ""
    return words.strip("_")[:60] or "decoder"

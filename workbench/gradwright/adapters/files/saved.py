"""An adapter as a file has it: its settings in the words of peft, and arrays by module and leaf."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ArchiveError, GradwrightError
from ...words.tables import size
from ..adapter import Adapter
from ..methods import METHODS
from . import keys
from .networks import ROW, fields_of
from .options import BIASES, Options, options_of, unread
from .values import check

Array = np.ndarray[Any, Any]
Leaves = Mapping[str, Array]
"""Leaf -> array."""


@dataclass(frozen=True, repr=False)
class SavedAdapter:
    """An adapter of a file or folder, for which no model is needed yet.

    ``settings`` are those of ``adapter_config.json``, all of them, as they stand there; of a GGUF
    file, what they would be. ``arrays`` are mapped from the file: leaves by the path of a module,
    such as ``arrays["model.layers.0.self_attn.q_proj"]["lora_A"]``; what all modules share is under
    ``""``. ``names`` tells whose names the paths are: ``"huggingface"``, ``"adapters"``, of the
    library of bottlenecks, or ``"gguf"``, of the ``architecture`` that such a file states.

    >>> import gradwright as gw
    >>> import numpy as np, pathlib, tempfile
    >>> model = gw.models.Decoder(gw.models.DecoderConfig(vocabulary=9, width=8, layers=1, heads=2))
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> gw.adapters.save(gw.adapters.add(model, gw.adapters.LoRA(r=2), where="q|v"), folder)
    >>> gw.open(folder)
    <LoRA of rank 2 in 2 modules, 256 B: q_proj, v_proj>
    """

    path: Path
    settings: Mapping[str, Any]
    arrays: Mapping[str, Leaves]
    names: str = "huggingface"
    architecture: str = ""

    @property
    def options(self) -> Options:
        """How the method is spelled; raises ArchiveError for one that is not here."""
        if self.names == "adapters":
            return ROW
        row = options_of(self.settings)
        if row is None:
            kind = str(self.settings.get("peft_type"))[:40]
            raise ArchiveError(
                f"adapters of the kind {kind!r} are not here",
                where=str(self.path),
                need=", ".join(sorted(METHODS)),
            )
        return row

    @property
    def told(self) -> Mapping[str, Any]:
        """The options of the method."""
        found: Mapping[str, Any] = self.settings
        return found["config"] if self.names == "adapters" else found

    @property
    def method(self) -> Adapter:
        """The method, without patterns of ranks, for these need a model's names.

        Raises ArchiveError for options that are not computed here, each by its name.
        """
        return self.method_with()

    def method_with(self, *, strict: bool = True, **more: Any) -> Adapter:
        """Return the method with further fields; without ``strict``, whatever is not read here."""
        row, settings = self.options, self.told
        check(settings, str(self.path))
        if strict and (other := unread(row, settings)):
            raise ArchiveError(
                "it has options that are not computed here",
                where=str(self.path),
                facts=[f"{key}: {str(value)[:60]}" for key, value in sorted(other.items())],
                hint="strict=False, if they make no difference to what is computed",
            )
        if row is ROW:
            return made(row.method, {**fields_of(settings), **more}, str(self.path))
        told = {ours: settings[key] for key, ours in row.fields.items() if key in settings}
        if "bias" in told:
            told["bias"] = BIASES.get(told["bias"], told["bias"])
        told = _as_trained(row.method, told)
        return made(row.read_as or row.method, {**told, **more}, str(self.path))

    @property
    def base(self) -> str:
        """What the model is called that the adapter is for; empty if the file does not say."""
        told = self.settings.get("base_model_name_or_path") or self.settings.get("model_name")
        return str(told or "")[:200]

    @property
    def modules(self) -> tuple[str, ...]:
        """The last parts of the paths of modules that are adapted, each once."""
        own = (p for p, leaves in self.arrays.items() if p and leaves.keys() - {*keys.TRAINED})
        return tuple(sorted({re.split(r"[./]", path)[-1] for path in own}))

    @property
    def n_modules(self) -> int:
        """How many modules have arrays."""
        return sum(bool(path) for path in self.arrays)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for _, _, array in self)

    def __iter__(self) -> Iterator[tuple[str, str, Array]]:
        """Yield path, leaf and array of all."""
        for path, leaves in self.arrays.items():
            for leaf, array in leaves.items():
                yield path, leaf, array

    def __repr__(self) -> str:
        row = ROW if self.names == "adapters" else options_of(self.settings)
        kind = row.method if row else str(self.settings.get("peft_type"))[:40]
        rank = self.settings.get("init_r", self.settings.get("r"))
        of = f" of rank {rank}" if type(rank) is int else ""
        modules = f" in {self.n_modules} modules" if self.n_modules else ""
        where = f": {', '.join(self.modules)[:80]}" if self.modules else ""
        return f"<{kind}{of}{modules}, {size(self.nbytes)}{where}>"


def _as_trained(method: str, told: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields in which a method that a file holds differs from the one that was trained.

    Of a prefix and of a prompt that a network makes, files hold what it has made.
    """
    if method == "Prefix":
        return {**told, "projection": False, "hidden": None, "init": told.get("init") or True}
    return {"tokens": told["tokens"]} if method == "PTuning" and "tokens" in told else {**told}


def made(method: str, fields: Mapping[str, Any], where: str) -> Adapter:
    """Return a method of a name; raises ArchiveError for fields that are none."""
    if method not in METHODS:
        raise ArchiveError(f"{method} is not here", where=where, need=", ".join(sorted(METHODS)))
    try:
        return METHODS[method](**fields)
    except (GradwrightError, TypeError, ValueError, ArithmeticError) as error:
        raise ArchiveError(f"its settings are of no {method}: {error}", where=where) from error

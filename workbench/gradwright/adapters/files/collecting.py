"""An adapter of a graph as files have it: leaves by module, and settings in the words of peft."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import GraphError
from ...models.decoder import Decoder
from ..adapted import Adapted
from ..adapter import computed
from ..initial.chosen import EVA, LoftQ
from ..methods.adalora import AdaLoRA
from ..methods.ia3 import IA3
from ..methods.lora import LoRA
from ..methods.norm_tuning import NormTuning
from ..methods.prefix import Prefix
from ..methods.prompt import Prompt
from ..site import Site
from ..targeting import of_pattern
from . import keys
from .modules import Part, Parts, parts, turned_keys
from .options import BIASES, EXCEPT, LAYERS, TABLE, WHOSE, Options, options_of
from .placing import token_rows
from .targets import means, naming, of_modules, targeted

Array = np.ndarray[Any, Any]
Leaves = dict[str, Array]
_BEGINNING = ("init", "projection", "hidden")
"""Fields of how what a file holds was made; it says so, and what is loaded is as it is."""
LOFTQ_BITS = {"nf4": 4, "int8": 8}
EVA_OPTIONS = "rho", "tau", "use_label_mask", "label_mask_value", "whiten", "adjust_scaling_factors"
Scale = tuple[int, float]
"""Rank and alpha of a module."""


class Collected:
    """What a file of an adapter holds: ``arrays`` by module and leaf, ranks and alphas by module.

    Raises GraphError for an adapter whose weights no file of the kind has a place for.
    """

    def __init__(
        self, adapted: Adapted, model: Any, names: str, family: str, origin: Mapping[str, Any]
    ) -> None:
        self.adapted = adapted
        self.found: Parts = parts(model, names, family)
        self.at = {part.weight: part for held in self.found.values() for part in held}
        """By the name of a weight, what it is of a module."""
        self.arrays: dict[str, Leaves] = {}
        self.scales: dict[str, Scale] = {}
        self.masks: dict[str, list[bool]] = {}
        """Which ranks of modules are on, of a method that drops some."""
        self.saved_modules: dict[str, None] = {}
        """Modules of the model itself that were trained, but for biases."""
        self._values = adapted.graph.values
        self._kept = {t.name for t in adapted.thawed}
        state = adapted.state()
        modules: dict[str, dict[str, Leaves]] = {}
        if isinstance(adapted.adapter, Prefix | Prompt):
            self.arrays[""] = {keys.PROMPT: _vectors(adapted, model)}
            return
        for name, leaves in adapted.variables.items():
            held = {n: self._values[t.name] for n, t in leaves.items() if f"{name}/{n}" in state}
            if not held:
                continue
            part = self.at.get(name)
            if part is None or part.expert is not None:
                raise GraphError(
                    f"the adapter stands at {name!r}, for which files have no module",
                    need=", ".join(list(self.at)[:8]),
                )
            modules.setdefault(part.path, {})[name] = held
        for path, members in modules.items():
            self._add(path, [p for p in self.found[path] if p.own == "weight"], members)
        if isinstance(adapted.adapter, AdaLoRA):
            self._cut(adapted.adapter)
        if adapted.shared and getattr(adapted.adapter, "save_projection", True):
            held = {n: self._values[t.name] for n, t in adapted.shared.items() if n in state}
            self.arrays |= {"": held} if held else {}
        for tensor in adapted.thawed:
            self._thawed(tensor.name)
        if origin.get("trainable_token_indices"):
            self._tokens(origin)

    def _add(self, path: str, held: Sequence[Part], members: Mapping[str, Leaves]) -> None:
        """Add the leaves of a module, of which several weights may be rows."""
        (first, *more) = held
        if not more:
            leaves = members[first.weight]
            self.arrays[path] = {n: first.written(n, a) for n, a in leaves.items()}
            self._scale(path, first.weight)
            return
        own = [
            {n: p.written(n, a) for n, a in members[p.weight].items()}
            if p.weight in members
            else {}
            for p in held
        ]
        joined = _joined(held, own)
        scales = {self._scale_of(p.weight) for p in held if p.weight in members}
        if joined is not None and len(scales) == 1:
            self.arrays[path] = joined
            self._scale(path, first.weight)
        elif type(self.adapted.adapter) is LoRA:  # and none of those that scale otherwise
            self._stack(path, held, own)
        else:
            names = ", ".join(repr(part.weight) for part in held)
            raise GraphError(
                f"{names} are one module in such files, {path!r}, and their adapters differ",
                hint="to_lora makes a LoRA of it, which can be stacked",
            )

    def _stack(self, path: str, held: Sequence[Part], own: Sequence[Leaves]) -> None:
        """Make one LoRA of those of several rows: ranks one behind the other, zeros between."""
        scale = next(
            self._scale_of(p.weight) for p, leaves in zip(held, own, strict=True) if leaves
        )
        ranks = [len(leaves["lora_A"]) if leaves else 0 for leaves in own]
        total, at = sum(ranks), 0
        a = np.concatenate([leaves["lora_A"] for leaves in own if leaves])
        b, bias = np.zeros((held[0].whole, total), a.dtype), np.zeros(held[0].whole, a.dtype)
        for part, leaves, r in zip(held, own, ranks, strict=True):
            if leaves:
                ratio = a.dtype.type(self._scale_of(part.weight) / scale)
                b[part.start : part.stop, at : at + r] = leaves["lora_B"] * ratio
                bias[part.start : part.stop] = leaves.get("lora_B.bias", a.dtype.type(0)) * ratio
            at += r
        adapter = self.adapted.adapter
        assert isinstance(adapter, LoRA)
        self.arrays[path] = {"lora_A": a, "lora_B": b}
        if adapter.lora_bias:
            self.arrays[path]["lora_B.bias"] = bias
        self.scales[path] = total, scale * (math.sqrt(total) if adapter.rslora else total)

    def _scale(self, path: str, weight: str) -> None:
        """Take note of the rank and alpha of a module."""
        adapter: Any = self.adapted.adapter
        if hasattr(adapter, "alpha_pattern"):
            r = of_pattern(adapter.rank_pattern, weight, adapter.r)
            self.scales[path] = r, of_pattern(adapter.alpha_pattern, weight, adapter.alpha)

    def _scale_of(self, weight: str) -> float:
        place = next(place for place in self.adapted.places if place.name == weight)
        scale = getattr(self.adapted.adapter, "scale", None)
        return 1.0 if scale is None else float(scale(place))

    def _thawed(self, name: str) -> None:
        """Add a variable of the model that was trained, and what else is of its module."""
        part = self.at.get(name)
        if part is None or part.expert is not None:
            raise GraphError(f"{name!r} was trained, too, and files have no module for it")
        held = [p for p in self.found[part.path] if p.own == part.own]
        if isinstance(self.adapted.adapter, NormTuning):
            leaf = next(leaf for leaf, own in keys.NORMS.items() if own == part.own)
            self.arrays.setdefault(part.path, {})[leaf] = self._values[name]
            return
        if part.own != "bias":
            self.saved_modules[part.path] = None
            held = list(self.found[part.path])
        for own in dict.fromkeys(p.own for p in held):
            same = [p for p in held if p.own == own]
            rows = [p.written(own, self._values[p.weight]) for p in same]
            whole = rows[0] if len(rows) == 1 else np.concatenate(rows, axis=int(same[0].turned))
            self.arrays.setdefault(part.path, {})[own] = whole

    def _cut(self, adapter: AdaLoRA) -> None:
        """Leave out ranks that are off, and take note of which are on."""
        for name, kept in adapter.kept(self.adapted).items():
            path, off = self.at[name].path, adapter.init_r - len(kept)
            if off or not kept.all():
                self.masks[path] = [*map(bool, kept), *[False] * off]
                for leaf, array in self.arrays[path].items():
                    self.arrays[path][leaf] = array.compress(kept, axis=int(leaf == "lora_B"))

    def _tokens(self, origin: Mapping[str, Any]) -> None:
        """Add the rows of embeddings that the file had from which the adapter came."""
        for path, held in self.found.items():
            if held[0].weight in self.adapted.replaced and held[0].weight not in self._kept:
                rows = token_rows(origin, path)
                self.arrays.setdefault(path, {})[keys.TOKENS] = self._values[held[0].weight][rows]


def _vectors(adapted: Adapted, model: Any) -> Array:
    """Return what stands before the text, as it is or as a network makes it."""
    adapter, values = adapted.adapter, adapted.graph.values
    if isinstance(adapter, Prefix):
        shared = {leaf: values[t.name] for leaf, t in adapted.shared.items()}
        flat = computed(lambda _, p: adapter.flat(p), np.zeros(1, np.float32), shared)
        return turned_keys(model, flat, to_file=True)
    assert isinstance(adapter, Prompt)
    site = next(place for place in adapted.places if isinstance(place, Site))
    own = {leaf: values[t.name] for leaf, t in adapted.variables[site.name].items()}
    return computed(lambda _, p: adapter.vectors(site, p), np.zeros(1, np.float32), own)


def _joined(held: Sequence[Part], own: Sequence[Leaves]) -> Leaves | None:
    """Return leaves of a module whose rows have the same ones in common; None where they do not."""
    if not all(own) or any(leaves.keys() != own[0].keys() for leaves in own):
        return None
    found = {}
    for leaf, first in own[0].items():
        arrays = [leaves[leaf] for leaves in own]
        if held[0].is_common(leaf, first):
            if not all(np.array_equal(first, array) for array in arrays):
                return None
            found[leaf] = first
        elif len({array.shape[1:] for array in arrays}) == 1:
            found[leaf] = np.concatenate(arrays)
        else:
            return None
    return found


def settings_for(collected: Collected, model: Any, origin: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a file; what ``origin`` says and nothing here does is kept.

    Raises GraphError for a method that peft has not.
    """
    adapter: Any = collected.adapted.adapter
    row = _row(type(adapter).__name__, origin)
    settings: dict[str, Any] = {**WHOSE, **row.kept, **row.only, **row.told}
    settings |= {"peft_type": row.peft_type, **origin}
    for key, ours in row.fields.items():
        if ours == "feedforward" or (ours in _BEGINNING and key in origin):
            continue
        if hasattr(adapter, ours):
            settings |= _word(row, key, ours, getattr(adapter, ours))
    if "bias" in row.fields:
        words = {ours: theirs for theirs, ours in BIASES.items()}
        settings["bias"] = words[adapter.bias]
    paths = [path for path, leaves in collected.arrays.items() if path and _own(leaves)]
    if "target_modules" in row.kept and {*paths} != {*targeted(origin, collected.found)}:
        settings |= {key: None for key in row.kept if key in {**EXCEPT, **LAYERS}}
        settings["target_modules"] = naming(paths, collected.found)
    if isinstance(adapter, AdaLoRA):
        masks = {f"{path}.lora_E": kept for path, kept in collected.masks.items()}
        settings["rank_pattern"] = masks or None
    elif "rank_pattern" in row.kept and collected.scales:
        settings |= _patterns(collected.scales, settings)
    if isinstance(adapter, IA3):
        settings |= _feedforward(collected, paths, origin)
    if collected.saved_modules:
        settings["modules_to_save"] = naming([*collected.saved_modules], collected.found)
    if "token_dim" in row.kept and isinstance(model, Decoder):
        settings |= _sizes(model, row, settings)
    if not origin and "fan_in_fan_out" in row.kept:  # as Conv1D of GPT-2 has its weights
        turned = [part.turned for path in paths for part in collected.found[path]]
        settings["fan_in_fan_out"] = bool(turned) and all(turned)
    if not origin and isinstance(model, Decoder):
        settings["task_type"] = "CAUSAL_LM"
    settings["inference_mode"] = True
    return settings


def _feedforward(
    collected: Collected, paths: Sequence[str], origin: Mapping[str, Any]
) -> dict[str, Any]:
    """Return which modules have their input rescaled, as the file said if that is the same."""
    adapted, told = collected.adapted, origin.get("feedforward_modules") or []
    method: Any = adapted.adapter
    ahead = {collected.at[p.name].path for p in adapted.places if method.is_feedforward(p)}
    if origin and ahead == {path for path in paths if means(told, path)}:
        return {}
    return {"feedforward_modules": naming(ahead, paths)}


def row_for(method: str) -> Options:
    """Return how a method is spelled; raises GraphError for one that peft has not."""
    row = next((row for row in TABLE if row.method == method), None)
    if row is None:
        raise GraphError(
            f"peft has no {method}, so no folder of it can be one",
            need=", ".join(row.method for row in TABLE),
            hint="gw.adapters.to_lora makes a LoRA of what has a delta; Checkpoints keep any",
        )
    return row


def _own(leaves: Mapping[str, Array]) -> bool:
    return bool(leaves.keys() - {*keys.TRAINED, keys.TOKENS})


def _row(method: str, origin: Mapping[str, Any]) -> Options:
    """Return how a method is spelled: as the file had it from which it came, if that is the same.

    Of a prompt that a network has made there is the prompt here.
    """
    row = options_of(origin) if origin else None
    return row if row and (row.read_as or row.method) == method else row_for(method)


def _word(row: Options, key: str, ours: str, value: Any) -> dict[str, Any]:
    """Return options of peft that say what a field says."""
    if ours == "alpha":
        value = _whole(value)
    elif ours == "encoder":
        value = value.upper()
    elif isinstance(value, LoftQ):
        if value.kind not in LOFTQ_BITS:
            raise GraphError(
                f"peft has no LoftQ of {value.kind}",
                need=", ".join(LOFTQ_BITS),
                hint="Checkpoints, or gw.save(model.graph, path), keep any",
            )
        told = {"loftq_bits": LOFTQ_BITS[value.kind], "loftq_iter": value.iterations}
        return {key: "loftq", "loftq_config": told}
    elif value == "loftq":
        return {key: value, "loftq_config": {"loftq_bits": 4, "loftq_iter": 1}}
    elif isinstance(value, EVA):
        return {key: "eva", "eva_config": {name: getattr(value, name) for name in EVA_OPTIONS}}
    elif row.method == "Prefix" and value is True and ours == "init":
        value = None
    return {key: value}


def _whole(value: float) -> float:
    """Return a number without a point, if it is a whole one."""
    return int(value) if float(value).is_integer() else value


def _patterns(scales: Mapping[str, Scale], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return patterns for modules whose rank or alpha is another; such as say so already stay."""
    found: dict[str, Any] = {}
    plain = settings["r"], settings.get("lora_alpha", settings.get("alpha"))
    for i, key in enumerate(("rank_pattern", "alpha_pattern")):
        told = settings.get(key) or {}
        if all(of_modules(told, path, plain[i]) == scale[i] for path, scale in scales.items()):
            continue
        found[key] = {
            path if re.fullmatch(r"[\w./-]+", path) else re.escape(path): _whole(scale[i])
            for path, scale in scales.items()
            if scale[i] != plain[i]
        }
    return found


def _sizes(model: Decoder, row: Options, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sizes of a decoder that vectors stand before, and of what makes them."""
    config, is_prefix = model.config, row.peft_type == "PREFIX_TUNING"
    heads = config.shared if is_prefix else config.heads
    width = config.shared * config.features if is_prefix else config.width
    found = {"token_dim": width, "num_layers": config.layers, "num_attention_heads": heads}
    if settings.get("encoder_hidden_size", 0) is None:
        found["encoder_hidden_size"] = width
    return found

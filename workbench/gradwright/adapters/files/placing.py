"""Which array of a file goes to which place of a model: all of them, or a list of differences.

Nothing is changed here: the graph is looked at alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import ArchiveError
from ...formats.report import some
from ...graph import Graph
from ..adapter import Adapter
from ..chain import adapters_of
from ..initial.chosen import LoftQ
from ..site import Place, Site, sites
from ..targeting import layer
from . import keys
from .bottleneck import branches_of
from .modules import Part, Parts, parts_of, turned_keys, whole_path
from .options import CONFIG
from .saved import SavedAdapter
from .targets import means, of_modules, targeted
from .values import check

Array = np.ndarray[Any, Any]
UP = "adapter_up.weight"
MOST = 6
"""How many names of a kind an error lists."""
REBUILT = ("pissa", "olora", "loftq")
"""First values that change the weight, too, and can be found again from it."""
LOST = ("corda", "lora_ga")
"""First values that change the weight by data which are in no file."""


@dataclass(frozen=True)
class Placed:
    """An adapter of a file at the places of a model.

    ``state`` has arrays by ``{place}/{leaf}``, ``trained`` what variables of the model itself were
    trained to, such as biases, and ``tokens`` embeddings some of whose rows were.
    """

    method: Adapter
    places: Sequence[Place]
    state: Mapping[str, Array]
    trained: Mapping[str, Array]
    tokens: Mapping[str, Array]


def placed(model: Any, saved: SavedAdapter, *, family: str = "", strict: bool = True) -> Placed:
    """Return where each array of a file belongs in a model, or in a graph.

    Raises ArchiveError with the list of what differs: arrays that are missing, that no place has,
    and that have other shapes. Without ``strict``, shapes alone count.
    """
    graph: Graph = getattr(model, "graph", model)
    check(saved.told, str(saved.path))
    if saved.names == "adapters":
        return _branches(model, graph, saved, family, strict)
    paths = [path for path in saved.arrays if path]
    found = parts_of(model, saved.names, family or saved.architecture, paths)
    saved = _uncut(saved)
    at, foreign = _at(saved, found)
    state: dict[str, Array] = {}
    trained: dict[str, Array] = {}
    tokens: dict[str, Array] = {}
    fields = _Fields(saved)
    for path, held in at.items():
        for leaf, array in saved.arrays[path].items():
            if leaf == keys.TOKENS:
                tokens |= _tokens(saved, graph, path, array, held)
                continue
            own = keys.NORMS.get(leaf, leaf)
            if own in keys.TRAINED:
                trained |= _trained(saved, graph, path, leaf, own, array, held)
                continue
            for part in held:
                if part.own == "weight":
                    state[f"{part.weight}/{leaf}"] = part.read(leaf, array)
                    fields.see(path, part.weight, leaf)
    method = saved.method_with(strict=strict, **fields.found)
    names = {name.rpartition("/")[0] for name in state}
    if saved.options.method == "NormTuning":
        names |= trained.keys()
    if saved.options.method == "VeRA" and not saved.arrays.get(""):
        raise ArchiveError(
            "its projections are not in the file: they are random numbers of torch",
            where=str(saved.path),
            need="save_projection=True, with which peft writes them",
        )
    if not names and any(saved.arrays):
        differences(saved, {"unexpected": foreign, "other shapes": []})
    every = _sites(graph)
    places = method.places(every, (lambda place: place.name in names) if names else None)
    for leaf, array in saved.arrays.get("", {}).items():
        state |= _shared(method, leaf, array, places, model)
    whole = {whole_path(path, found) for path in at}
    lacking = [path for path in targeted(saved.settings, found) if path not in whole]
    known = _checked(saved, _wanted(method, places), state, lacking, foreign, strict)
    return Placed(method, places, known, trained, tokens)


def _branches(model: Any, graph: Graph, saved: SavedAdapter, family: str, strict: bool) -> Placed:
    """Return where the networks of a folder belong: in residual branches."""
    at = dict(branches_of(model, family))
    method, told = saved.method_with(strict=strict), saved.told.get("leave_out") or []
    out = told if isinstance(told, list) else [told]
    every = _sites(graph)
    places = [p for p in method.places(every, None) if layer(p.name) not in out]
    state = {f"{at.get(path, path)}/{leaf}": array for path, leaf, array in saved}
    known = _checked(saved, _wanted(method, places), state, [], [], strict)
    held = [place for place in places if f"{place.name}/{UP}" in known]
    return Placed(method, held, known, {}, {})


def _checked(
    saved: SavedAdapter,
    wanted: Mapping[str, tuple[int, ...]],
    state: Mapping[str, Array],
    lacking: Sequence[str],
    foreign: Sequence[str],
    strict: bool,
) -> dict[str, Array]:
    """Return arrays that are wanted; raises ArchiveError with what differs."""
    shapes = [
        f"{name} {list(array.shape)}, and not {list(wanted[name])}"
        for name, array in state.items()
        if name in wanted and array.shape != wanted[name]
    ]
    lists = {"other shapes": shapes}
    if strict:
        missing = [*(name for name in wanted if name not in state), *lacking]
        others = [*foreign, *(name for name in state if name not in wanted)]
        lists = {"missing": missing, "unexpected": others, **lists}
    differences(saved, lists)
    return {name: array for name, array in state.items() if name in wanted}


def _sites(graph: Graph) -> list[Site]:
    """Return the sites of a graph, beside those of adapters that are there."""
    known = adapters_of(graph)
    return sites(graph, but=known.variables(), outer=known.outer, apart=known.references)


def _wanted(method: Adapter, places: Sequence[Place]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of what a method has at places, but for what only serves training."""
    own = {
        f"{place.name}/{name}": leaf
        for place in places
        for name, leaf in method.variables(place).items()
    }
    every = {**own, **method.shared(places)}
    return {name: leaf.shape for name, leaf in every.items() if not leaf.is_state}


def differences(saved: SavedAdapter, lists: Mapping[str, Sequence[str]]) -> None:
    """Raise ArchiveError for lists of what differs, if there is anything in them."""
    if not any(lists.values()):
        return
    raise ArchiveError(
        "the adapter does not fit the model, and nothing of it was taken over",
        where=str(saved.path),
        facts=[
            f"{what}: {some((name[:120] for name in names), MOST)}"
            for what, names in lists.items()
            if names
        ],
        need=f"the model it is for: {saved.base}" if saved.base else "the model it is for",
        hint="strict=False takes what fits" if not lists["other shapes"] else "",
    )


def _at(saved: SavedAdapter, found: Parts) -> tuple[dict[str, tuple[Part, ...]], list[str]]:
    """Return the weights of each module of a file, and leaves of modules that are not there."""
    at, foreign = {}, []
    for path, leaves in saved.arrays.items():
        if not path:
            continue
        held = found.get(whole_path(path, found))
        if held is None:
            foreign += [f"{path}.{leaf}" for leaf in leaves]
        elif any(part.expert is not None for part in held) and leaves.keys() - {*keys.TRAINED}:
            raise ArchiveError(
                f"{path[:80]} is one of several experts, which lie in one weight here",
                where=str(saved.path),
                need="an adapter of attention, or of layers without experts",
            )
        else:
            at[path] = held
    return at, foreign


class _Fields:
    """Fields of a method that depend on the model: ranks and scales by names of places."""

    def __init__(self, saved: SavedAdapter) -> None:
        self._settings, self._row = saved.settings, saved.options
        self._patterns: dict[str, dict[str, Any]] = {"rank_pattern": {}, "alpha_pattern": {}}
        self._feedforward: dict[str, None] = {}

    def see(self, path: str, name: str, leaf: str) -> None:
        """Take note of a leaf of a module that belongs to a weight."""
        if self._row.method == "AdaLoRA":
            left = masked(self._settings, path)
            if left is not None:
                self._patterns["rank_pattern"][re.escape(name)] = max(1, left)
            return
        for key, found in self._patterns.items():
            held = self._settings.get(key) or {}
            value = of_modules(held, path)
            if type(value) in (int, float):
                found[re.escape(name)] = value
        if leaf == "ia3_l" and means(self._settings.get("feedforward_modules") or [], path):
            self._feedforward[name] = None

    @property
    def found(self) -> dict[str, Any]:
        """The fields that are to be given."""
        given: dict[str, Any] = {}
        for key, held in self._patterns.items():
            if held:  # the first that fits counts, and a long name may end as a short one does
                given[key] = dict(sorted(held.items(), key=lambda item: -len(item[0])))
        if "feedforward_modules" in self._row.fields:
            given["feedforward"] = tuple(map(re.escape, self._feedforward))
        if self._row.method == "AdaLoRA" and not self._settings.get("total_step"):
            given["total_step"] = 1 + sum(self._settings.get(k) or 0 for k in ("tinit", "tfinal"))
        init = self._settings.get("init_lora_weights", True)
        if isinstance(init, str) and init.startswith(LOST):
            raise ArchiveError(
                f"init_lora_weights is {init!r}: the model was changed by data of no file",
                need="a plain LoRA",
                hint="save_pretrained(path, path_initial_model_for_weight_conversion=...) there",
            )
        if "init_lora_weights" in self._row.fields:
            given["init"] = init if str(init).startswith(REBUILT) else True  # the file has values
            if init == "loftq":
                given["init"] = _loftq(self._settings.get("loftq_config"))
        return given


def _loftq(told: Any) -> LoftQ:
    """Return how the model's weights are quantised before the adapter is added."""
    held = told if isinstance(told, Mapping) else {}
    bits, iterations = held.get("loftq_bits", 4), held.get("loftq_iter", 1)
    if bits not in (4, 8) or type(iterations) is not int or iterations < 1:
        raise ArchiveError(
            f"loftq_config is {str(told)[:80]}", where=CONFIG, need="loftq_bits of 4 or 8"
        )
    return LoftQ("nf4" if bits == 4 else "int8", iterations)


def _uncut(saved: SavedAdapter) -> SavedAdapter:
    """Return an adapter with what is left of ranks of which none is: one that adds nothing.

    AdaLoRA cuts its tensors to the ranks that are left, and its settings say which these are.
    """
    if saved.options.method != "AdaLoRA":
        return saved
    arrays = {path: dict(leaves) for path, leaves in saved.arrays.items()}
    for leaves in arrays.values():
        for leaf, array in leaves.items():
            if not array.size and array.ndim == 2:
                leaves[leaf] = np.zeros([max(1, n) for n in array.shape], array.dtype)
    return SavedAdapter(saved.path, saved.settings, arrays, saved.names, saved.architecture)


def masked(settings: Mapping[str, Any], path: str) -> int | None:
    """Return how many ranks of AdaLoRA are left in a module; None where all are."""
    for name, mask in (settings.get("rank_pattern") or {}).items():
        if re.sub(r"\.lora_E(\.\w+)?$", "", str(name)) == path:
            if not isinstance(mask, list):
                text = f"rank_pattern of {path[:80]!r} is {mask}"
                raise ArchiveError(text, where=CONFIG, need="true or false of each rank")
            return sum(mask)
    return None


def _trained(
    saved: SavedAdapter,
    graph: Graph,
    path: str,
    leaf: str,
    own: str,
    array: Array,
    held: Sequence[Part],
) -> Iterator[tuple[str, Array]]:
    """Yield what variables of the model were trained to: the weight or bias of a module."""
    parted = [part for part in held if part.own == own and part.expert is None]
    if not parted:
        differences(saved, {"unexpected": [f"{path}.{leaf}"], "other shapes": []})
    for part in parted:
        now = part.read(leaf, array)
        before = graph.values[part.weight]
        if now.shape != before.shape:
            text = f"{path}.{leaf} {list(array.shape)}, and not {list(before.shape)}"
            differences(saved, {"other shapes": [text]})
        is_adapted = bool(saved.arrays[path].keys() - {*keys.TRAINED})
        if not (is_adapted and leaf == "weight" and np.array_equal(now, before)):
            yield part.weight, np.asarray(now, before.dtype)


def _tokens(
    saved: SavedAdapter, graph: Graph, path: str, array: Array, held: Sequence[Part]
) -> dict[str, Array]:
    """Return an embedding with the rows that were trained."""
    rows = token_rows(saved.settings, path)
    name = next(part.weight for part in held if part.own == "weight")
    table = np.array(graph.values[name])
    if array.shape != (len(rows), *table.shape[1:]) or max(rows, default=0) >= len(table):
        text = f"{path}.{keys.TOKENS} {list(array.shape)} for {len(rows)} rows of {table.shape}"
        differences(saved, {"other shapes": [text]})
    table[rows] = array
    return {name: table}


def token_rows(settings: Mapping[str, Any], path: str) -> list[int]:
    """Return which rows of an embedding were trained; raises ArchiveError for what are none."""
    told = settings.get("trainable_token_indices")
    if isinstance(told, Mapping):
        told = next((rows for name, rows in told.items() if path.endswith(str(name))), None)
    if not isinstance(told, list) or not all(type(row) is int and row >= 0 for row in told):
        text = f"trainable_token_indices is {str(told)[:60]!r}"
        raise ArchiveError(text, where=CONFIG, need="tokens")
    return told


def _shared(
    method: Adapter, leaf: str, array: Array, places: Sequence[Place], model: Any
) -> dict[str, Array]:
    """Return what is of no module, by the name that it has among the arrays of an adapter."""
    own = [place.name for place in places if leaf in method.variables(place)]
    if own:
        return {f"{name}/{leaf}": array for name in own}
    return {leaf: turned_keys(model, array) if leaf == keys.PROMPT else array}

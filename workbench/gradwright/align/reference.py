"""The reference: what the model was that a policy must not leave too far behind."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..adapters.adapted import Adapted
from ..adapters.chain import adapters_of
from ..errors import TrainingError
from ..graph import Graph, Tensor, Variable, ancestors, clone
from ..models.decoder.rows import IGNORED
from ..train.callbacks.base import Callback
from ..train.history import Record
from ..words.jsonable import from_json_array, json_array
from .logps import head_log_probs
from .model import LanguageModel
from .once import noted_of, once

Array = np.ndarray[Any, Any]
SCOPE = "reference"
COPY = "reference copy of "
BEGUN = "adapters of the reference"


def reference_log_probs(
    model: LanguageModel, *, temperature: float = 1.0, renew: bool = False
) -> Tensor:
    """Return the log-probabilities that the reference gives tokens, f32[B, T − 1], 0 at prompts.

    The reference is the model as it is when this is called first, without dropout; ``renew``, of
    which trainers make use, has another one made of it as it is now, if it has moved. It shares
    each weight that is not trained, and has a frozen copy of each one that is: of the base of
    adapters no second copy is made. Adapters that nothing has trained or loaded yet are not in it,
    nor are those that are added later: with a fresh adapter it is the base.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2))
    >>> adapted = gw.adapters.add(model, gw.adapters.LoRA(r=1), where="q")
    >>> n = len(model.graph.variables)
    >>> gw.align.reference_log_probs(model).shape, len(model.graph.variables) - n
    ((B, max(0, T - 1)), 0)
    """
    graph = model.graph
    noted, of = noted_of(graph), f"reference of {model.head.states.name}, "
    names = [name for key in noted if key.startswith(of) for name in noted[key]]
    latest = graph.get(str(names[0])) if names else None
    if latest is not None and (moving(latest) or (renew and has_moved(latest))):
        _forget(latest, of)
    return once(graph, f"{of}{temperature}", lambda: [_made(model, temperature)])[0]


def copies_of(reference: Tensor) -> dict[str, str]:
    """Return the names of weights that a reference has copies of, and those of the copies."""
    held = {n.name for n in ancestors([reference]) if isinstance(n.op, Variable)}
    noted = noted_of(reference.graph).items()
    copies = {key.removeprefix(COPY): names for key, names in noted if key.startswith(COPY)}
    return {policy: names[0] for policy, names in copies.items() if names[0] in held}


def has_moved(reference: Tensor) -> bool:
    """Tell whether the model is another now than when its latest reference was made."""
    graph = reference.graph
    values, begun = graph.values, noted_of(graph).get(BEGUN, [])
    return set(begun) != {one.name for one in _begun(graph)} or any(
        policy not in values or not _same(values[policy], values[own])
        for policy, own in copies_of(reference).items()
    )


def _forget(reference: Tensor, of: str) -> None:
    """Have another reference made when the next one is asked for, at any temperature."""
    noted, copies = noted_of(reference.graph), copies_of(reference)
    for key in [k for k in noted if k.startswith(of)]:
        del noted[key]
    for policy in copies:
        del noted[COPY + policy]
    noted.pop(BEGUN, None)


class Copies:
    """The copies of weights that a reference has, as a part of the state of its training.

    A checkpoint has them as variables of the graph. Where a reference was made before them in the
    same graph, their names depend on what was done there, so the state has them by those of the
    weights.
    """

    def __init__(self, graph: Graph, reference: Tensor | None) -> None:
        self._values, self._has = graph.values, reference is not None
        self._own = {} if reference is None else copies_of(reference)

    def state_dict(self) -> dict[str, Array]:
        """Return the names of the weights, as JSON, and copies that have names of their own.

        Where there is no reference, there is nothing.
        """
        if not self._has:
            return {}
        own = {f"{SCOPE}/{name}": own for name, own in self._own.items()}
        return {
            SCOPE: json_array(sorted(self._own)),
            **{key: self._values[t] for key, t in own.items() if t != key},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over the copies; raises TrainingError for a reference that has others."""
        if not self._has:
            return
        try:
            named = from_json_array(state[SCOPE])
        except (KeyError, ValueError, TypeError):
            raise TrainingError("this state has no reference", need=f"{SCOPE!r} as JSON") from None
        known = {f"{SCOPE}/{name}": own for name, own in self._own.items()}
        lost = [key for key in known if key not in state and key not in self._values]
        if named != sorted(self._own) or lost:
            raise TrainingError(
                "this training has another reference",
                facts=[f"copies of {len(named)} weights, not of {len(self._own)}"],
                need="the model as it was when that training began",
                hint="make model and trainer again before anything is trained",
            )
        came = {own: key for key, own in known.items() if key in state or key != own}
        self._values.restore(
            {own: state.get(key, self._values.get(key)) for own, key in came.items()}
        )


class SyncReference(Callback):
    """Has the reference follow the policy (Gorbatovski et al. 2024, arXiv:2404.09656, TR-DPO).

    ref ← α·policy + (1 − α)·ref  after every ``every`` steps

    Raises TrainingError for a reference that shares its weights, as one with adapters does.
    """

    def __init__(self, reference: Tensor, alpha: float, every: int) -> None:
        self._alpha, self._every = alpha, every
        self._pairs = copies_of(reference)
        if not self._pairs or adapters_of(reference.graph).named:
            raise TrainingError(
                "the reference shares weights with the policy, and cannot follow it",
                need="sync_ref_model=False, or a model that is trained as a whole",
            )

    def on_step_end(self, trainer: Any, record: Record) -> None:
        """Move the reference."""
        if record.step % self._every == 0:
            values, share = trainer.values, self._alpha
            values.commit(
                {
                    own: share * values[policy] + (1 - share) * values[own]
                    for policy, own in self._pairs.items()
                }
            )


def moving(reference: Tensor) -> list[Tensor]:
    """Return the variables of a reference that are trained, of which there must be none."""
    nodes = ancestors([reference])
    return [n.outputs[0] for n in nodes if isinstance(n.op, Variable) and n.trainable]


def check_still(reference: Tensor) -> None:
    """Refuse a reference that training moves."""
    if found := moving(reference):
        raise TrainingError(
            f"the reference shares {len(found)} weights that are trained now",
            facts=[t.name for t in found[:4]],
            need="weights that stay as they are",
            hint="make the trainer again, once it is settled which weights are trained",
        )


def _made(model: LanguageModel, temperature: float) -> Tensor:
    """Build the reference with fresh adapters switched off, and have them on again."""
    graph, head = model.graph, model.head
    known = adapters_of(graph)
    active = [known.named[name] for name in known.active]
    begun = noted_of(graph).setdefault(BEGUN, [one.name for one in _begun(graph)])
    held, fresh = set(graph.all_nodes), [one for one in active if one.name not in begun]
    try:
        for one in fresh:
            one.disable()
        asked = head.states if head.weight is not None else head.logits
        needed = [asked, *(t for t in (head.weight, head.bias) if t is not None)]
        copies = _copies(graph, needed)
        cloned = clone(asked, copies, scope=SCOPE)
        with graph._at_top(), graph.scope(cloned.node.name.partition("/")[0]):
            own = head._replace(
                states=cloned,
                weight=None if head.weight is None else copies.get(head.weight, head.weight),
                bias=None if head.bias is None else copies.get(head.bias, head.bias),
                logits=cloned,
            )
            said = head_log_probs(own, model.ids, model.labels != IGNORED, temperature=temperature)
    finally:
        for one in fresh:
            one.enable()
    nodes = {n for n in graph.all_nodes if n not in held and not n.derived}
    with graph.edit() as edit:
        for node in nodes:
            if (settled := node.op.for_mode(False)) is not node.op:
                edit.change(node, settled)
    known.references |= nodes
    return said.log_probs


def _begun(graph: Graph) -> list[Adapted]:
    """Return the adapters that are on, and have other values than those they were added with."""
    known, values = adapters_of(graph), graph.values
    active = [known.named[name] for name in known.active]
    return [
        one for one in active if one.is_loaded or any(values.version(t.name) for t in one.owned)
    ]


def _copies(graph: Graph, needed: list[Tensor]) -> dict[Tensor, Tensor]:
    """Return a frozen copy of each trained variable that tensors depend on."""
    nodes = [n for n in ancestors(needed) if isinstance(n.op, Variable) and n.trainable]
    with graph._at_top(), graph.scope(graph._free_scope(SCOPE)):
        return {
            t: once(graph, COPY + t.name, functools.partial(_copy, t))[0]
            for t in (n.outputs[0] for n in nodes)
        }


def _copy(t: Tensor) -> list[Tensor]:
    graph, name = t.graph, t.node.name
    sizes, value = [int(d) for d in t.shape], graph.values.array(name)
    made = graph.variable(name, sizes, init=value, dtype=t.dtype, trainable=False)
    made.node.frozen = True
    if COPY + t.name not in noted_of(graph):  # in a cell that runs again it has its value still
        graph.values.restore({made.name: value})
    return [made]


def _same(a: Array, b: Array) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and bool((a == b).all())

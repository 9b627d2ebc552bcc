"""The reference: what the model was that a policy must not leave too far behind."""

from __future__ import annotations

import functools
from typing import Any

from ..adapters.adapted import Adapted
from ..adapters.chain import adapters_of
from ..errors import TrainingError
from ..graph import Graph, Tensor, Variable, ancestors, clone
from ..models.decoder.rows import IGNORED
from ..train.callbacks.base import Callback
from ..train.history import Record
from .logps import head_log_probs
from .model import LanguageModel
from .once import noted_of, once

SCOPE = "reference"
COPY = "reference copy of "
BEGUN = "adapters of the reference"


def reference_log_probs(model: LanguageModel, *, temperature: float = 1.0) -> Tensor:
    """Return the log-probabilities that the reference gives tokens, f32[B, T − 1], 0 at prompts.

    The reference is the model as it is when this is called first, without dropout. It shares each
    weight that is not trained, and has a frozen copy of each one that is: of the base of adapters
    no second copy is made. Adapters that nothing has trained or loaded yet are not in it, nor are
    those that are added later: with a fresh adapter it is the base.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2))
    >>> adapted = gw.adapters.add(model, gw.adapters.LoRA(r=1), where="q")
    >>> n = len(model.graph.variables)
    >>> gw.align.reference_log_probs(model).shape, len(model.graph.variables) - n
    ((B, max(0, T - 1)), 0)
    """
    graph = model.graph
    key = f"reference of {model.head.states.name}, {temperature}"
    [found] = once(graph, key, lambda: [_made(model, temperature)])
    if moving(found):  # it shared them while an adapter was trained, which is gone
        del noted_of(graph)[key]
        [found] = once(graph, key, lambda: [_made(model, temperature)])
    return found


class SyncReference(Callback):
    """Has the reference follow the policy (Gorbatovski et al. 2024, arXiv:2404.09656, TR-DPO).

    ref ← α·policy + (1 − α)·ref  after every ``every`` steps

    Raises TrainingError for a reference that shares its weights, as one with adapters does.
    """

    def __init__(self, reference: Tensor, alpha: float, every: int) -> None:
        self._alpha, self._every = alpha, every
        noted = noted_of(reference.graph)
        held = {n.name for n in ancestors([reference]) if isinstance(n.op, Variable)}
        copies = {k.removeprefix(COPY): v for k, v in noted.items() if k.startswith(COPY)}
        self._pairs = {policy: own for policy, [own] in copies.items() if own in held}
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
    begun = noted_of(graph).setdefault(BEGUN, [one.name for one in active if _has_begun(one)])
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


def _has_begun(one: Adapted) -> bool:
    """Tell whether an adapter has other values than those it was added with."""
    values = one.graph.values
    return one.is_loaded or any(values.version(t.name) for t in one.owned)


def _copies(graph: Graph, needed: list[Tensor]) -> dict[Tensor, Tensor]:
    """Return a frozen copy of each trained variable that tensors depend on."""
    found: dict[Tensor, Tensor] = {}
    with graph._at_top(), graph.scope(SCOPE):
        for node in ancestors(needed):
            if isinstance(node.op, Variable) and node.trainable:
                t = node.outputs[0]
                [found[t]] = once(graph, COPY + t.name, functools.partial(_copy, t))
    return found


def _copy(t: Tensor) -> list[Tensor]:
    graph, name = t.graph, t.node.name
    sizes, value = [int(d) for d in t.shape], graph.values.array(name)
    made = graph.variable(name, sizes, init=value, dtype=t.dtype, trainable=False)
    made.node.frozen = True
    return [made]

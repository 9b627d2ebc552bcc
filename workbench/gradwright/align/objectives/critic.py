"""The critic: what completions will be worth, token by token."""

from __future__ import annotations

from ...adapters.chain import adapters_of
from ...graph import Tensor, Variable, ancestors, clone
from ...ops.core.choice import Maximum
from ...ops.core.movement import Cast
from ..losses.loss import kept
from ..model import LanguageModel
from ..once import once

SCOPE = "critic"


def critic_values(model: LanguageModel, mask: Tensor, kind: str) -> Tensor:
    """Return values f32[B, T − 1]: place t is what follows once token t is read; 0 elsewhere.

    V_t = w·h_t + b, with h the last states of the model, or of a copy of it for ``"copy"``, in
    which what is trained in the model is trained apart. ``mask``, bool[B, T − 1], are the tokens
    that count. Weights begin at 0 and have names in ``critic/``; they are made once.
    """
    graph = model.graph

    def make() -> list[Tensor]:
        states = model.head.states
        if kind == "copy":
            held = set(graph.all_nodes)
            states = clone(states, _copies(states), scope=SCOPE)
            made = {n for n in graph.all_nodes if n not in held and not n.derived}
            adapters_of(graph).references |= made
        with graph._at_top(), graph.scope(SCOPE):
            w = graph.variable("value_weight", (int(states.shape[-1]),), init=0.0)
            b = graph.variable("value_bias", (), init=0.0)
            return [(states @ w + b)[:, :-1]]

    [values] = once(graph, f"values of {model.head.states.name}, {kind}", make)
    return kept(values, value_mask(mask))


def value_mask(mask: Tensor) -> Tensor:
    """Return which values count: those of tokens that do, and the one behind them, of the whole."""
    counts = Cast(dtype="int32")(mask)
    found: Tensor = Maximum()(counts, counts.pad([(0, 0), (1, 0)])[:, :-1]) != 0
    return found


def _copies(states: Tensor) -> dict[Tensor, Tensor]:
    """Return a copy, to be trained apart, of each variable that is trained."""
    graph, found = states.graph, {}
    with graph._at_top(), graph.scope(SCOPE):
        for node in ancestors([states]):
            if isinstance(node.op, Variable) and node.trainable:
                t = node.outputs[0]
                sizes, value = [int(d) for d in t.shape], graph.values.array(node.name)
                found[t] = graph.variable(node.name, sizes, init=value, dtype=t.dtype)
    return found

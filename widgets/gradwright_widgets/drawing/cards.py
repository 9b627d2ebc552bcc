"""Cards: ops that follow each other in single file, with the weights and sizes that they read."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gradwright.op import Op

from .flow import MAIN, Flow

MOST_ROWS = 8
_LOOK_UP = ("embedding", "gather", "rnn", "gru", "lstm", "attention")


@dataclass(eq=False)
class Card:
    """Ops in single file: the first reads what comes in, the last makes what goes on."""

    nodes: list[int]
    side: list[int] = field(default_factory=list)
    """Weights and sizes that it is the first to read."""
    path: tuple[str, ...] = ()
    """The modules that it is part of, as names tell."""
    rows: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    """What each row is, which gives it its colour."""
    kind: int = 0
    """Equal for cards of the same ops, whatever their channels."""
    sources: list[int] = field(default_factory=list)
    """Cards that make what it reads; each stands before it."""
    readers: list[int] = field(default_factory=list)


class Traits(NamedTuple):
    """What an op is to a card."""

    weighs: bool
    """It multiplies by weights, which it has if something stored is among its inputs."""
    alone: bool
    """It has a card of its own: what joins, parts, pools or decides."""
    adds: bool


def traits(op: Op) -> Traits:
    """Return what an op is to a card.

    >>> import gradwright as gw
    >>> x = gw.Graph().placeholder("x", (1, 1, 4, 4))
    >>> traits(gw.concat([x, x], 1).op).alone, traits((x @ x).op).weighs
    (True, True)
    """
    return _traits(op.name, op.drawing)


@functools.cache
def _traits(name: str, drawing: str) -> Traits:
    pools = "pool" in name or name.startswith("upsampling")
    joins = name in ("concat", "stack", "merge", "where")
    parts = name in ("split", "unstack", "switch", "dynamic_partition")
    finds = any(part in name for part in _LOOK_UP)
    weighs = finds or (drawing == "linear" and not pools and name != "local_response_norm")
    return Traits(
        weighs,
        pools or joins or parts or drawing in ("control", "loss") or name.startswith("resize"),
        name in ("add", "add_n", "bias_add", "sub"),
    )


def cards_of(flow: Flow, module: Sequence[str]) -> tuple[list[Card], list[int]]:
    """Return the cards of a graph in their order, and the card of each node, -1 for none.

    A node joins the card of what it reads if it reads nothing else, is the only one to read it, and
    both are of one ``module``. A card has at most one op with weights, and what goes before that
    belongs to it (pre-activation). What a node reads beside the main line must be known before its
    card begins, or be made in it: so cards never need each other.
    """
    card_of = [-1] * len(flow.nodes)
    cards: list[Card] = []
    weighed, closed = list[bool](), list[bool]()
    known = [-1] * len(flow.nodes)  # of weights and sizes, the last node of the main line in them
    for i, node in enumerate(flow.nodes):
        if flow.role[i] != MAIN:
            known[i] = max((known[k] if flow.role[k] else k for k in flow.sources[i]), default=-1)
            continue
        trait = traits(node.op)
        main = flow.main_sources(i)
        weighs = trait.weighs and len(flow.sources[i]) > 1
        k = -1
        if len(main) == 1 and not trait.alone and node.kind == "array":
            k = _joined(flow, cards, card_of, main[0], i, module)
            if k >= 0:
                late = max((known[s] for s in flow.sources[i] if flow.role[s]), default=-1)
                full = len(cards[k].nodes) >= MOST_ROWS or (weighs and weighed[k])
                shut = closed[k] and not (trait.adds and len(flow.sources[i]) > 1)
                outside = late >= cards[k].nodes[0] and card_of[late] != k
                k = -1 if full or shut or outside else k
        if k < 0:
            k = len(cards)
            cards.append(Card([]))
            weighed.append(False)
            closed.append(False)
        if weighs:
            closed[k] = bool(cards[k].nodes)
            weighed[k] = True
        cards[k].nodes.append(i)
        card_of[i] = k
    _add_sides(flow, cards, card_of)
    _join(flow, cards, card_of)
    return cards, card_of


def _joined(
    flow: Flow, cards: list[Card], card_of: list[int], source: int, i: int, module: Sequence[str]
) -> int:
    """Return the card of what a node reads, if the node may go on with it, else -1."""
    node = flow.nodes[source]
    follows = (
        node.kind == "array"
        and module[source] == module[i]
        and not traits(node.op).alone
        and len(flow.main_readers(source)) == 1
    )
    return card_of[source] if follows else -1


def _add_sides(flow: Flow, cards: list[Card], card_of: list[int]) -> None:
    """Weights and sizes stand in the first card that reads them."""
    for i in range(len(flow.nodes) - 1, -1, -1):
        if flow.role[i] == MAIN:
            continue
        owners = [card_of[k] for k in flow.readers[i] if card_of[k] >= 0]
        if owners:
            card_of[i] = min(owners)
            cards[card_of[i]].side.append(i)
    for card in cards:
        card.side.reverse()


def _join(flow: Flow, cards: list[Card], card_of: list[int]) -> None:
    """Note which cards read which."""
    for k, card in enumerate(cards):
        read = {card_of[s] for i in card.nodes for s in flow.sources[i] if not flow.role[s]}
        read.discard(k)
        card.sources = sorted(read)
        for s in card.sources:
            cards[s].readers.append(k)

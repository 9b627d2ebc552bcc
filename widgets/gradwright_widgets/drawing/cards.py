"""Cards: ops that follow each other in single file, with the weights and sizes that they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gradwright.ops.core.elementwise import Add
from gradwright.ops.core.index import Gather
from gradwright.ops.layers.projections import BiasAdd

from .flow import MAIN, Flow, rank_of

MOST_ROWS = 8


@dataclass(eq=False)
class Card:
    """Ops in single file: the first reads what comes in, the last makes what goes on."""

    nodes: list[int]
    side: list[int] = field(default_factory=list)
    """Weights and sizes that it is the first to read."""
    path: tuple[str, ...] = ()
    """The modules that it is part of, as names tell."""
    label: str = ""
    """The module of the op with weights, where the card goes on beyond that."""
    rows: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    """What each row is, which gives it its colour."""
    kind: int = 0
    """Equal for cards of the same ops, whatever their channels."""
    sources: list[int] = field(default_factory=list)
    """Cards that make what it reads; each stands before it."""
    readers: list[int] = field(default_factory=list)


def weighs(flow: Flow, i: int) -> bool:
    """Tell whether a node multiplies by weights, or looks something up in them."""
    op = flow.nodes[i].op
    return len(flow.sources[i]) > 1 and (op.drawing == "linear" or isinstance(op, Gather))


def stands_alone(flow: Flow, i: int) -> bool:
    """Tell whether a node has a card of its own: what joins, parts, pools, resizes or decides.

    >>> import gradwright as gw
    >>> x = gw.Graph().placeholder("x", (1, 1, 4, 4))
    >>> pooled, both = gw.cnn.max_pool2d(x, 2), gw.concat([x, gw.tanh(x)], 1)
    >>> flow = Flow.of(x.graph.nodes)
    >>> [node.op.name for i, node in enumerate(flow.nodes) if stands_alone(flow, i)]
    ['max_pool2d', 'concat']
    """
    node = flow.nodes[i]
    drawing = node.op.drawing
    ends = rank_of(node.outputs[0].spec) == 0  # in a number, as a loss does
    if ends or drawing in ("control", "loss") or node.op.family.title == "Images":
        return True
    if drawing == "linear":
        return len(flow.sources[i]) < 2
    return drawing == "shape" and (len(node.public) > 1 or len(flow.main_sources(i)) > 1)


def cards_of(flow: Flow, module: Sequence[str]) -> tuple[list[Card], list[int]]:
    """Return the cards of a graph in their order, and the card of each node, -1 for none.

    A node joins the card of what it reads if it reads nothing else, is the only one to read it, and
    both are of one ``module``. A card has at most one op with weights, and what goes before that
    belongs to it (pre-activation); what joins two lines, as a skip does, ends a layer. What a node
    reads beside the main line must be known before its card begins, or be made in it: so cards
    never need each other.
    """
    card_of = [-1] * len(flow.nodes)
    cards: list[Card] = []
    weighed, closed, joins = list[bool](), list[bool](), list[bool]()
    single = [False] * len(flow.nodes)
    known = [-1] * len(flow.nodes)  # of weights and sizes, the last node of the main line in them
    for i, node in enumerate(flow.nodes):
        if flow.role[i] != MAIN:
            known[i] = max((known[k] if flow.role[k] else k for k in flow.sources[i]), default=-1)
            continue
        main = flow.main_sources(i)
        heavy, alone = weighs(flow, i), stands_alone(flow, i)
        single[i] = not alone and node.kind == "array"
        k = -1
        if len(main) == 1 and single[i]:
            k = _joined(flow, card_of, main[0], i, module) if single[main[0]] else -1
            if k >= 0:
                late = max((known[s] for s in flow.sources[i] if flow.role[s]), default=-1)
                full = len(cards[k].nodes) >= MOST_ROWS or (heavy and weighed[k])
                apart = heavy or node.op.drawing == "norm"
                shut = closed[k] and not isinstance(node.op, Add | BiasAdd)
                shut = shut or (apart and joins[k])
                outside = late >= cards[k].nodes[0] and card_of[late] != k
                k = -1 if full or shut or outside else k
        if k < 0:
            k = len(cards)
            cards.append(Card([]))
            weighed.append(False)
            closed.append(False)
            joins.append(len(main) > 1)
        if heavy:
            closed[k] = bool(cards[k].nodes)
            weighed[k] = True
        cards[k].nodes.append(i)
        card_of[i] = k
    _add_sides(flow, cards, card_of)
    _join(flow, cards, card_of)
    return cards, card_of


def _joined(flow: Flow, card_of: list[int], source: int, i: int, module: Sequence[str]) -> int:
    """Return the card of what a node reads, if the node may go on with it, else -1."""
    only = module[source] == module[i] and len(flow.main_readers(source)) == 1
    return card_of[source] if only else -1


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

"""The modules that names tell of: those of ops, else those of the weights that ops read."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Container, Iterable, Sequence

from gradwright import Node

from .cards import Card, weighs
from .flow import STORED, Flow

Path = tuple[str, ...]

_COUNTER = re.compile(r"(n|r|node|op|val|tensor)?_?\d+|constant(_\d+)?|onnx", re.IGNORECASE)
_ROLE = re.compile(
    r"w\d*|b\d*|s|weights?|bias|kernel|gamma|beta|mean|var|variance|scale|rm|riv|running|moving|num|"
    r"batches|tracked|output|constant|identity|shape|quantized|zero|point|param|value|read|"
    r"readvariableop|\d+",
    re.IGNORECASE,
)
SHARED = 0.85
"""A first level that so many of the named cards share says nothing."""
SMALL = 4
"""A module of so few ops is part of a card, not a block."""
DEEPEST = 6


@functools.lru_cache(100_000)
def modules(scope: str) -> Path:
    """Return the modules of a scope, without numbers of nodes and what they repeat.

    >>> modules("layers/layers.0/attn"), modules("blocks/3/mlp"), modules("n241")
    (('layers.0', 'attn'), ('blocks.3', 'mlp'), ())
    """
    parts: list[str] = []
    for part in filter(None, scope.split("/")):
        if parts and part.isdecimal():
            parts.append(f"{parts[-1]}.{part}")
        elif not _COUNTER.fullmatch(part):
            parts.append(part)
    kept = [
        part
        for k, part in enumerate(parts)
        if k + 1 == len(parts) or not parts[k + 1].startswith(f"{part}.")
    ]
    return tuple(kept[:DEEPEST])


@functools.lru_cache(100_000)
def weight_path(name: str) -> Path:
    """Return the modules in the name of a weight, numbers joined to what they count.

    >>> weight_path("layers.0.ln1.weight"), weight_path("gpu_0/res2_0_branch1_bn_riv_0__SHAPE")
    (('layers.0', 'ln1'), ('gpu_0', 'res2_0', 'branch1', 'bn'))
    >>> weight_path("r241"), weight_path("inception_3b/3x3_reduce_w")
    ((), ('inception_3b', '3x3', 'reduce'))
    """
    name = name.removesuffix("__SHAPE")
    if _COUNTER.fullmatch(name):
        return ()
    pieces = [re.split(r"([._])", piece) for piece in name.split("/")]
    tokens: list[str] = []
    for piece in pieces:
        for joint, token in zip(["", *piece[1::2]], piece[::2], strict=True):
            if joint and tokens and re.fullmatch(r"\d+[a-z]?", token):
                tokens[-1] += joint + token
            elif token:
                tokens.append(token)
    while tokens and _ROLE.fullmatch(re.sub(r"[._]\d+$", "", tokens[-1])):
        tokens.pop()
    return tuple(tokens[:DEEPEST])


def module_keys(flow: Flow) -> list[str]:
    """Return, of each node, what a card may not reach across: the module that it is a part of.

    That is the innermost module around it that holds modules itself, or a first one of more than
    four ops. A result of the graph, whose name tells none, is part of what it reads.
    """
    paths = [modules(node.scope) for node in flow.nodes]
    holds = {path[:k] for i, path in enumerate(paths) if not flow.role[i]
             for k in range(1, len(path))}  # fmt: skip
    sizes = Counter(path[0] for i, path in enumerate(paths) if path and not flow.role[i])
    key_of: dict[Path, str] = {}
    for path in set(paths):
        inner = next((path[:k] for k in range(len(path), 0, -1) if path[:k] in holds), ())
        if not inner and path and sizes[path[0]] > SMALL:
            inner = path[:1]
        key_of[path] = "/".join(inner)
    keys = [key_of[path] for path in paths]
    for i, path in enumerate(paths):
        if not path and not flow.readers[i] and len(main := flow.main_sources(i)) == 1:
            keys[i] = keys[main[0]]
    return keys


def given_name(node: Node) -> str:
    """Return what somebody called a node; "" where it is called after its op, or by a number.

    >>> import gradwright as gw
    >>> x = gw.Graph().placeholder("x", (2,))
    >>> given_name(gw.exp(x, name="head/odds").node), given_name(gw.exp(x).node)
    ('odds', '')
    """
    name = node.name.rpartition("/")[2]
    plain = re.sub(r"[\W_]|\d+$", "", name).lower()
    return "" if plain in ("", node.op.name.replace("_", "")) or _COUNTER.fullmatch(name) else name


def name_cards(flow: Flow, cards: Sequence[Card]) -> None:
    """Give cards the paths of modules that their names tell, unless they tell next to nothing."""
    own = 0
    for card in cards:
        scopes = [
            path
            for i in card.nodes
            if flow.nodes[i].kind == "array" and (path := modules(flow.nodes[i].scope))
        ]
        card.path = common(scopes) or (max(scopes, key=scopes.count) if scopes else ())
        if len(scopes) < len(card.nodes) and len(card.path) > 1:
            card.path = card.path[:-1]  # it is more than the innermost module
        heavy = next((i for i in card.nodes if weighs(flow, i)), card.nodes[0])
        within = modules(flow.nodes[heavy].scope)
        if within[: len(card.path)] == card.path:
            card.label = ".".join(within[len(card.path) :])
        own += bool(scopes)
    by_ops = own > len(cards) / 2
    if not by_ops:
        for card in cards:
            card.path = card.path or _by_weights(flow, card)
    _drop_shared(cards)
    named = [card for card in cards if card.path]
    firsts = {card.path[0] for card in named}
    if len(named) < len(cards) / 4 or len(firsts) < (1 if own else 2):
        for card in cards:
            card.path, card.label = (), ""
        return
    _place_unnamed(flow, cards, by_ops)


def _by_weights(flow: Flow, card: Card) -> Path:
    found = (weight_path(flow.nodes[i].name) for i in card.side if flow.role[i] == STORED)
    return common([path for path in found if path])


def _drop_shared(cards: Sequence[Card]) -> None:
    named = sum(1 for card in cards if card.path)
    for _ in range(3):
        tally = Counter(card.path[0] for card in cards if card.path)
        first, count = next(iter(tally.most_common(1)), ("", 0))
        if not count or count < SHARED * named:
            return
        for card in cards:
            if card.path and card.path[0] == first:
                card.path = card.path[1:]


def _place_unnamed(flow: Flow, cards: Sequence[Card], by_ops: bool) -> None:
    """A card without a name stands where most of what it reads does; of two, the later.

    What reads two modules stands beside them, in what is around both; the name of one op is no
    module, and takes nothing in.
    """
    blocks = {path for path, count in Counter(card.path[:1] for card in cards).items() if count > 1}
    for card in cards:
        if card.path or flow.nodes[card.nodes[0]].kind == "placeholder":
            continue
        after = cards[card.readers[0]].path if len(card.readers) == 1 else ()
        begins = len(card.sources) == 1 and len(cards[card.sources[0]].readers) > 1
        if not by_ops and after and begins:  # a branch begins
            card.path = _around(after, blocks)
            continue
        votes: dict[Path, tuple[int, int]] = {}
        for k in card.sources:
            if path := cards[k].path:
                beside = len(card.sources) > 1 and not by_ops
                around = _around(path, blocks) if beside else path[:-1]
                votes[around] = votes.get(around, (0, 0))[0] + 1, k
        if votes:
            card.path = max(votes, key=votes.__getitem__)


def _around(path: Path, blocks: Container[Path]) -> Path:
    """Return the module around one, an outermost one itself if it holds several cards."""
    return path[:-1] or (path if path in blocks else ())


def common(paths: Iterable[Path]) -> Path:
    """Return what paths begin with.

    >>> common([("a", "b", "c"), ("a", "b", "d")]), common([])
    (('a', 'b'), ())
    """
    found = list(paths)
    if not found:
        return ()
    low, high = min(found), max(found)
    for k, part in enumerate(low):
        if k >= len(high) or part != high[k]:
            return low[:k]
    return low

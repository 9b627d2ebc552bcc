"""Groups of cards: blocks that names tell, and runs of blocks that repeat."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from .cards import Card

BLOCK, CARD, RUN = 0, 1, 2
CROWDED = 12
"""A level with more children than this is looked at for structure."""
MANY = 6
"""Inputs that a level shows, whoever reads them."""


@dataclass(eq=False)
class Group:
    """A block of cards and blocks, a card, or a run of blocks that are alike."""

    kind: int
    title: str = ""
    children: list[Group] = field(default_factory=list)
    card: int = -1
    note: str = ""
    name: str = ""
    """The part of its path that is its own."""
    sign: int = -1
    """Equal for groups of the same structure."""

    def cards(self) -> Iterator[int]:
        """Yield the cards of a group, in their order in the tree."""
        pending = [self]
        while pending:
            group = pending.pop()
            if group.kind == CARD:
                yield group.card
            pending += reversed(group.children)


class Signs:
    """Numbers of structures: the same for groups of the same cards in the same order."""

    def __init__(self, cards: Sequence[Card]) -> None:
        self._cards = cards
        self._numbers: dict[tuple[int, ...], int] = {}

    def of(self, group: Group) -> int:
        """Return the number of a group's structure."""
        if group.sign >= 0:
            return group.sign
        pending = [group]
        while pending:  # from the bottom up, without recursion
            top = pending[-1]
            open_ended = [child for child in top.children if child.sign < 0]
            if open_ended:
                pending += open_ended
                continue
            pending.pop()
            if top.sign < 0:
                inner = (-1, *(child.sign for child in top.children))
                key = (self._cards[top.card].kind,) if top.kind == CARD else inner
                top.sign = self._numbers.setdefault(key, len(self._numbers))
        return group.sign


def nested(cards: Sequence[Card]) -> Group:
    """Return the cards by the modules of their paths, each where its first card stands.

    >>> a, b, c = (Card([k], path=path) for k, path in enumerate([("m", "x"), ("m", "y"), ()]))
    >>> root = nested([a, b, c])
    >>> [(child.title, len(child.children)) for child in root.children]
    [('m', 2), ('', 0)]
    """
    root = Group(BLOCK)
    _nest(root, list(range(len(cards))), 0, cards)
    return root


def _nest(group: Group, members: Sequence[int], depth: int, cards: Sequence[Card]) -> None:
    parts: dict[str, tuple[int, list[int]]] = {}
    for k in members:
        path = cards[k].path
        if len(path) <= depth:
            label = cards[k].label
            group.children.append(Group(CARD, label, card=k, name=label))
        elif path[depth] in parts:
            parts[path[depth]][1].append(k)
        else:
            parts[path[depth]] = len(group.children), [k]
            group.children.append(Group(BLOCK))
    for part, (at, inside) in parts.items():
        if len(inside) == 1:
            name = "/".join(cards[inside[0]].path[depth:])
            group.children[at] = Group(
                CARD, card=inside[0], title=name.replace("/", "."), name=name
            )
            continue
        child = Group(BLOCK, part, name=part)
        _nest(child, inside, depth + 1, cards)
        if len(child.children) == 1:  # a level that holds one thing only says nothing
            (only,) = child.children
            only.title = f"{part}.{only.title}" if only.title else part
            only.name = f"{part}/{only.name}" if only.name else part
            child = only
        group.children[at] = child


def children_of(group: Group, cards: Sequence[Card]) -> tuple[dict[int, int], list[list[int]]]:
    """Return the child that holds each card of a group, and which children each reads."""
    place = {k: at for at, child in enumerate(group.children) for k in child.cards()}
    reads: list[set[int]] = [set() for _ in group.children]
    for k, at in place.items():
        for source in cards[k].sources:
            other = place.get(source, at)
            if other != at:
                reads[at].add(other)
    return place, [sorted(found) for found in reads]


def take_in(root: Group, is_input: Callable[[Group], bool], cards: Sequence[Card]) -> None:
    """Let inputs that a single block reads stand in it, on levels that have many.

    Of those that stay, many of the same readers make a block of inputs.
    """
    pending = [root]
    while pending:
        top = pending.pop()
        inputs = [at for at, child in enumerate(top.children) if is_input(child)]
        if len(inputs) > MANY:
            place: list[Group | None] = list(top.children)
            for to, found in _by_readers(top, inputs, cards).items():
                if len(to) == 1 and top.children[to[0]].kind != CARD:
                    top.children[to[0]].children[:0] = [top.children[at] for at in found]
                elif to and len(found) > CROWDED:
                    names = (cards[top.children[at].card].rows[0] for at in (found[0], found[-1]))
                    block = Group(BLOCK, " … ".join(names), [top.children[at] for at in found])
                    place[found[0]] = block
                    found = found[1:]
                else:
                    continue
                for at in found:
                    place[at] = None
            top.children = [child for child in place if child is not None]
        pending += [child for child in top.children if child.kind != CARD]


def _by_readers(
    group: Group, inputs: Sequence[int], cards: Sequence[Card]
) -> dict[tuple[int, ...], list[int]]:
    """Return inputs among the children of a group by the children that read them."""
    readers: dict[int, list[int]] = {at: [] for at in inputs}
    for at, found in enumerate(children_of(group, cards)[1]):
        for other in found:
            if other in readers:
                readers[other].append(at)
    alike: dict[tuple[int, ...], list[int]] = {}
    for at, read_by in readers.items():
        alike.setdefault(tuple(read_by), []).append(at)
    return alike


def untangle(group: Group, cards: Sequence[Card]) -> None:
    """Part blocks that need each other into runs of cards in their order, which do not."""
    pending = [group]
    while pending:
        top = pending.pop()
        knot = _knot(children_of(top, cards)[1])
        if knot:
            _part(top, knot)
        pending += [child for child in top.children if child.kind != CARD]


def _knot(reads: list[list[int]]) -> set[int]:
    """Return the children that are part of a circle, or between two circles."""
    readers: list[list[int]] = [[] for _ in reads]
    for at, found in enumerate(reads):
        for source in found:
            readers[source].append(at)
    left = set(range(len(reads)))
    for ahead, back in ((reads, readers), (readers, reads)):
        waiting = [len(found) for found in ahead]
        ready = [at for at in range(len(reads)) if not waiting[at]]
        while ready:
            at = ready.pop()
            left.discard(at)
            for other in back[at]:
                waiting[other] -= 1
                if not waiting[other]:
                    ready.append(other)
    return left


def _part(group: Group, knot: set[int]) -> None:
    """Replace the children of a knot by runs of their own children, in the order of cards."""
    grains = [
        (min(grain.cards()), at, grain)
        for at in knot
        for grain in _grains(group.children[at])
    ]  # fmt: skip
    kept = [child for at, child in enumerate(group.children) if at not in knot]
    runs: list[tuple[int, Group]] = []
    last = -1
    for first, at, grain in sorted(grains, key=lambda found: found[0]):
        whole = group.children[at]
        if at == last and whole.kind != CARD:
            runs[-1][1].children.append(grain)
        elif whole.kind == CARD:
            runs.append((first, whole))
        else:
            runs.append((first, Group(whole.kind, whole.title, [grain], name=whole.name)))
        last = at
    ordered = [*((min(child.cards()), child) for child in kept), *runs]
    group.children = [_plain(child) for _, child in sorted(ordered, key=lambda found: found[0])]


def _grains(group: Group) -> Iterator[Group]:
    """Yield cards of a block one by one: what is parted keeps no order but theirs."""
    pending = [group]
    while pending:
        top = pending.pop()
        if top.kind == CARD:
            yield top
        pending += reversed(top.children)


def _plain(group: Group) -> Group:
    """Return the only child of a block that holds one, under the name of both."""
    if group.kind == CARD or len(group.children) != 1:
        return group
    (only,) = group.children
    only.title = f"{group.title}.{only.title}" if only.title else group.title
    only.name = f"{group.name}/{only.name}" if only.name else group.name
    return only

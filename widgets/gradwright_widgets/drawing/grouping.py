"""Cards, blocks and repeats of a graph whose names leave it flat, as columns of its drawing."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

from gradwright import Graph, Node

from .buffers import int32, uint8
from .cards import Card, cards_of
from .flow import Flow, beyond
from .names import Path, module_keys, modules, name_cards
from .nodes import drawn_nodes, scopes
from .structure import Structure
from .summary import Summary
from .tree import CARD, RUN, Group, nested, take_in, untangle
from .words import Words

FLAT = 40
"""Items at the top level of a graph above which it is grouped, whoever made it."""


FEW_UNREAD = 3
"""In so many scopes of their own at the top level stands what nothing reads, else in one card."""
_COUNT = ("linear", "norm", "activation", "control")
"""Of the rows of a card, the first that is one of these says what it is."""


@dataclass(frozen=True)
class Groups:
    """The groups of a graph; parents stand before their children."""

    names: list[str]
    """Paths: what ``expanded`` and ``selected`` call a group, the latter with a slash behind it."""
    titles: list[str]
    notes: list[str]
    rows: list[tuple[str, ...]]
    """What the ops of a card do; none of other groups."""
    categories: list[tuple[str, ...]]
    parent: list[int]
    kind: list[int]
    """0 of a block, 1 of a card, 2 of a run of blocks that are alike."""
    like: list[int]
    """The first group of the same structure, itself if it is the first."""
    group: dict[int, int]
    """The innermost group of a node, by the node's ``id``; others stand at the top level."""
    role: dict[int, int]

    def of(self, node: Node) -> int:
        """Return the innermost group of a node, -1 at the top level."""
        return self.group.get(id(node), -1)

    def outermost(self, node: Node) -> int:
        """Return the group of the top level that a node stands in, -1 for none."""
        group = self.of(node)
        while group >= 0 and self.parent[group] >= 0:
            group = self.parent[group]
        return group

    def title(self, group: int) -> str:
        """Return what a group is called: by its title, else by the row that counts."""
        rows = self.rows[group]
        return self.titles[group] or (rows[self._counts(group)] if rows else self.names[group])

    def about(self, group: int) -> str:
        """Return what else is said of a group: its other rows, what it holds, what it makes."""
        title = self.title(group)
        others = [row for row in self.rows[group] if row != title]
        return " · ".join(filter(None, [*others, self.notes[group]]))

    def category(self, group: int) -> str:
        """Return what gives a group its colour: a card the op that counts in it."""
        found = self.categories[group]
        return found[self._counts(group)] if found else "scope"

    def _counts(self, group: int) -> int:
        found = self.categories[group]
        return next((found.index(each) for each in _COUNT if each in found), 0)

    def columns(self, nodes: Sequence[Node]) -> dict[str, Any]:
        """Return what ``GraphModel`` reads of the groups that nodes stand in."""
        return {
            "groups": {
                "names": self.names,
                "titles": self.titles,
                "notes": self.notes,
                "rows": [list(rows) for rows in self.rows],
                "categories": [list(found) for found in self.categories],
                "parent": int32(self.parent),
                "kind": uint8(self.kind),
                "like": int32(self.like),
            },
            "group": int32([self.of(node) for node in nodes]),
            "role": uint8([self.role.get(id(node), 0) for node in nodes]),
        }


_FOUND: WeakKeyDictionary[Graph, tuple[Any, Groups | None]] = WeakKeyDictionary()


def groups_of(graph: Graph) -> Groups | None:
    """Return the groups of a graph, or None where scopes of its own are what is drawn.

    Grouped are graphs that were read from a file of others, those whose maker says what layers they
    have, and those of more than 40 items at their top level. Gradients change nothing about it,
    whether they are built or not.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (1, 8))
    >>> for k in range(30):
    ...     x = gw.nn.relu(gw.nn.linear(x, g.variable(f"w{k}", (8, 8))))
    >>> found = groups_of(g)
    >>> found.titles[0], found.rows[1], found.notes[1]
    ('linear 8 → 8 × 30', ('linear 8 → 8', 'relu'), '1 w')
    """
    nodes = drawn_nodes(graph)
    state = graph.revision, len(nodes), nodes[-1].serial if nodes else -1
    known = _FOUND.get(graph)
    if known is None or known[0] != state:
        is_grouped = bool(graph.known_as or graph.classes) or _is_flat(nodes)
        found = grouped(nodes, graph.classes) if is_grouped else None
        known = _FOUND[graph] = state, found if found and found.names else None
    return known[1]


def scope_paths(graph: Graph) -> set[str]:
    """Return what scopes are called in the drawing of a graph, and their gradients beside them.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> with g.scope("outer"), g.scope("inner"):
    ...     x = g.placeholder("x", ())
    >>> sorted(scope_paths(g))
    ['outer', 'outer/inner']
    """
    found = groups_of(graph)
    known = scopes(graph)
    if found is None:
        return known
    derived = {path for path in known if path.startswith("grad/")}
    losses = {
        node.scope.removesuffix(node.origin.name)
        for node in graph.all_nodes
        if node.origin is not None and node.scope.endswith(f"/{node.origin.name}")
    }
    beside = {loss + name for loss in losses for name in found.names}
    return {*found.names, *derived, *beside, *(f"∂{name}" for name in found.names)}


def _is_flat(nodes: Sequence[Node]) -> bool:
    if len(nodes) <= FLAT:
        return False
    return len({node.name.partition("/")[0] for node in nodes}) > FLAT


def grouped(nodes: Sequence[Node], classes: Mapping[str, str] = MappingProxyType({})) -> Groups:
    """Return the groups of nodes, which may be given in any order.

    ``classes`` say of which class the modules are that scopes stand for, as far as it is known.

    Python's collector rests meanwhile: each time that some thousand lists have been made it would
    walk the whole graph, a third of the time at 50,000 nodes, and there are no circles to be found.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return _grouped(nodes, classes)
    finally:
        if collects:
            gc.enable()


def _grouped(nodes: Sequence[Node], classes: Mapping[str, str]) -> Groups:
    flow = Flow.of(nodes)
    cards, card_of = cards_of(flow, module_keys(flow))
    words = Words(flow)
    for card in cards:
        words.write(card)
    name_cards(flow, cards)
    root = nested(cards)
    untangle(root, cards)
    summary = Summary(flow, cards)
    ties = [[card_of[i] for i in tie if card_of[i] >= 0] for tie in beyond(flow)]
    structure = Structure(cards, summary, ties)
    structure.find(root)
    structure.signs.of(root)  # of all: what is alike is so whatever it is fed with
    take_in(root, structure.is_input, cards)
    kinds = {modules(scope): name for scope, name in classes.items()}
    return _Writer(flow, cards, card_of, words, summary, structure, kinds).write(root)


class _Writer:
    """Numbers the groups of a tree from the outside in."""

    def __init__(
        self,
        flow: Flow,
        cards: Sequence[Card],
        card_of: list[int],
        words: Words,
        summary: Summary,
        structure: Structure,
        kinds: Mapping[Path, str],
    ) -> None:
        self.kinds = kinds
        self.flow, self.cards, self.card_of, self.words = flow, cards, card_of, words
        self.summary, self.structure = summary, structure
        self.ids = list(map(id, flow.nodes))
        role = dict(zip(self.ids, flow.role, strict=True))
        self.out = Groups([], [], [], [], [], [], [], [], {}, role)
        self.firsts: dict[int, int] = {}
        self.taken: dict[str, int] = {}
        """Paths, and how many groups would have each."""
        self.modules = {-1: ""}
        """What the paths begin with of what stands in a group: the modules around it."""

    def write(self, root: Group) -> Groups:
        pending = [(child, -1) for child in reversed(root.children)]
        while pending:
            group, parent = pending.pop()
            number = self._add(group, parent)
            pending += [(child, number) for child in reversed(group.children)]
        self._unread()
        return self.out

    def _add(self, group: Group, parent: int) -> int:
        flow, out = self.flow, self.out
        card: Card | None = None
        if group.kind == CARD:
            card = self.cards[group.card]
            inside = [*card.nodes, *card.side]
            if len(inside) == 1 and flow.nodes[inside[0]].kind == "placeholder":
                out.group[self.ids[inside[0]]] = parent
                return -1
            name = group.name or flow.nodes[self._key_node(card)].name.rpartition("/")[2]
            title, note = group.title, self.words.note(card)
        else:
            title = group.title or self.summary.work(group.cards())
            name, note = group.name or title, self.summary.note(group, title)
            note = " · ".join(filter(None, [self._kind(group), note]))
        number = self._append(group.kind, name, title, note, parent, card)
        self.modules[number] = f"{out.names[number]}/" if group.name else self.modules[parent]
        sign = self.structure.signs.of(group)
        out.like.append(self.firsts.setdefault(sign, number))
        if group.kind == CARD:
            for i in inside:
                out.group[self.ids[i]] = number
        return number

    def _kind(self, group: Group) -> str:
        """Return of which class the module is that a block stands for, of a run each of them."""
        one = group.children[0] if group.kind == RUN else group
        own = one.name.rpartition("/")[2]
        node = self.flow.nodes[self.cards[next(iter(one.cards()))].nodes[0]]
        path = modules(node.scope)
        return self.kinds.get(path[: path.index(own) + 1], "") if own in path else ""

    def _append(
        self, kind: int, name: str, title: str, note: str, parent: int, card: Card | None = None
    ) -> int:
        out = self.out
        path = free = self.modules[parent] + name.replace(":", "_").strip("/")
        while free in self.taken:
            self.taken[path] += 1
            free = f"{path}_{self.taken[path]}"
        self.taken[free] = 1
        out.names.append(free)
        out.titles.append(title)
        out.notes.append(note)
        out.rows.append(card.rows if card else ())
        out.categories.append(card.categories if card else ())
        out.parent.append(parent)
        out.kind.append(kind)
        return len(out.names) - 1

    def _key_node(self, card: Card) -> int:
        """Return the node that a card is called after: the one that reads most, else the first."""
        sources = self.flow.sources
        return max(card.nodes, key=lambda i: len(sources[i]))

    def _unread(self) -> None:
        """What is stored, or sizes, and read by nothing stands in a card of its own.

        It stands where all else of its scope does, as what an adapter keeps for its training.
        """
        out, nodes = self.out, self.flow.nodes
        left = [i for i, k in enumerate(self.card_of) if k < 0]
        scopes = {nodes[i].scope for i in left} - {""}
        around: dict[str, list[int]] = {}
        for node in nodes if scopes else ():
            if node.scope in scopes and node.kind == "array":
                path = self._around(out.of(node))
                around[node.scope] = _shared(around.get(node.scope, path), path)
        at: dict[int, tuple[int, str]] = {}
        cards: dict[tuple[int, str], list[int]] = {}
        for i in reversed(left):  # a constant stands where what reads it does
            group = (around.get(nodes[i].scope) or [-1])[-1]
            module = nodes[i].scope.partition("/")[0] if group < 0 else ""
            readers = {at[k] for k in self.flow.readers[i] if k in at}
            at[i] = readers.pop() if not nodes[i].scope and len(readers) == 1 else (group, module)
            cards.setdefault(at[i], []).insert(0, i)
        if sum(group < 0 for group, _ in cards) > FEW_UNREAD:
            cards = {(-1, ""): left}
        for (group, module), inside in sorted(cards.items()):
            title, note = module or "read by nothing", f"{len(inside)} nodes"
            note = f"{note}, read by nothing" if module else note
            number = self._append(CARD, module or "unread", title, note, group)
            out.like.append(number)
            out.group.update((self.ids[i], number) for i in inside)

    def _around(self, group: int) -> list[int]:
        """Return the blocks around what stands in a group, from the outermost on."""
        path = []
        while group >= 0:
            if self.out.kind[group] != CARD:
                path.append(group)
            group = self.out.parent[group]
        return path[::-1]


def _shared(one: list[int], other: list[int]) -> list[int]:
    """Return what two paths begin with."""
    same = (k for k, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
    return one[: next(same, min(len(one), len(other)))]

"""What a block is called: by the names of what is in it, else by what it does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .cards import Card
from .flow import Flow, rank_of
from .names import given_name
from .tree import CARD, RUN, Group
from .words import op_name

_PRODUCTS = ("matmul", "linear", "gemm")
MOST_WORDS = 3
"""A block of so many kinds of ops is called after them, of more by their number."""


class Summary:
    """Titles and notes of blocks."""

    def __init__(self, flow: Flow, cards: Sequence[Card]) -> None:
        self.flow, self.cards = flow, cards
        self._works: dict[tuple[int, ...], str] = {}

    def of(self, members: Sequence[Group]) -> str:
        """Return the title of a block of these members."""
        names = [g.title for g in members if g.name and any(map(str.isdigit, g.title))]
        if names and all(group.name or group.kind == CARD for group in members):
            return span(names[0], names[-1])
        return self.work(k for group in members for k in group.cards())

    def run(self, blocks: Sequence[Group]) -> str:
        """Return the title of a run: ``layers.0 … layers.11``, or what one does and how often."""
        first, last = (self._title(group) for group in (blocks[0], blocks[-1]))
        return span(first, last) if first != last else f"{first} × {len(blocks)}"

    def _title(self, group: Group) -> str:
        return group.title or self.work(group.cards())

    def work(self, cards: Iterable[int]) -> str:
        """Return what some cards do together: ``attention, 4 heads + mlp``."""
        found = tuple(cards)
        if found not in self._works:
            self._works[found] = self._work(found)
        return self._works[found]

    def _work(self, found: Sequence[int]) -> str:
        flow = self.flow
        nodes = [i for k in found for i in self.cards[k].nodes]
        if len(found) == 1 and self.cards[found[0]].rows:
            return self.cards[found[0]].rows[0]
        names = [op_name(flow.nodes[i].op) for i in nodes]
        convolutions = sum("conv" in name for name in names)
        products = sum(
            name in _PRODUCTS and flow.weight(i, 2) is not None
            for name, i in zip(names, nodes, strict=True)
        )
        if cell := _cell(names, products):
            return cell
        attends = self._heads(names, nodes)
        if attends:
            return attends + (" + mlp" if products > 4 else "")
        joins = any(
            name.startswith("add") and len(flow.main_sources(i)) > 1
            for name, i in zip(names, nodes, strict=True)
        )
        how = ", residual" if joins else ", concat" if "concat" in names else ""
        if convolutions:
            return f"{convolutions} conv{how}"
        if products:
            return f"{products} linear{how}"
        if all(flow.nodes[i].kind == "placeholder" for i in nodes):
            return f"{len(nodes):,} inputs"
        if not flow.readers[nodes[-1]] and (called := given_name(flow.nodes[nodes[-1]])):
            return called
        words = list(dict.fromkeys(name.replace("_", " ") for name in names))
        return ", ".join(words) if len(words) <= MOST_WORDS else f"{len(nodes)} ops"

    def _heads(self, names: Sequence[str], nodes: Sequence[int]) -> str:
        for name, i in zip(names, nodes, strict=True):
            spec = self.flow.nodes[i].outputs[0].spec
            if name == "softmax" and rank_of(spec) == 4:
                return f"attention, {spec.shape[1]} heads"
            if "attention" in name:
                heads = getattr(self.flow.nodes[i].op, "num_heads", None)
                return f"attention, {heads} heads" if heads else "attention"
        return ""

    def note(self, group: Group, title: str) -> str:
        """Return what a block does beside what its title says, and the shape that it ends with.

        Of a run it is what each of its blocks does: ``6 × (2 conv, concat) → 256×56×56``.
        """
        one = group.children[0] if group.kind == RUN else group
        work = self.work(one.cards())
        if group.kind == RUN:
            work = f"{len(group.children)} × ({work})"
        told = "" if title.startswith(self.work(one.cards())) else work
        shape = self._result(group)
        return " · ".join(filter(None, [group.note, " ".join(filter(None, [told, shape]))]))

    def _result(self, group: Group) -> str:
        """Return the shape that a group ends with, without a batch of one: ``→ 64×56×56``."""
        while group.children:
            group = group.children[-1]
        spec = self.flow.nodes[self.cards[group.card].nodes[-1]].outputs[0].spec
        if rank_of(spec) < 1:
            return ""
        sizes = [str(size) for k, size in enumerate(spec.shape) if k or str(size) != "1"]
        return f"→ {'×'.join(sizes)}"


def _cell(names: Sequence[str], products: int) -> str:
    """Return what a step of a recurrent network is called, by its gates."""
    gates, tanh = names.count("sigmoid"), names.count("tanh")
    if not products or not tanh or len(names) > 40:
        return ""
    return "lstm cell" if (gates, tanh) == (3, 2) else "gru cell" if (gates, tanh) == (2, 1) else ""


def span(first: str, last: str) -> str:
    """Return a title from the first to the last of several.

    >>> span("conv2_1", "conv2_6"), span("a … b", "b … c"), span("fc", "fc")
    ('conv2_1 … conv2_6', 'a … c', 'fc')
    """
    first, last = first.partition(" … ")[0], last.rpartition(" … ")[2]
    return first if first == last else f"{first} … {last}"

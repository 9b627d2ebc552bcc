"""Chains: what the adapters of a graph have made of each output, one behind the other.

    base ─ adapter 1 ─ adapter 2 ─ ... ─ handle

The handle is the tensor that the user holds, and that all else reads. An adapter is switched off by
having what stands behind it read what stands before it: its nodes stay, and cost nothing.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..graph import Edit, Graph, Node, Tensor
from .site import Use

if TYPE_CHECKING:
    from .adapted import Adapted
    from .built import Built


@dataclass
class Link:
    """What one adapter has made of a tensor."""

    adapter: str
    before: Tensor
    after: Tensor
    nodes: list[Node]


@dataclass
class Chain:
    """The links behind one tensor: an output of a layer, or the weight that an op reads."""

    base: Tensor
    handle: Tensor | None
    """The output; None where it is a weight."""
    reader: Use
    links: list[Link] = field(default_factory=list)

    @property
    def ends(self) -> set[Node]:
        """What it begins and ends with."""
        return {
            self.base.node,
            self.reader.node,
            *([] if self.handle is None else [self.handle.node]),
        }

    def nodes(self) -> set[Node]:
        """Return what it begins with, and all that its links have made."""
        return {self.base.node, *(node for link in self.links for node in link.nodes)}

    @property
    def last(self) -> Tensor:
        """What the handle reads, or the op."""
        if self.handle is None:
            return self.reader.weight
        read = self.handle.node.inputs[0]
        assert read is not None
        return read

    def before(self, i: int, active: Collection[str]) -> Tensor:
        """Return what a link of that number reads, or would read."""
        made = [link.after for link in self.links[:i] if link.adapter in active]
        return made[-1] if made else self.base

    def connect(self, edit: Edit, active: Collection[str]) -> None:
        """Have each active link read the one before it, and the handle the last."""
        at = self.base
        for link in self.links:
            if link.adapter in active:
                _read(edit, link, at)
                at = link.after
        if self.last is not at:
            node = self.reader.node if self.handle is None else self.handle.node
            edit.replace_use(self.last, at, of=[node])

    def leave_out(self, edit: Edit, gone: Link) -> None:
        """Take out a link that is not active; what is not active either may have read it."""
        self.links = [link for link in self.links if link is not gone]
        for link in self.links:
            if link.before is gone.after:
                _read(edit, link, gone.before)


def _read(edit: Edit, link: Link, at: Tensor) -> None:
    """Have a link read ``at``."""
    if link.before is not at:
        own = [n for n in link.nodes if any(t is link.before for t in n.inputs)]
        edit.replace_use(link.before, at, of=own)
        link.before = at


class Adapters:
    """What a graph knows of its adapters: their handles by name, and the chains they stand in."""

    def __init__(self) -> None:
        self.named: dict[str, Adapted] = {}
        self.active: set[str] = set()
        self.chains: dict[Tensor | tuple[Node, int], Chain] = {}
        """By output, or by the op and input that read a weight."""
        self.references: set[Node] = set()
        """What `Adapted.reference` has made."""
        self.left: dict[Node, None] = {}
        """Constants of adapters that are gone, which others read, too."""
        self.swapped: list[tuple[Built, str]] = []
        """Whose values have taken the place of a variable's own, the last one last."""
        self.frozen: dict[Tensor, None] = {}
        """What was trained before there were any."""

    def to_json(self) -> Any:
        """Return what an archive keeps."""
        return keeping["kept"](self)

    @property
    def outer(self) -> dict[Tensor, Tensor]:
        """By base, the handle that stands for it."""
        return {c.base: c.handle for c in self.chains.values() if c.handle is not None}

    @contextlib.contextmanager
    def edit(self, graph: Graph) -> Iterator[Edit]:
        """Edit graph and chains, both or none."""
        before = {k: copy.copy(v) for k, v in vars(self).items() if k != "chains"}
        held = {key: (c, [replace(link) for link in c.links]) for key, c in self.chains.items()}
        try:
            with graph.edit() as edit:
                yield edit
        except BaseException:
            vars(self).update(before)
            self.chains = {key: replace(c, links=links) for key, (c, links) in held.items()}
            raise

    def nodes(self) -> set[Node]:
        """Return all nodes of adapters and references, in which no adapter stands."""
        links = [link.nodes for chain in self.chains.values() for link in chain.links]
        apart = [one.nodes_apart for one in self.named.values()]
        return self.references.union(*links, *apart)

    def variables(self) -> set[Tensor]:
        """Return all variables of adapters."""
        return {t for one in self.named.values() for t in one.own}

    def freeze(self, graph: Graph) -> None:
        """Train variables of adapters and what these thaw, and nothing else."""
        own, thawed = self.variables(), {t for one in self.named.values() for t in one.thawed}
        for t in graph.trainable:
            if t not in own:
                self.frozen[t] = None
                if t not in thawed:
                    graph.set_trainable(t, False)
        for t in thawed:
            graph.set_trainable(t, True)

    def thaw(self, graph: Graph) -> None:
        """Train what was trained before, if no adapter is left."""
        if not self.named:
            for t in self.frozen:
                if graph.get(t.name) is t:
                    graph.set_trainable(t, True)
            self.frozen = {}

    def connect(self, edit: Edit) -> None:
        """Have all chains read what is active."""
        for chain in self.chains.values():
            chain.connect(edit, self.active)
        for name, one in self.named.items():
            if one.is_on != (on := name in self.active):
                one.is_on = on
                for node, op in one.adapter.rebound(one.places, on=on).items():
                    edit.change(node, op)


keeping: dict[str, Callable[..., Any]] = {}
"""How they are written to archives, ``kept``, and read, ``restored``."""


def adapters_of(graph: Graph) -> Adapters:
    """Return what a graph knows of its adapters; of one that was read from an archive, too."""
    found = graph.notes.setdefault("adapters", Adapters())
    if not isinstance(found, Adapters):
        graph.notes["adapters"] = found = keeping["restored"](graph, found)
    known: Adapters = found
    return known

"""Bottleneck adapters: small networks in the residual branches of a model (Houlsby et al. 2019)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from ...errors import GraphError
from ...graph import Graph, Node, Tensor, Variable, ancestors
from ...init import normal
from ...op import Op
from ...ops.core.activation import Gelu, LeakyRelu, Relu, Sigmoid, Silu, Tanh
from ...ops.core.elementwise import Add
from ...ops.matrices.linalg import Matmul
from ...words.jsonable import jsonable
from ..adapter import Adapter, Leaf, Leaves, added
from ..chain import adapters_of
from ..settings import as_kaiming
from ..site import Place, Site, Use
from ..targeting import Where, chosen

ATTENTION, MLP = "attention", "mlp"
ACTIVATIONS: dict[str, type[Op] | None] = {
    "relu": Relu,
    "swish": Silu,
    "silu": Silu,
    "gelu": Gelu,
    "tanh": Tanh,
    "sigmoid": Sigmoid,
    "leakyrelu": LeakyRelu,
    "linear": None,
}


class Preset(NamedTuple):
    """Where adapters stand, and what they are like unless something else is said."""

    branches: tuple[str, ...]
    reduction_factor: float
    activation: str
    scaling: float
    init: str


PRESETS = {
    "pfeiffer": Preset((MLP,), 16, "relu", 1.0, "bert"),
    "houlsby": Preset((ATTENTION, MLP), 16, "swish", 1.0, "bert"),
    "parallel": Preset((MLP,), 2, "relu", 4.0, "mam"),
}


@jsonable
@dataclass(frozen=True)
class Bottleneck(Adapter):
    """A network of one narrow layer in residual branches, f(h) = s·(W_up·act(W_down·h + b) + c).

    With r the stream before a branch and m what the branch adds to it, r + m becomes

        pfeiffer    r + m + f(r + m)      behind each MLP               (Pfeiffer et al. 2021)
        houlsby     r + m + f(m)          behind attention and MLP      (Houlsby et al. 2019)
        parallel    r + m + f(r)          beside each MLP               (He et al. 2022)

    A branch is found by its sum: what is added depends on what it is added to, through weights. One
    that multiplies computed tensors with each other is attention. It cannot be merged.

    Args:
        placement: one of these.
        reduction_factor: the width is that of the stream divided by it, at least 1; None: 16, and
            2 of ``parallel``.
        activation: None: ``"swish"`` of ``houlsby``, else ``"relu"``.
        scaling: s; None: 4 of ``parallel``, else 1.
        init: ``"bert"``: normal of deviation 0.02; ``"mam"``: W_up zero, W_down uniform in ±1/√d,
            so that the model is what it was. None: ``"mam"`` of ``parallel``, else ``"bert"``.

    Raises GraphError for a model without such branches.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=9, width=32, layers=1, heads=2))
    >>> adapted = gw.adapters.add(model, gw.adapters.Bottleneck("houlsby"))
    >>> [p.name for p in adapted.places], adapted.parameters[0].shape
    (['layer0/attention', 'layer0/mlp'], (2, 32))
    """

    kinds: ClassVar[frozenset[str]] = frozenset({"block"})
    placement: str = "pfeiffer"
    reduction_factor: float | None = None
    activation: str | None = None
    scaling: float | None = None
    init: str | None = None

    def __post_init__(self) -> None:
        for name, value, known in (
            ("placement", self.placement, tuple(PRESETS)),
            ("activation", self.activation, (None, *ACTIVATIONS)),
            ("init", self.init, (None, "bert", "mam")),
        ):
            if value not in known:
                raise GraphError(f"{name}={value!r} is not known", need=", ".join(map(str, known)))
        if self.reduction_factor is not None and not self.reduction_factor > 0:
            raise GraphError(f"reduction_factor={self.reduction_factor!r}", need="a number above 0")

    @property
    def settings(self) -> Preset:
        """What it is like, with the preset where nothing is said."""
        own = {
            name: value
            for name in ("reduction_factor", "activation", "scaling", "init")
            if (value := getattr(self, name)) is not None
        }
        return PRESETS[self.placement]._replace(**own)

    def width(self, place: Place) -> int:
        """Return the width of the narrow layer at a place."""
        return max(1, int(_features(place) / self.settings.reduction_factor))

    def places(
        self, sites: Sequence[Site], where: Where, layers: Any = None, exclude: Where = None
    ) -> Sequence[Place]:
        found = [
            Place(
                name=branch.name,
                kind="block",
                dtype=branch.total.dtype,
                uses=(Use(branch.total.node, 0, branch.total, x=self._input(branch)),),
            )
            for branch in branches(sites)
            if branch.kind in self.settings.branches
        ]
        if not found:
            raise GraphError(
                "the model has no residual branches that it could stand in",
                need="sums h + f(h) with weights in f",
                hint="gw.adapters.LoRA()",
            )
        return chosen(found, where, layers=layers, exclude=exclude)

    def variables(self, place: Place) -> Mapping[str, Leaf]:
        d, width, is_mam = _features(place), self.width(place), self.settings.init == "mam"
        down = as_kaiming((width, d)) if is_mam else normal(std=0.02)
        return {
            "adapter_down.0.weight": Leaf((width, d), down),
            "adapter_down.0.bias": Leaf((width,)),
            "adapter_up.weight": Leaf((d, width), 0.0 if is_mam else normal(std=0.02)),
            "adapter_up.bias": Leaf((d,)),
        }

    def apply(self, place: Place, use: Use, x: Tensor, y: Tensor, p: Leaves) -> Tensor:
        if self.placement == "pfeiffer":
            x = y  # with what stands before it
        activation = ACTIVATIONS[self.settings.activation]
        h = x @ p["adapter_down.0.weight"].mT + p["adapter_down.0.bias"]
        if activation is not None:
            h = activation()(h)
        h = h @ p["adapter_up.weight"].mT + p["adapter_up.bias"]
        return added(y, h if self.settings.scaling == 1 else h * self.settings.scaling)

    def changed(self, place: Any, w: Tensor, p: Leaves) -> Tensor:
        raise GraphError(f"a bottleneck at {place.name!r} is no change of a weight")

    def _input(self, branch: Branch) -> Tensor:
        found = {"pfeiffer": branch.total, "houlsby": branch.made, "parallel": branch.stream}
        return found[self.placement]


class Branch(NamedTuple):
    """A residual branch: ``total`` = ``stream`` + ``made``."""

    name: str
    kind: str
    stream: Tensor
    made: Tensor
    total: Tensor


def branches(sites: Sequence[Site]) -> list[Branch]:
    """Return the residual branches of the graph that sites stand in, in its order.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (None, 3)) * 2.0
    >>> _ = x + gw.nn.relu(x @ g.variable("a/w", (3, 3))) @ g.variable("a/v", (3, 3))
    >>> [(b.name, b.kind) for b in branches(gw.adapters.sites(g))]
    [('a/mlp', 'mlp')]
    """
    if not sites:
        return []
    graph: Graph = sites[0].weight.graph
    outer = adapters_of(graph).outer
    weighed = {use.node: site.name for site in sites for use in site.uses}
    found: list[Branch] = []
    for node in graph.nodes:
        a, b = node.inputs if isinstance(node.op, Add) and len(node.inputs) == 2 else (None, None)
        total = node.outputs[0] if node.outputs else None
        if a is None or b is None or total is None or not a.shape == b.shape == total.shape:
            continue
        for stream, made in ((a, b), (b, a)):
            inside = ancestors([made], stop={stream: stream})
            names = [weighed[n] for n in inside if n in weighed]
            if names and any(t is stream for n in inside for t in n.inputs):
                kind = ATTENTION if any(_is_attention(n) for n in inside) else MLP
                name = _name(names, kind, [branch.name for branch in found])
                found.append(Branch(name, kind, stream, made, outer.get(total, total)))
                break
    return found


def _is_attention(node: Node) -> bool:
    """Tell whether a node is attention, or multiplies two tensors that are both computed."""
    if "attention" in node.op.name:
        return True
    pair = node.inputs[:2]
    return isinstance(node.op, Matmul) and not any(
        isinstance(n.op, Variable) and t is not None and n.outputs[0].rank == t.rank
        for t in pair
        if t is not None
        for n in _sources(t)
    )


def _sources(t: Tensor) -> Collection[Node]:
    """Return the nodes that a tensor is a view of, itself among them."""
    found = [t.node]
    while len(found[-1].inputs) == 1 and found[-1].inputs[0] is not None:
        found.append(found[-1].inputs[0].node)
    return found


def _name(weights: Sequence[str], kind: str, taken: Collection[str]) -> str:
    """Return what a branch is called: after what its weights' names have in common."""
    parts = [re.split(r"[/.]", name)[:-1] for name in weights]
    common = []
    for same in zip(*parts, strict=False):
        if len(set(same)) > 1:
            break
        common.append(same[0])
    stem = "/".join([*common, kind])
    n = sum(name == stem or name.startswith(f"{stem}.") for name in taken)
    return f"{stem}.{n}" if n else stem


def _features(place: Place) -> int:
    output = place.uses[0].output
    assert output is not None
    return int(output.shape[-1])

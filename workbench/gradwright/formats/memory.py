"""How much memory a model would take, estimated from shapes alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import GraphError
from ..graph import Constant, Graph, Source, Variable
from ..shared import machine_bytes
from ..spec import Dim, TensorSpec, is_floating
from ..words.spelling import meant
from ..words.tables import size


@dataclass(frozen=True)
class Use:
    """A node as memory sees it: the specs of its results, and which nodes it reads, by number.

    ``stored`` nodes hold values of the file or what is fed; their memory is counted by itself.
    """

    results: tuple[TensorSpec, ...]
    reads: tuple[int, ...] = ()
    stored: bool = False


@dataclass(frozen=True)
class Memory:
    """An estimate in bytes: ``weights``, ``inputs`` and results of nodes at certain ``sizes``.

    ``results`` are all of them together, ``peak`` those that lie at once when each is dropped after
    its last reader, in the order of the file. ``unknown`` counts results whose sizes are told by
    values; they are not in it.
    """

    sizes: Mapping[str, int]
    weights: int
    floating: int
    inputs: int
    results: int
    peak: int
    unknown: int = 0
    cache: int = 0

    @property
    def run(self) -> int:
        """Bytes to run it: weights, inputs, caches, and the results that lie at once."""
        return self.weights + self.inputs + self.cache + self.peak

    @property
    def train(self) -> int:
        """Bytes to train it: three more of each floating weight, and all results."""
        return self.weights + 3 * self.floating + self.inputs + self.results

    @property
    def counts(self) -> str:
        """What is counted, in a sentence."""
        kept = ", keys and values of all positions, a prompt read at once" if self.cache else ""
        said = (
            f"counted: weights, inputs{kept} and results of nodes; to train, also a gradient and "
            "Adam's two numbers for each weight. Not counted: what an op needs inside, and bodies "
            "of loops and branches"
        )
        unknown = f"; {self.unknown:,} results of sizes that only a run knows are left out"
        return said + (unknown if self.unknown else "")

    def __str__(self) -> str:
        at = ", ".join(f"{name} = {n:,}" for name, n in self.sizes.items())
        return f"{size(self.run)} to run, {size(self.train)} to train" + (f" at {at}" if at else "")

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers, and what they count, as JSON has them."""
        return {
            **asdict(self),
            "run": self.run,
            "train": self.train,
            "counts": self.counts,
            "machine": machine_bytes(),
            "fits": self.fits,
        }

    @property
    def fits(self) -> dict[str, bool]:
        """Whether this machine has the memory to ``"run"`` and to ``"train"`` it."""
        held = machine_bytes()
        return {"run": self.run <= held, "train": self.train <= held}

    def beside_machine(self) -> str:
        """Return in words what fits into the memory of this machine."""
        does = [what for what, fits in self.fits.items() if fits]
        said = f"enough to {' and to '.join(does)} it" if does else "not enough to run it"
        return f"{size(machine_bytes())}: {said}"


def estimated(
    uses: Sequence[Use],
    weights: Iterable[TensorSpec],
    inputs: Iterable[TensorSpec],
    sizes: Mapping[str, int],
) -> Memory:
    """Return the estimate for nodes in the order in which they run.

    >>> from gradwright.formats.memory import Use, estimated
    >>> from gradwright import Dim, TensorSpec
    >>> row = TensorSpec((Dim.symbol("B"), 4), "float32")
    >>> uses = [Use((row,), (), True), Use((row,), (0,)), Use((row,), (1,)), Use((row,), (2,))]
    >>> found = estimated(uses, [TensorSpec((4, 4), "float32")], [row], {"B": 2})
    >>> found.weights, found.inputs, found.results, found.peak, found.run, found.train
    (64, 32, 96, 64, 160, 384)
    """
    held = list(weights)
    floating = sum(spec.nbytes for spec in held if is_floating(spec.dtype))
    nbytes, unknown = [], 0
    for use in uses:
        specs = [spec.substitute(sizes) for spec in use.results]
        known = [spec for spec in specs if spec.is_concrete and not spec.by_reference]
        unknown += len(specs) - len(known)
        nbytes.append(0 if use.stored else sum(spec.nbytes for spec in known))
    last = {n: i for i, use in enumerate(uses) for n in use.reads}
    ends: dict[int, list[int]] = {}
    for n, i in last.items():
        ends.setdefault(i, []).append(n)
    lying = peak = 0
    for i, n in enumerate(nbytes):
        lying += n
        peak = max(peak, lying)
        lying -= sum(nbytes[k] for k in ends.get(i, ()))
    total = sum(spec.nbytes for spec in held)
    fed = [spec.substitute(sizes) for spec in inputs]
    taken = sum(spec.nbytes for spec in fed if spec.is_concrete and not spec.by_reference)
    return Memory(dict(sizes), total, floating, taken, sum(nbytes), peak, unknown)


def memory_of(graph: Graph, sizes: Mapping[str, int]) -> Memory:
    """Return the estimate for a graph at certain sizes of its inputs.

    >>> import gradwright as gw
    >>> from gradwright.formats.memory import memory_of
    >>> g = gw.Graph()
    >>> y = g.placeholder("x", ("B", 4)) @ g.variable("w", (4, 2))
    >>> found = memory_of(g, {"B": 8})
    >>> found.weights, found.inputs, found.results
    (32, 128, 64)
    """
    inputs = {t.name: t.spec for t in graph.placeholders}
    check_sizes(sizes, inputs)
    held = [n.outputs[0].spec for n in graph.nodes if isinstance(n.op, Variable | Constant)]
    return estimated(list(uses(graph)), held, inputs.values(), sizes)


def uses(graph: Graph) -> Iterator[Use]:
    """Yield the nodes of a graph as memory sees them."""
    place = {node: i for i, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        reads = tuple(place[t.node] for t in node.inputs if t is not None and t.node in place)
        yield Use(tuple(t.spec for t in node.outputs), reads, isinstance(node.op, Source))


def check_sizes(sizes: Mapping[str, int], specs: Mapping[str, TensorSpec]) -> None:
    """Raise GraphError where the inputs' symbols and the given sizes differ."""
    symbols: dict[str, str] = {}
    for name, spec in specs.items():
        for d in spec.shape:
            if isinstance(d, Dim):
                symbols |= dict.fromkeys(sorted(d.symbols), f"{name} {spec}")
    for name, n in sizes.items():
        if name not in symbols:
            close = meant(str(name), symbols)
            raise GraphError(
                f"no input has a size {name!r}",
                need=", ".join(symbols) or "no sizes: all are stated",
                hint=f"did you mean {close!r}?" if close else "",
            )
        if type(n) is not int or n < 0:
            raise GraphError(f"the size {name!r} is {n!r}", need="an integer of 0 or more")
    if missing := symbols.keys() - sizes.keys():
        first = min(missing)
        raise GraphError(
            f"the size {first!r} is not given",
            facts=[symbols[first]],
            hint=f"sizes={{{', '.join(f'{name!r}: 8' for name in symbols)}}}",
        )

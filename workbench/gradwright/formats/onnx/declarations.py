"""What a model declares: its names, made such as a graph takes, and types of inputs as specs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ...errors import ArchiveError, GraphError
from ...spec import AnyDim, Dim, TensorSpec
from ...spec.containers import OptionalSpec, SequenceSpec
from ...spec.dims import reserve_symbols
from ...spec.one_of import one_of
from .dtypes import from_element_type
from .node import MOST, check_rank

if TYPE_CHECKING:
    from onnx import TypeProto, ValueInfoProto

Shapes = Mapping[str, Sequence[int | str | None]]
"""Input of a model -> its shape: sizes, symbols, or None for any size."""


def clean_name(name: str) -> str:
    """Return a name that a graph takes: printable, without ``:`` and empty parts.

    >>> from gradwright.formats.onnx.declarations import clean_name
    >>> clean_name("/encoder/layer.0//MatMul:0")
    'encoder/layer.0/MatMul_0'
    """
    text = name.replace(":", "_")
    if not text.isprintable():
        text = "".join(c if c.isprintable() else "_" for c in text)
    text = "/".join(filter(None, text.split("/"))) or "value"
    return "rng_" if text == "rng" else text


def clean_symbol(name: str) -> str:
    """Return a name that a dimension takes: letters, digits and ``_``."""
    text = re.sub(r"\W", "_", name)
    return text if text.isidentifier() else f"_{text}"


def distinct(names: Iterable[str], clean: Callable[[str], str]) -> dict[str, str]:
    """Return a clean name for each name, no two alike; what is clean stays as it is.

    >>> from gradwright.formats.onnx.declarations import clean_name, distinct
    >>> distinct(["/y", "y", "a:0", "a_0"], clean_name)
    {'/y': 'y_1', 'y': 'y', 'a:0': 'a_0_1', 'a_0': 'a_0'}
    """
    found = {name: clean(name) for name in names}
    taken = {name for name, ours in found.items() if name == ours}
    for name, base in found.items():
        if name == base:
            continue
        n = 0
        while found[name] in taken:
            n += 1
            found[name] = f"{base}_{n}"
        taken.add(found[name])
    return found


class Sizes:
    """Dimensions for the sizes that a model names; one without a name is a dimension of its own.

    >>> from gradwright.formats.onnx.declarations import Sizes
    >>> sizes = Sizes(["h-in", "h_in", "?"])
    >>> sizes.named("h-in", "x", 0), sizes.named("h_in", "x", 1), sizes.named("?", "x", 2)
    (h_in_1, h_in, x_2)
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._symbols = distinct(filter(_is_name, names), clean_symbol)
        self._taken = set(self._symbols.values())
        reserve_symbols(self._taken)

    def named(self, name: str, tensor: str, axis: int) -> Dim:
        """Return the dimension that a name stands for; ``?`` and the like are no names."""
        if name in self._symbols:
            return Dim.symbol(self._symbols[name])
        return self.unknown(tensor, axis)

    def unknown(self, tensor: str, axis: int) -> Dim:
        """Return a dimension that is called by its place."""
        symbol = clean_symbol(f"{tensor}_{axis}")
        while symbol in self._taken:
            symbol += "_"
        self._taken.add(symbol)
        return Dim.symbol(symbol)


def _is_name(text: str) -> bool:
    return re.search(r"[^\W_]", text) is not None


def _is_size(d: object) -> bool:
    return d is None or isinstance(d, str) or (type(d) is int and d >= 0)


def input_specs(inputs: Sequence[ValueInfoProto], shapes: Shapes) -> dict[str, TensorSpec]:
    """Return the specs of the inputs of a model by name."""
    if not isinstance(shapes, Mapping):
        raise GraphError(f"shapes={shapes!r} makes no sense", need='{"input": (size, ...)}')
    for name, shape in shapes.items():
        sizes_only = isinstance(shape, list | tuple) and all(map(_is_size, shape))
        if not sizes_only:
            raise GraphError(
                f"shapes= says that {name!r} is {shape!r}",
                need="a tuple of sizes, symbols, and None for any size",
            )
    unknown = sorted({str(name) for name in shapes} - {info.name for info in inputs})
    if unknown:
        raise GraphError(
            f"shapes= names {unknown[0]!r}, which is no input",
            need=", ".join(info.name for info in inputs) or "nothing: the model has no input",
        )
    given = [d for shape in shapes.values() for d in shape if isinstance(d, str)]
    sizes = Sizes([*given, *(name for info in inputs for name in sizes_of(info.type))])
    return {
        info.name: _stated(info, shapes[info.name], sizes)
        if info.name in shapes
        else spec_of_type(info.type, info.name, sizes)
        for info in inputs
    }


def sizes_of(proto: TypeProto) -> Iterator[str]:
    """Yield the names of sizes in a type, and in what it holds."""
    yield from (d.dim_param for d in proto.tensor_type.shape.dim)
    for inner in (proto.sequence_type, proto.optional_type):
        if inner.HasField("elem_type"):
            yield from sizes_of(inner.elem_type)


def _stated(info: ValueInfoProto, shape: Sequence[int | str | None], sizes: Sizes) -> TensorSpec:
    """Return the spec of an input of the shape that the caller states, if the model allows it."""
    if not info.type.HasField("tensor_type"):
        raise GraphError(f"shapes= states a shape of {info.name!r}, which is no tensor")
    tensor = info.type.tensor_type
    held = [d.dim_value if d.dim_value > 0 else None for d in tensor.shape.dim]
    fits = not tensor.HasField("shape") or (
        len(held) == len(shape)
        and all(n in (d, None) or not isinstance(d, int) for n, d in zip(held, shape, strict=True))
    )
    if not fits:
        raise GraphError(
            f"shapes= says that {info.name!r} is {list(shape)}",
            need=f"what fits {['?' if n is None else n for n in held]}, as the model says",
        )
    dims: list[AnyDim] = [
        d if isinstance(d, int) else sizes.named(d or "?", info.name, axis)
        for axis, d in enumerate(shape)
    ]
    return TensorSpec(dims, from_element_type(tensor.elem_type))


def spec_of_type(proto: TypeProto, name: str, sizes: Sizes | None = None) -> TensorSpec:
    """Return the spec of a type: a tensor, a sequence of tensors, or an optional of these.

    A tensor of which no rank is stated may have any, until something that takes it tells.
    """
    sizes = sizes or Sizes()
    if proto.HasField("sequence_type"):
        item = proto.sequence_type.elem_type
        shape = item.tensor_type.shape
        if not item.tensor_type.HasField("shape") or not shape.dim:  # models state [] for any
            return SequenceSpec(None, from_element_type(item.tensor_type.elem_type))
        inner = spec_of_type(item, name, sizes)
        return SequenceSpec(inner.shape, inner.dtype)
    if proto.HasField("optional_type"):
        return OptionalSpec(spec_of_type(proto.optional_type.elem_type, name, sizes))
    if not proto.HasField("tensor_type"):
        raise ArchiveError(f"the input {name[:60]!r} is no tensor", need="tensors and sequences")
    tensor = proto.tensor_type
    if not tensor.HasField("shape"):
        unknown = [sizes.unknown(name, axis) for axis in range(MOST)]
        d = from_element_type(tensor.elem_type)
        return one_of([TensorSpec(unknown[:rank], d) for rank in range(MOST + 1)])
    check_rank(len(tensor.shape.dim))
    dims: list[AnyDim] = []
    for axis, d in enumerate(tensor.shape.dim):
        if not d.HasField("dim_value"):
            dims.append(sizes.named(d.dim_param, name, axis))
        elif d.dim_value < 0:  # how some exporters write a size that is not known
            dims.append(sizes.unknown(name, axis))
        else:
            dims.append(d.dim_value)
    return TensorSpec(dims, from_element_type(tensor.elem_type))

"""What ONNX's own schemas say of an operator: its attributes, and what it is made of."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import ArchiveError
from ...op.declare import REQUIRED, Attr
from ..foreign import attribute
from ..foreign.attributes import settled

if TYPE_CHECKING:
    from .node import OnnxNode

_KINDS = {
    "INT": "int", "FLOAT": "float", "STRING": "str", "INTS": "ints", "FLOATS": "floats",
    "STRINGS": "strs", "TENSOR": "array", "GRAPH": "graph",
}  # fmt: skip
"""Types of attributes as schemas call them; of the others, values are not looked at."""


@functools.lru_cache(maxsize=4096)
def schema_of(domain: str, op_type: str, version: int) -> Any:
    """Return the schema of an operator, None where ONNX has none of its name, or no more."""
    import onnx

    try:
        schema: Any = onnx.defs.get_schema(op_type, version, domain)
    except (onnx.defs.SchemaError, TypeError):  # a version beyond 32 bits
        return None
    return None if schema.deprecated else schema  # which says nothing any more


@functools.lru_cache(maxsize=4096)
def declared(domain: str, op_type: str, version: int) -> Mapping[str, Attr] | None:
    """Return the attributes of an operator, None where no schema of ONNX's is of its name.

    Defaults are left out: readers know them, and tell what is stated from what is not.

    >>> from gradwright.formats.onnx.schemas import declared
    >>> declared("", "Concat", 18)["axis"].type, declared("mine", "Concat", 1)
    ('int', None)
    """
    schema = schema_of(domain, op_type, version)
    if schema is None:
        return None
    return {
        name: attribute(_KINDS.get(a.type.name, "any"), REQUIRED if a.required else None)
        for name, a in schema.attributes.items()
    }


def present(domain: str, op_type: str, version: int, outputs: Sequence[str]) -> list[str]:
    """Return the outputs of a node without unnamed ones at the end, as if these were not there.

    They stay where there may be any number: how many parts a Split has says how large they are.

    >>> from gradwright.formats.onnx.schemas import present
    >>> present("", "Split", 13, ["a", ""]), present("", "Dropout", 13, ["y", ""])
    (['a', ''], ['y'])
    """
    schema, found = schema_of(domain, op_type, version), list(outputs)
    if schema is None or not str(schema.outputs[-1].option).endswith("Variadic"):
        while found and not found[-1]:
            found.pop()
    return found


def check_node(node: OnnxNode, inputs: Sequence[str]) -> None:
    """Raise ArchiveError where a node states what its schema does not have, or lacks an input.

    Nor may it have more inputs, or an attribute of another type.
    """
    known = declared(node.domain, node.op_type, node.version)
    if known is None:
        return
    settled(node.op_type, node.attributes, known, node.dtype_of)
    schema = schema_of(node.domain, node.op_type, node.version)
    given = [bool(name) for name in inputs]
    needed = [str(formal.option).endswith("Single") for formal in schema.inputs]
    lacks = any(need and not has for need, has in zip(needed, given, strict=False))
    if lacks or not schema.min_input <= len(given) <= schema.max_input:
        names = [f.name if n else f"[{f.name}]" for f, n in zip(schema.inputs, needed, strict=True)]
        raise ArchiveError(
            f"{node.op_type} has {sum(given)} inputs of {len(given)}",
            need=", ".join(names) or "no inputs",
        )

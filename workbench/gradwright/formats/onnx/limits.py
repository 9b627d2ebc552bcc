"""Limits of what a model may ask for, checked before anything is built of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ...errors import ArchiveError
from .model import MAX_DEPTH, Model, graphs_of, opsets

if TYPE_CHECKING:
    from onnx import NodeProto

MAX_VERSION = (1 << 31) - 1
"""Of a domain that is not ONNX's own; its schemas have 32 bits for one."""
MAX_NODES = 200_000
"""Nodes of which a model may be made through functions, however small its file: 10 s to build."""


def check_limits(model: Model) -> None:
    """Raise ArchiveError for versions that are none, and for functions that call without end.

    Forty functions, each of which calls another one twice, are a kilobyte and 10^12 nodes.
    """
    for imports in (model.proto.opset_import, *(f.opset_import for f in model.proto.functions)):
        _check_versions(opsets(imports))
    sizes: dict[tuple[str, str, str], int] = {}
    stored = 0

    def size(nodes: Iterable[NodeProto], depth: int) -> int:
        """Return of how many nodes they are made."""
        nonlocal stored
        if depth > MAX_DEPTH:
            raise ArchiveError(
                f"sub-graphs or functions nest deeper than {MAX_DEPTH}, or call themselves"
            )
        total = 0
        for node in nodes:
            stored += 1
            total += 1 + sum(size(inner.node, depth + 1) for inner in graphs_of(node))
            if (called := model.function(node)) is not None:
                key = called.domain, called.name, called.overload
                if key not in sizes:
                    sizes[key] = size(called.node, depth + 1)
                total += sizes[key]
        return total

    total = size(model.proto.graph.node, 0)
    if total > max(MAX_NODES, 4 * stored):
        raise ArchiveError(
            f"through its functions the model is made of {total:,} nodes",
            need=f"{max(MAX_NODES, 4 * stored):,} at most",
        )


def _check_versions(versions: Mapping[str, int]) -> None:
    from onnx import defs

    newest = {"": defs.onnx_opset_version()}
    for domain, version in versions.items():
        most = newest.get(domain, MAX_VERSION)
        if not 1 <= version <= most:
            raise ArchiveError(
                f"the model is of opset {version:,} of {domain[:60] or 'ai.onnx'!r}",
                need=f"1 to {most:,}",
                hint="a newer onnx package, or the model in an older opset",
            )

"""What a card says: a row for each op, as one would write it on a blackboard."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gradwright.spec import TensorSpec

from .cards import Card
from .flow import SHAPE, STORED, Flow, rank_of
from .names import given_name

_AFFINE = {"mul": "scale", "div": "scale", "add": "shift", "sub": "shift"}
_MOVES = frozenset({"reshape", "transpose", "expand_dims", "squeeze", "swapaxes", "flatten",
                    "reshape_like", "broadcast_to", "identity", "cast"})  # fmt: skip


class Words:
    """Writes the rows of cards; each distinct op on distinct specs once."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._texts: dict[Any, str] = {}
        self._kinds: dict[Any, int] = {}

    def write(self, card: Card) -> None:
        """Give a card its rows, and the number that cards of the same ops have."""
        flow = self.flow
        rows: list[str] = []
        categories: list[str] = []
        signs: list[Any] = []
        for i in card.nodes:
            node = flow.nodes[i]
            if node.kind == "placeholder":
                card.rows, card.kind = (node.name.rpartition("/")[2],), -1 - i
                card.categories = ("input",)
                return
            sizes = self._kernel(i)
            signs.append((op_name(node.op), sizes))
            last = rows.pop() if rows else ""
            rows += self._joined(last, i, sizes, len(card.nodes) > 1)
            categories = [*categories, node.op.drawing][: len(rows)]
        card.rows, card.categories = tuple(rows), tuple(categories)
        card.kind = self._kinds.setdefault(tuple(signs), len(self._kinds))

    def _joined(self, last: str, i: int, sizes: tuple[str, ...], beside: bool) -> list[str]:
        """Return the row before a node and its own, or the one that both make."""
        name = op_name(self.flow.nodes[i].op)
        before = [last] if last else []
        if name == "identity" and (called := given_name(self.flow.nodes[i])):
            return [*before, called]
        affine = _AFFINE.get(name) if len(self.flow.sources[i]) > 1 else None
        if affine and len(self.flow.main_sources(i)) == 1:
            if affine == "shift" and last == "scale":
                return ["scale, shift"]
            if affine == "shift" and re.match("conv|linear|depthwise", last):
                return [last if last.endswith(", bias") else f"{last}, bias"]
            return [*before, affine]
        if name in _MOVES and beside:
            moved = name.replace("_", " ")
            if last.partition(", ")[0].replace(" ", "_") in _MOVES:
                return [last if moved in last.split(", ") else f"{last}, {moved}"]
            return [*before, moved]
        text = self._text(i, sizes)
        row, _, times = last.partition(" × ")
        return [f"{text} × {int(times or 1) + 1}"] if row == text else [*before, text]

    def note(self, card: Card) -> str:
        """Return what a card holds beside its ops: ``7 w · shape``.

        A weight is counted once, however many casts and transposes are between it and its reader.
        """
        role, nodes = self.flow.role, self.flow.nodes
        weights = sum(
            1
            for i in card.side
            if role[i] == STORED
            and nodes[i].outputs[0].spec.dtype.kind not in "iub"
            and rank_of(nodes[i].outputs[0].spec) > 0
            and not any(
                nodes[k].outputs[0].spec.dtype.kind not in "iub" and role[k] == STORED
                for k in self.flow.sources[i]
            )
        )
        shape = any(role[i] == SHAPE for i in card.side)
        return " · ".join([*([f"{weights} w"] if weights else []), *(["shape"] if shape else [])])

    def _kernel(self, i: int) -> tuple[str, ...]:
        """Return the sizes of a window, which tell ops apart that channels do not."""
        op = self.flow.nodes[i].op
        if hasattr(op, "kernel_size"):
            found = _sizes(op.kernel_size)
            rank = rank_of(self.flow.nodes[i].outputs[0].spec)
            return found * (rank - 2) if len(found) == 1 and rank > 2 else found
        layout = getattr(op, "weights_format", "")
        if not layout and "conv" not in op.name:
            return ()
        weight = self.flow.weight(i, rank_of(self.flow.nodes[i].outputs[0].spec))
        if weight is None:
            return ()
        layout = layout or "OIDHW"[: len(weight.shape)]
        return tuple(str(weight.shape[k]) for k, letter in enumerate(layout) if letter not in "OI")

    def _text(self, i: int, sizes: tuple[str, ...]) -> str:
        flow, node = self.flow, self.flow.nodes[i]
        specs = tuple(flow.nodes[k].outputs[0].spec for k in flow.sources[i])
        key = (node.op, specs, sum(not flow.role[k] for k in flow.sources[i]))
        try:
            found = self._texts.get(key)
        except TypeError:  # an op of unhashable settings
            return self._written(i, sizes)
        if found is None:
            found = self._texts[key] = self._written(i, sizes)
        return found

    def _written(self, i: int, sizes: tuple[str, ...]) -> str:
        flow, op = self.flow, self.flow.nodes[i].op
        name, result = op_name(op), self.flow.nodes[i].outputs[0].spec
        by = _by(getattr(op, "stride", None) or getattr(op, "kernel_size", 1))
        if "conv" in name and sizes:
            return self._convolution(i, sizes, by)
        if "pool" in name:
            kind = re.sub(r"_?pool.*", " pool", name).replace("_", " ")
            window = f" {'×'.join(sizes)}" if sizes else ""
            return f"{kind}{window}{by}"
        if name in ("matmul", "linear", "dot") and (w := flow.weight(i, 2)) is not None:
            n_out = result.shape[-1] if rank_of(result) > 0 else w.shape[-1]
            n_in = w.shape[1] if w.shape[0] == n_out and w.shape[1] != n_out else w.shape[0]
            bias = ", bias" if flow.weight(i, 1) is not None else ""
            return f"linear {n_in} → {n_out}{bias}"
        if name in ("gather", "embedding") and (w := flow.weight(i, 2)) is not None:
            return f"embedding {w.shape[0]} × {w.shape[1]}"
        if name == "concat" and rank_of(result) > 0:
            axis = getattr(op, "axis", 0)
            return f"concat {len(flow.main_sources(i))} → {result.shape[axis]}"
        if name == "mul" and len(flow.sources[i]) == 1:
            return "square"
        if name in _AFFINE:
            return {"mul": "multiply", "div": "divide", "add": "add", "sub": "subtract"}[name]
        return "add" if name == "add_n" else name.replace("_", " ")

    def _convolution(self, i: int, sizes: tuple[str, ...], by: str) -> str:
        op, nodes = self.flow.nodes[i].op, self.flow.nodes
        layout = getattr(op, "data_format", "") or "NC"
        axis = layout.index("C") if "C" in layout else 1
        reads = next((k for k in self.flow.sources[i] if not self.flow.role[k]), None)
        given = nodes[self.flow.sources[i][0] if reads is None else reads].outputs[0].spec
        n_in, n_out = _size(given, axis), _size(nodes[i].outputs[0].spec, axis)
        groups = getattr(op, "groups", 1)
        depthwise = (
            "depthwise " if "depthwise" in op.name or (groups != 1 and groups == n_in) else ""
        )
        apart = f", {groups} groups" if groups != 1 and not depthwise else ""
        turned = "ᵀ" if "transpose" in op.name else ""
        return f"{depthwise}conv{turned} {'×'.join(sizes)}, {n_in} → {n_out}{by}{apart}"


def op_name(op: Any) -> str:
    """Return what an op is called; one that only a run tells, by its ONNX name."""
    return str(op.op_type).lower() if op.name == "onnx_op" else str(op.name)


def _sizes(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, Sequence) else (str(value),)


def _by(stride: Any) -> str:
    """Return how far windows move, where that is further than by one."""
    steps = _sizes(stride)
    if set(steps) <= {"1"}:
        return ""
    return f", stride {steps[0] if len(set(steps)) == 1 else '×'.join(steps)}"


def _size(spec: TensorSpec, axis: int) -> Any:
    return spec.shape[axis] if rank_of(spec) > axis else "?"

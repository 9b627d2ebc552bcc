"""A whole run of a stepper, for a page without a kernel."""

from __future__ import annotations

import json
from typing import Any

from gradwright import Stepper, Tensor
from gradwright.debug import Expression

from ...drawing.values import thumbnail
from ...host.wire import Message
from .facts import (
    failure_text,
    level_message,
    node_facts,
    rows_between,
    tensor_facts,
    watch_facts,
)

MOST_BYTES = 2_000_000
"""Of a recording: pictures fill up to half of it, and it says so if it ends before the run."""


def recording(stepper: Stepper) -> list[Message]:
    """Run everything once more, and return it for a page without a kernel."""
    run = stepper.copy()
    stop = run.run()
    frame = run.frame
    spent = 0
    tensors: list[dict[str, Any]] = []
    number_of: dict[Tensor, int] = {}
    nodes, rows, thumbs = [], [], bytearray()

    def keep(t: Tensor) -> int:
        nonlocal spent
        if t not in number_of:
            facts: dict[str, Any] = {"name": t.name, "spec": str(t.spec)}
            if frame.is_known(t):
                array = frame.value(t)
                facts = tensor_facts(t.name, array)
                data, height, width = thumbnail(array) if spent < MOST_BYTES / 2 else (b"", 0, 0)
                facts.update(thumb=[len(thumbs), height, width])
                thumbs.extend(data)
                spent += len(data) * 4 // 3
            spent += len(json.dumps(facts))
            number_of[t] = len(tensors)
            tensors.append(facts)
        return number_of[t]

    for index, node in enumerate(frame.steps):
        if spent > MOST_BYTES:
            break
        facts = node_facts(node, index, node.name)
        ins = [keep(t) for t in node.inputs[:12] if t is not None]
        nodes.append({**facts, "in": ins, "out": [keep(t) for t in node.public[:12]]})
        rows += rows_between(frame, index, index + 1)
        spent += len(json.dumps(nodes[-1])) + len(node.name) + 80  # and its row, name in the level
    watches = []
    for text in stepper.watched:
        fact = watch_facts(run, text)
        names = () if "error" in fact else Expression(text).tensors
        read = [run.tensor(name.partition(":")[0]).node for name in names]  # or what is around
        made = [frame.index.get(node, -1) for node in read]
        watches.append({**fact, "known": 1 + max(made, default=-1)})
    total = len(frame.steps)
    content = {
        "kind": "stepper.recording",
        "position": min(stepper.levels[0].position, len(nodes)),
        "nodes": nodes,
        "tensors": tensors,
        "rows": rows,
        "watches": watches,
        "failed": -1 if stop.error is None else run.position,
        "error": "" if stop.error is None else failure_text(stop),
        "note": f"Recorded: the first {len(nodes):,} of {total:,} nodes (2 MB)."
        if len(nodes) < total
        else "",
    }
    return [level_message(0, frame, len(nodes)), (content, [memoryview(bytes(thumbs))])]

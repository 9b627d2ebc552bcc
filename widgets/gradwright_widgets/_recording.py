"""A whole run of a stepper, for a page without a kernel."""

from __future__ import annotations

import json
from typing import Any

from gradwright import Stepper, Tensor

from ._base import Message
from ._step_facts import (
    failure_text,
    level_message,
    node_facts,
    rows_between,
    tensor_facts,
    thumbnail,
)

MOST_BYTES = 2_000_000
"""Of a recording; what goes beyond it is left out, and the recording says so."""


def recording(stepper: Stepper) -> list[Message]:
    """Run everything once more, and return it for a page without a kernel."""
    run = stepper.copy()
    stop = run.run()
    frame = run.frame
    level = level_message(0, frame)
    spent = len(json.dumps(level[0])) + 11 * len(frame.steps)  # the buffers of the level in base64
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
                data, height, width = thumbnail(array)
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
        spent += len(json.dumps(nodes[-1])) + 60
    left = len(frame.steps) - len(nodes)
    content = {
        "kind": "stepper.recording",
        "position": min(stepper.levels[0].position, len(nodes)),
        "nodes": nodes,
        "tensors": tensors,
        "rows": rows,
        "failed": -1 if stop.error is None else run.position,
        "error": "" if stop.error is None else failure_text(stop),
        "note": f"The recording ends here: {left:,} more nodes would exceed its 2 MB." * bool(left),
    }
    return [level, (content, [memoryview(bytes(thumbs))])]

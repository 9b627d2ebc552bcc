"""Traits of widgets as they are at first, for pages that show a file with no kernel.

A process that reads files loads no widgets; a test holds these against the widgets themselves.
"""

from __future__ import annotations

from typing import Any

DESK: dict[str, Any] = {
    "edits": [],
    "frozen": [],
    "height": 420,
    "message": "",
    "outputs": [],
    "selected": "",
}
"""Of every widget that shows a graph; without a kernel there is no use in choosing an output."""
GRAPH: dict[str, Any] = {
    **DESK,
    "color_by": "category",
    "expanded": None,
    "follow": False,
    "gradients": False,
    "insides": {},
    "inspector": False,
    "measured": {},
    "minimap": True,
    "overlay": {},
    "path_to": "",
    "paths": "none",
    "views": [],
    "why": {},
}
"""Of a GraphView, beside the graph."""
TENSOR: dict[str, Any] = {
    **DESK,
    "tensor_cells": "largest",
    "tensor_colors": "auto",
    "tensor_cursor": [],
    "tensor_follows": True,
    "tensor_limits": [0.0, 1.0],
    "tensor_log": False,
    "tensor_log_counts": False,
    "tensor_numbers": False,
    "tensor_range": "full",
}
"""Of a TensorView, beside what says which tensor is shown, and how."""

"""What a tensor view sends: its messages, and the cells of one as an array."""

from __future__ import annotations

import numpy as np

from gradwright_widgets.panels.tensor.panel import TensorPanel
from tests.support.panels import sent


def ask(widget, kind, **facts):
    widget._receive(widget, {"kind": kind, **facts}, [])


def tensor_message(widget):
    """Return what a page is told of the tensor that is shown."""
    return widget.part(TensorPanel)._tensor_message()


def looked_at(widget, monkeypatch):
    """Collect messages as ``sent`` does, with a view on the screen."""
    ask(widget, "tensor.look", view="v", shown=True)
    return sent(widget, monkeypatch)


def picture(message):
    """Return the cells of a message as an array: f[fields, tiles, rows, columns]."""
    content, (buffer,) = message
    part = content["part"]
    return np.frombuffer(buffer, f"<{part['type']}").reshape(
        len(part["fields"]), -1, *part["cells"]
    )

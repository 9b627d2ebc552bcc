"""``gw.open``: what a file of any format holds, as what is worked with here."""

from __future__ import annotations

import os
from typing import Any

from ..errors import ArchiveError
from .registry import find
from .source import as_path, at


def open(path: str | os.PathLike[str]) -> Any:
    """Return what is in a file or folder: told by its content, and then by its suffix.

    A graph of an archive, a checkpoint or an ONNX model; a `train.RunFolder` of a run; of
    safetensors a mapping from names to arrays that are mapped, not read; a language model of a
    GGUF file or of a folder of Hugging Face; a `SavedAdapter` of what is one. Nothing in a file is
    executed: a pickle, such as ``torch.save`` writes, is refused, with the lines that make a
    safetensors file of it. ``gw.inspect`` tells beforehand what is in it.

    Raises:
        ArchiveError: the file is damaged, unsafe, or of no format that is known.
        OSError: nothing is there.

    >>> import gradwright as gw, tempfile, pathlib
    >>> g = gw.Graph("line")
    >>> y = g.placeholder("x", ("B", 2)) @ g.variable("w", (2, 1), init=1.0)
    >>> path = pathlib.Path(tempfile.mkdtemp(), "line.gw")
    >>> g.save(path)
    >>> gw.open(path).output({"x": [[1.0, 2.0]]}, "matmul")["matmul"].tolist()
    [[3.0]]
    """
    place = as_path(path)
    format = find(at(place))
    if format.open is None:
        raise ArchiveError(
            f"{format.title} is looked into, and not opened", where=str(path), hint=format.use
        )
    return format.open(place)

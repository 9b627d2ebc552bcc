"""Methods of Tensor that are ops (``is_method``), such as ``x.sum(axis=0)``.

They are attached when the op is defined; the stub beside this file lists them for completion and
type checkers.
"""

from __future__ import annotations


class TensorMethods:
    """Base of Tensor on which ops hang their methods."""

    __slots__ = ()

"""``gw.recognize``: what a graph has written out, found and put into one op each.

Exporters write a gelu as five nodes and an attention as forty. A pattern (``table.py``) says what
such a form is; what is found, and what is only nearly it, is told in a :class:`Recognition`.
"""

from . import activations, norms, rotary, attention  # noqa: I001  in the order tried
from .search import Match, Missed, Recognition, kinds, recognize

__all__ = [
    "Match",
    "Missed",
    "Recognition",
    "activations",
    "attention",
    "kinds",
    "norms",
    "recognize",
    "rotary",
]

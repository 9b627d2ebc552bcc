"""Theirs: what torch, Keras and numpy call things, the same call here, and what is different.

    their call -> our call | difference

Theirs begins with whose name it is: ``x`` a tensor's, ``w`` a stored one's, ``gw`` a function's in
any module, ``g`` a graph's, ``opt`` an optimizer's. A second pair of parentheses is what the object
that was made is called with. Parameters stand for the arguments in our call; one with the default
None is left out there where it is not given, another default is written down. ``p: what`` is a
condition: the row holds for an ``int``, a ``tuple``, a ``pair`` or ``four``, for ``any``, or for
what is written there; ``rate`` puts in numbers alone. Of rows of one name the first that fits
counts, and the first of all where none does. Names that both have are looked up once a call has
failed, in rows with conditions.
"""

from .functions import FUNCTIONS
from .keywords import KEYWORDS, VALUES
from .losses import LOSSES
from .objects import OBJECTS
from .tensors import TENSORS
from .training import TRAINING

CALLS = "\n".join((TENSORS, OBJECTS, FUNCTIONS, LOSSES, TRAINING))
"""All calls."""

__all__ = ["CALLS", "KEYWORDS", "VALUES"]

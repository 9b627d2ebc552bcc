"""Other worlds: their nodes, and the functions and rules that make them ops, and ops them.

A world such as ONNX declares one :class:`Dialect`. What reads an operator is a rule, where one op
is what it is, or a function, in a file of its family; what neither knows, ops may declare.
"""

from .attributes import Attributes, attribute
from .dialect import Dialect
from .node import Foreign, Outputs, Reader, Readers
from .rules import Chosen, Fixed, Item, Rule, Value

__all__ = [
    "Attributes",
    "Chosen",
    "Dialect",
    "Fixed",
    "Foreign",
    "Item",
    "Outputs",
    "Reader",
    "Readers",
    "Rule",
    "Value",
    "attribute",
]

"""The graph: tensors, nodes, scopes, values and edits."""

from ..op import seams
from . import expand
from .build import active_graph, check_update
from .coerce import coerce
from .edit import Edit, clone
from .expand import SubGraph, expansion, interpret
from .graph import Graph
from .table import member, members
from .tensor import Constant, Node, Placeholder, Rng, Source, Tensor, Variable
from .values import Values, read_only
from .walk import ancestors, descendants, ordered

seams.builder = expand

__all__ = [
    "Constant",
    "Edit",
    "Graph",
    "Node",
    "Placeholder",
    "Rng",
    "Source",
    "SubGraph",
    "Tensor",
    "Values",
    "Variable",
    "active_graph",
    "ancestors",
    "check_update",
    "clone",
    "coerce",
    "descendants",
    "expansion",
    "interpret",
    "member",
    "members",
    "ordered",
    "read_only",
]

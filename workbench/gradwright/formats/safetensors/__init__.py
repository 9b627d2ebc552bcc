"""``gw.safetensors``: arrays by name, in one file or several; no graph, and nothing that is run.

A member of a ``.gw`` archive is such a file, too.
"""

from .mapped import Tensors
from .writing import save

__all__ = ["Tensors", "save"]

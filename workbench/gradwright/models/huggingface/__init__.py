"""Models of Hugging Face: a folder's ``config.json`` and safetensors, read and written."""

from .loading import load_state_dict, state_dict
from .reading import from_pretrained
from .writing import save_pretrained

__all__ = ["from_pretrained", "load_state_dict", "save_pretrained", "state_dict"]

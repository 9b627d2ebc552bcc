"""Models of Hugging Face: a folder's ``config.json`` and safetensors, read and written."""

from .loading import load_state_dict, state_dict

__all__ = ["load_state_dict", "state_dict"]

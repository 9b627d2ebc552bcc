"""Safetensors: tensors by name in one file; a member of a ``.gw`` archive is such a file, too."""

"""GGUF files: keys with values, and tensors by name, of which many are packed in blocks."""

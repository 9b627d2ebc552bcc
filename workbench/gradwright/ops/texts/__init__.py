"""Text in tensors."""

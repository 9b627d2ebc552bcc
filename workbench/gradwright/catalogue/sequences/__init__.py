"""Lists of tensors."""

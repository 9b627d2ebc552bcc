"""Heads of language models: what logits say, without logits."""

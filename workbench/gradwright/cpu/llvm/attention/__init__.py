"""Attention as machine code: tiles of scores that never leave the cache."""

from .bind import bind_attention, bind_attention_grad, bind_mask_grad

__all__ = ["bind_attention", "bind_attention_grad", "bind_mask_grad"]

"""Checks of tutorial 2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradwright as gw

from . import exercise


@exercise
def said(shape: str) -> str | None:
    """Ask for the shape of a chain of movements."""
    g = gw.Graph()
    images = g.placeholder("images", ("B", 32, 32, 3))
    moved = images.transpose(0, 3, 1, 2).reshape(-1, 3, 16, 64)
    right = ", ".join(map(str, moved.sum(axis=(2, 3)).shape))
    if str(shape).replace(" ", "").strip("[]()") == right.replace(" ", ""):
        return None
    return f"Before the sum it is [{', '.join(map(str, moved.shape))}]. Which axes are left?"


@exercise
def heads(answer: Callable[[Any], Any]) -> str | None:
    """Hold heads against numpy's, in shape and in numbers."""
    g = gw.Graph()
    made = answer(g.placeholder("tokens", ("B", "T", 32)))
    if str(made.spec) != "f32[B, 4, T, 8]":
        return f"f32[B, 4, T, 8] is wanted, and this is {made.spec}."
    tokens = np.arange(2.0 * 5 * 32, dtype="float32").reshape(2, 5, 32)
    right = tokens.reshape(2, 5, 4, 8).transpose(0, 2, 1, 3)
    if np.array_equal(made.eval({"tokens": tokens}), right):
        return None
    return "The shape is right, but a head has numbers of several words: cut the last axis first."


@exercise
def masked(answer: Callable[[Any, Any], Any]) -> str | None:
    """Hold means over sentences against numpy's, with rubbish behind their ends."""
    g = gw.Graph()
    words = g.placeholder("words", ("B", "T", 8))
    with g:
        made = answer(words, g.placeholder("lengths", ("B",), dtype="int64"))
    if made.rank != 2:
        return f"A mean for each sentence is f32[B, 8], and this is {made.spec}."
    rng = np.random.default_rng(0)
    given, lengths = rng.normal(size=(3, 6, 8)).astype("float32"), np.array([6, 2, 1])
    found = made.eval({"words": given, "lengths": lengths})
    right = np.stack([row[:n].mean(axis=0) for row, n in zip(given, lengths, strict=True)])
    if np.allclose(found, right, atol=1e-5):
        return None
    if np.allclose(found, given.mean(axis=1), atol=1e-5):
        return "This is the mean over all places, also those behind a sentence's end."
    if np.allclose(found * 6, right * lengths[:, None], atol=1e-4):
        return "The sum is right; divide by how many words there are, not by T."
    return f"Of two words the mean begins with {right[1, 0]:.3f}, not {found[1, 0]:.3f}."

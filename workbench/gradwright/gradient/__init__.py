"""Gradients as graph: reverse mode, and what is built of it."""

from .reverse import STAND_INS, fit, gradients, pull_back

__all__ = ["STAND_INS", "fit", "gradients", "pull_back"]

"""Gradients as graph: reverse mode, and what is built of it."""

from .cotangents import fit, pull_back
from .reverse import STAND_INS, gradients

__all__ = ["STAND_INS", "fit", "gradients", "pull_back"]

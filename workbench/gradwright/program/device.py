"""Devices: where a plan's buffers live, found by name and imported when they are opened."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from ..errors import LoweringError
from ..spec import TensorSpec
from .lowering import load

Array = np.ndarray[Any, Any]


class Device(Protocol):
    """What plans ask of a device."""

    name: str
    guarded: bool
    """Whether the plan must run step by step and call ``check`` and ``free``."""

    def arena(self, nbytes: int) -> Array:
        """Return a buffer of bytes that a plan divides among its tensors.

        Plans of one device run one at a time, and nothing in an arena lasts from run to run: they
        may get the same memory.
        """

    def release(self) -> None:
        """Let go what it keeps for the next arena."""

    def empty(self, spec: TensorSpec) -> Array:
        """Return a fresh array that the plan gives away or guards."""

    def check(self, what: str) -> None:
        """Raise LoweringError if anything wrote outside its buffer."""

    def free(self, array: Array) -> None:
        """Take back an array that nothing may read any more."""


DEVICES = {"cpu": "gradwright.cpu:Cpu", "guard": "gradwright.cpu:Guard"}
"""Devices of this package, imported when first opened; others register themselves when loaded."""
_made: dict[str, Callable[[], Any]] = {}


def register_device(name: str, make: Callable[[], Any]) -> None:
    """Offer a device by name; ``make()`` is called once per session."""
    _made[name] = make


def open_device(name: str) -> Device:
    """Return a device by name, importing the package that offers it when first asked."""
    if name not in _made and name in DEVICES:
        module, _, maker = DEVICES[name].partition(":")
        register_device(name, getattr(import_module(module), maker))
    elif name not in _made:
        load(name)
    if name not in _made:
        raise LoweringError(f"the package for {name!r} offers no device of that name")
    made: Device = _made[name]()
    return made

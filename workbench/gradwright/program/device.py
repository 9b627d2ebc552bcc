"""Devices: where a plan's buffers live, found by name and imported when they are opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, Protocol

from ..errors import LoweringError
from ..shared import first_use
from ..spec.buffer import There
from .executor import Ask, Executor, Keep
from .ledger import Ledger, Manager
from .lowering import load
from .program import Program


class Device(Protocol):
    """What a session asks of a device; each session has one of its own."""

    name: str
    ledger: Ledger
    """What memory it has taken for plans, and what it has freed."""

    def configure(
        self,
        threads: int | None,
        record: Mapping[str, Any] | None,
        *,
        deterministic: bool,
        memory: Manager = "arena",
        fallback: str | None = None,
        results: str | None = None,
    ) -> None:
        """Fix what a session may be told; raises GraphError for what is none.

        ``fallback="cpu"`` has the host compute what the device has no kernel for;
        ``results="device"`` leaves there what is fetched.
        """

    def takes(self, value: Any) -> There | None:
        """Return a feed that lies on this device, ready to be read; None: it goes by the host."""

    def ahead(self, batches: Iterable[Mapping[Any, Any]]) -> Iterable[Mapping[Any, Any]]:
        """Return batches that are brought here while the one before is used."""

    def nested(self) -> Device:
        """Return a device for plans inside plans, which run while those do."""

    def identity(self) -> str:
        """Return what programs that are kept on disk depend on here beside lowerings."""

    def executor(self, program: Program, ask: Ask, keep: Keep | None = None) -> Executor:
        """Return a program as it runs here; ``keep`` is where more of it may be on disk."""

    def record(self) -> dict[str, Any]:
        """Return what decides the last bits here, as JSON keeps it."""

    def retune(self, record: Mapping[str, Any], *, deterministic: bool) -> None:
        """Take over what a record says, as far as it may change between two runs."""

    def running(self) -> AbstractContextManager[None]:
        """Return what runs happen in; it is entered again and again."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for what is being compiled; return whether all is there."""

    def release(self) -> None:
        """Let go of memory that it keeps for plans to come."""


DEVICES = {"cpu": "gradwright.cpu:Cpu", "guard": "gradwright.cpu:Guard"}
"""Devices of this package, imported when first opened; others register themselves when loaded."""
_made: dict[str, Callable[..., Any]] = {}
_numbered: set[str] = set()
"""Devices of which a machine may have several."""


def register_device(name: str, make: Callable[..., Any], *, is_numbered: bool = False) -> None:
    """Offer a device by name; ``make()`` is called once per session.

    One that ``is_numbered`` is also ``"name:1"``, which calls ``make(1)``.
    """
    _made[name] = make
    if is_numbered:
        _numbered.add(name)


def open_device(name: str) -> Device:
    """Return a device by name, importing the package that offers it when first asked."""
    base, colon, number = name.partition(":")
    if base not in _made and base in DEVICES:
        module, _, maker = DEVICES[base].partition(":")
        with first_use:
            register_device(base, getattr(import_module(module), maker))
    elif base not in _made:
        load(name)
    if base not in _made:
        raise LoweringError(f"the package for {name!r} offers no device of that name")
    if colon and not (base in _numbered and number.isascii() and number.isdigit()):
        need = f"{base}:0, {base}:1 or so on" if base in _numbered else repr(base)
        raise LoweringError(f"there is no device {name!r}", need=need)
    made: Device = _made[base](*[int(number)] if colon else [])
    return made

"""From LLVM text to the address of machine code.

llvmlite is the compiler; where it is missing `available` is False and everything runs on numpy.
One kernel takes 15 to 50 ms, during which other threads can have the GIL; from the disk cache it
takes 1 ms.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import importlib.util
import logging
import os
import platform
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

from ...files.trusted import OBJECTS
from ...fuse.ir import Kernel
from ...fuse.layout import Pattern
from . import cache, helpers, image
from .kernels.emit import emit
from .objects import outside
from .target import switch, target

Key = tuple[Kernel, Pattern]
LOG = logging.getLogger("gradwright.cpu")
_names: dict[int, str] = {}
"""Of functions that have been compiled, or found, by address."""
_busy = threading.RLock()
"""Held while LLVM works: one kernel at a time, and none across a fork or the interpreter's end."""


def available() -> bool:
    """Tell whether kernels can be compiled here: llvmlite is installed and knows this machine.

    ``GRADWRIGHT_KERNELS=off`` says no, from when on it is set.

    >>> isinstance(available(), bool)
    True
    """
    return switch("GRADWRIGHT_KERNELS") != "off" and _compiles()


@functools.cache
def _compiles() -> bool:
    """Tell it without asking the environment."""
    if importlib.util.find_spec("llvmlite") is None or sys.maxsize < 2**32:
        return False
    try:
        with _busy:
            identity()
    except (ImportError, OSError, RuntimeError) as error:
        LOG.info("no native kernels: %s", error)
        return False
    return True


@functools.cache
def identity() -> str:
    """Return what machine code depends on: compiler and target; Linux tells it without LLVM."""
    import llvmlite

    chosen = target()
    known = chosen.known
    if chosen.level == "native" and not known:
        tools = _toolchain()
        known = tools.triple, tools.cpu, tools.features
    kind = platform.system(), chosen.machine, chosen.level
    return "\n".join([llvmlite.__version__, *kind, *known])


class Toolchain:
    """LLVM for this machine, or for another one, whose object code can only be looked at."""

    def __init__(self, triple: str = "", cpu: str = "", features: str = "") -> None:
        import llvmlite.binding as llvm  # 46 MB, which a process with a warm cache never needs

        self.llvm = llvm
        self.triple, self.cpu, self.features = triple, cpu, features
        if triple:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
        else:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            self.triple = llvm.get_process_triple()
            self.cpu, self.features = self._processor()
        self.machine = self._machine()
        self._engines = [] if triple else [self._engine()]  # it makes the C library known

    def _processor(self) -> tuple[str, str]:
        if (level := target().level) != "native":
            return level, ""
        name = self.llvm.get_host_cpu_name()
        try:
            return name, self.llvm.get_host_cpu_features().flatten()
        except RuntimeError:  # not known on this system: the name of the CPU implies most
            return name, ""

    def _machine(self) -> Any:
        target = self.llvm.Target.from_triple(self.triple)
        return target.create_target_machine(cpu=self.cpu, features=self.features, opt=2, jit=True)

    def _engine(self) -> Any:
        return self.llvm.create_mcjit_compiler(self.llvm.parse_assembly(""), self._machine())

    def optimise(self, text: str) -> Any:
        """Return the verified, optimised LLVM module of a text."""
        llvm = self.llvm
        module = llvm.parse_assembly(text)
        module.triple = self.triple
        module.data_layout = str(self.machine.target_data)
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=2)  # a tenth less time than 3
        options.loop_vectorization = options.loop_interleaving = True
        options.loop_unrolling = options.slp_vectorization = False
        builder = llvm.create_pass_builder(self.machine, options)
        builder.getModulePassManager().run(module, builder)
        return module

    def assembly(self, text: str) -> str:
        """Return the machine code of a text as assembly, to look at."""
        return str(self.machine.emit_assembly(self.optimise(text)))

    def object_code(self, text: str) -> bytes:
        """Return the object file of a text."""
        return bytes(self.machine.emit_object(self.optimise(text)))

    def load(self, code: bytes, name: str) -> int:
        """Return the address of a function in an object file, which is kept for good.

        Raises RuntimeError if it needs what is nowhere: LLVM would end the process.
        """
        found = {needed: _outside(needed) for needed in outside(code)}
        lacking = [
            needed
            for needed, address in found.items()
            if not address and not self.llvm.address_of_symbol(needed)
        ]
        if lacking:
            raise RuntimeError(f"neither the C library nor we have {', '.join(lacking)}")
        for needed, address in found.items():
            if address:
                self.llvm.add_symbol(needed, address)
        engine = self._engine()
        engine.add_object_file(self.llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        address = int(engine.get_function_address(name))
        if not address:
            raise RuntimeError(f"the object file has no function {name!r}")
        self._engines.append(engine)
        return address


@functools.cache
def _toolchain() -> Toolchain:
    return Toolchain()


def compile_text(text: str) -> int:
    """Return the address of the function ``k`` of an LLVM text, from the disk cache if it is there.

    Raises:
        RuntimeError: LLVM refuses the text, or object code needs functions that are nowhere.
        ValueError: it cannot be told which functions the object code needs.
    """
    with _busy:
        key = cache.key(text, identity())
        code = OBJECTS.load(key)
        if code is not None and (address := image.place(code, "k", _outside)) is not None:
            LOG.debug("kernel %s: found on disk, %d bytes", key[:16], len(code))
            _names[address] = key
            return address
        tools = _toolchain()
        if code is not None:
            with contextlib.suppress(RuntimeError, ValueError):
                return tools.load(code, "k")
        begun = time.perf_counter()
        code = tools.object_code(text)
        address = image.place(code, "k", _outside) or tools.load(code, "k")
        OBJECTS.store(key, code)
        _names[address] = key
        taken = (time.perf_counter() - begun) * 1e3
        LOG.debug("kernel %s: compiled in %.1f ms, %d bytes", key[:16], taken, len(code))
        return address


def names_of(addresses: Iterable[int]) -> list[str]:
    """Return the names under which the object code of functions is on disk."""
    return sorted({_names[a] for a in addresses if a in _names})


@functools.cache
def _outside(name: str) -> int | None:
    """Return the address of what object code calls: a helper of ours, or of the process."""
    if name in helpers.texts():
        return compile_text(helpers.texts()[name])
    if sys.platform == "win32":  # no handle has all that is there; LLVM knows its own
        return None
    try:
        found = getattr(ctypes.CDLL(None), name)
    except AttributeError:
        return None
    return ctypes.cast(found, ctypes.c_void_p).value


class Kernels:
    """Addresses of compiled kernels, by kernel and pattern; one for the whole process.

    A kernel that cannot be compiled has the address None: whoever asked stays on numpy.
    """

    def __init__(self) -> None:
        self.addresses: dict[Key, int | None] = {}

    def compile(self, key: Key) -> int | None:
        """Return the address of a kernel, which is compiled now if it is not yet there."""
        with _busy:
            if key not in self.addresses:
                try:
                    self.addresses[key] = compile_text(emit(*key))
                except Exception as error:  # no kernel is worth a failed run: numpy computes it
                    LOG.info("a kernel stays on numpy: %s\n%s", error, key[0])
                    self.addresses[key] = None
            return self.addresses[key]


KERNELS = Kernels()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_busy.acquire, after_in_parent=_busy.release, after_in_child=_busy.release
    )
atexit.register(_busy.acquire)

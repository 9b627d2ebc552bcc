"""From LLVM text to the address of machine code.

llvmlite is the compiler; where it is missing `available` is False and everything runs on numpy.
One kernel takes 15 to 50 ms, during which other threads can have the GIL; from the disk cache it
takes 1 ms.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import logging
import os
import platform
import re
import sys
import threading
from pathlib import Path
from typing import Any

from ..fuse.ir import Kernel
from . import cache, image
from .emit import emit
from .layout import Pattern

Key = tuple[Kernel, Pattern]
PROCESSOR = ("vendor_id", "cpu family", "model", "flags", "CPU implementer", "CPU part", "Features")
"""What Linux says of a processor that decides which code runs on it."""
_log = logging.getLogger("gradwright")
_busy = threading.RLock()
"""Held while LLVM works: one kernel at a time, and none across a fork or the interpreter's end."""


@functools.cache
def available() -> bool:
    """Tell whether kernels can be compiled here: llvmlite is installed and knows this machine.

    >>> isinstance(available(), bool)
    True
    """
    if importlib.util.find_spec("llvmlite") is None or sys.maxsize < 2**32:
        return False
    try:
        with _busy:
            identity()
    except (ImportError, OSError, RuntimeError) as error:
        _log.info("no native kernels: %s", error)
        return False
    return True


@functools.cache
def identity() -> str:
    """Return what machine code depends on: compiler and processor; Linux tells it without LLVM."""
    import llvmlite

    known: list[str] = []
    with contextlib.suppress(OSError):
        first, *_ = Path("/proc/cpuinfo").read_text().split("\n\n")
        known = [line for line in first.splitlines() if line.startswith(PROCESSOR)]
    if not known:
        tools = _toolchain()
        known = [tools.triple, tools.cpu, tools.features]
    return "\n".join([llvmlite.__version__, platform.system(), platform.machine(), *known])


class Toolchain:
    """LLVM for this machine."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm  # 46 MB, which a process with a warm cache never needs

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.llvm = llvm
        self.cpu = llvm.get_host_cpu_name()
        self.triple = llvm.get_process_triple()
        try:
            self.features = llvm.get_host_cpu_features().flatten()
        except RuntimeError:  # not known on this system: the name of the CPU implies most
            self.features = ""
        self.machine = self._machine()
        self._engines = [self._engine()]  # the first one makes the process's functions known

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
        """Return the address of a function in an object file, which is kept for good."""
        engine = self._engine()
        engine.add_object_file(self.llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        address = int(engine.get_function_address(name))
        if not address:
            raise RuntimeError(f"the object file has no function {name!r}")
        self._engines.append(engine)
        return address

    def missing(self, text: str) -> list[str]:
        """Return the functions of the C library that a text calls and this process lacks."""
        names = re.findall(r"^declare [^@]*@(\w+)\(", text, re.MULTILINE)
        if " half " in text and self.triple.startswith("x86_64") and "+f16c" not in self.features:
            names += ["__extendhfsf2", "__truncsfhf2"]
        return [name for name in names if not self.llvm.address_of_symbol(name)]


@functools.cache
def _toolchain() -> Toolchain:
    return Toolchain()


def compile_text(text: str) -> int:
    """Return the address of the function ``k`` of an LLVM text, from the disk cache if it is there.

    Raises:
        RuntimeError: LLVM refuses the text, or it calls functions that this process lacks.
    """
    with _busy:
        key = cache.key(text, identity())
        code = cache.load(key)
        if code is not None and (address := image.place(code, "k")) is not None:
            return address
        tools = _toolchain()
        if missing := tools.missing(text):  # LLVM would end the process
            raise RuntimeError(f"the C library has no {', '.join(missing)}")
        if code is not None:
            with contextlib.suppress(RuntimeError):
                return tools.load(code, "k")
        code = tools.object_code(text)
        cache.store(key, code)
        return image.place(code, "k") or tools.load(code, "k")


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
                    _log.info("a kernel stays on numpy: %s\n%s", error, key[0])
                    self.addresses[key] = None
            return self.addresses[key]


KERNELS = Kernels()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_busy.acquire, after_in_parent=_busy.release, after_in_child=_busy.release
    )
atexit.register(_busy.acquire)

"""What machine code is made for: this processor, or a level of x86-64 that it has, too.

``GRADWRIGHT_CPU=native`` is the default; ``x86-64-v2``, ``x86-64-v3`` and ``x86-64-v4`` make what
any processor of that level runs, with the same bits on each. ``GRADWRIGHT_KERNELS=off`` keeps all
of it away: sessions run on numpy, as without llvmlite. Both are read once per process.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
from dataclasses import dataclass
from pathlib import Path

from ...errors import GraphError

V2 = frozenset({"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"})
V3 = V2 | {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
LEVELS = {"x86-64-v2": V2, "x86-64-v3": V3, "x86-64-v4": V4}
"""What each level has, as Linux calls it."""
X86 = ("x86_64", "AMD64")
SWITCHES = {"GRADWRIGHT_CPU": ("native", *LEVELS), "GRADWRIGHT_KERNELS": ("on", "off")}
"""The variables of the environment and their values, the default first."""
_DECISIVE = ("vendor_id", "cpu family", "model", "flags", "CPU implementer", "CPU part", "Features")
"""What Linux says of a processor that decides which code runs on it."""


@dataclass(frozen=True)
class Target:
    """A machine, and what of its processor machine code may use.

    ``level`` is native or one of LEVELS; ``flags`` are those that the system has for processors.
    """

    level: str
    machine: str
    flags: frozenset[str]
    known: tuple[str, ...] = ()
    """Lines that tell one native processor from another; none if only LLVM can tell."""

    @property
    def is_x86(self) -> bool:
        """Tell whether it is an x86-64."""
        return self.machine in X86

    @property
    def is_arm(self) -> bool:
        """Tell whether it is a 64-bit ARM."""
        return self.machine in ("aarch64", "arm64", "ARM64")


def switch(name: str) -> str:
    """Return the value of a variable of SWITCHES.

    Raises GraphError if it is none of those that there are.
    """
    values = SWITCHES[name]
    chosen = os.environ.get(name, "").lower() or values[0]
    if chosen not in values:
        raise GraphError(f"{name}={chosen} is not known", need=" or ".join(values))
    return chosen


@functools.cache
def target() -> Target:
    """Return what this process compiles for.

    Raises:
        GraphError: GRADWRIGHT_CPU is not known, or this machine does not run it.

    >>> target().level in SWITCHES["GRADWRIGHT_CPU"]
    True
    """
    level, machine = switch("GRADWRIGHT_CPU"), platform.machine()
    known = _known()
    flags = frozenset(word for line in known for word in line.partition(":")[2].split())
    if level == "native":
        return Target(level, machine, flags, known)
    missing = LEVELS[level] - (flags if known else _asked())
    if machine not in X86 or missing:
        lacks = f"lacks {', '.join(sorted(missing))}" if machine in X86 else f"is {machine}"
        fitting = [n for n, needed in LEVELS.items() if machine in X86 and needed <= flags]
        raise GraphError(
            f"GRADWRIGHT_CPU={level} does not run on this machine, which {lacks}",
            need=" or ".join(["native", *fitting]),
        )
    return Target(level, machine, LEVELS[level])


@functools.cache
def is_wide() -> bool:
    """Tell whether vectors of 512 bits are written: where they do not slow a processor down.

    That is from Ice Lake and Zen 4 on; LLVM prefers 256 bits on all. Softmax over 256 columns then
    takes 0.73, over 45 in masked vectors 0.6, tanh 0.72 of the time (a Sapphire Rapids).
    """
    return "avx512_vbmi2" in target().flags


def check_switches() -> None:
    """Raise GraphError if a variable has a value that is not known, or not for this machine."""
    switch("GRADWRIGHT_KERNELS")
    if switch("GRADWRIGHT_CPU") != "native":  # looking at the processor takes a millisecond
        target()


def _known() -> tuple[str, ...]:
    with contextlib.suppress(OSError):
        first, *_ = Path("/proc/cpuinfo").read_text().split("\n\n")
        return tuple(line for line in first.splitlines() if line.startswith(_DECISIVE))
    return ()


@functools.cache
def has() -> frozenset[str]:
    """Return what machine code may use, in Linux's words, also where only LLVM can tell.

    >>> target().flags <= has()
    True
    """
    chosen = target()
    if chosen.flags or chosen.level != "native" or not chosen.is_x86:
        return chosen.flags
    return _asked()


def _asked() -> frozenset[str]:
    """Return what LLVM finds, in Linux's words."""
    try:
        import llvmlite.binding as llvm

        found = {name for name, has in llvm.get_host_cpu_features().items() if has}
    except (ImportError, RuntimeError):
        return frozenset()
    renamed = {
        "bmi": "bmi1", "lzcnt": "abm", "sse3": "pni", "sahf": "lahf_lm",
        "avx512vnni": "avx512_vnni", "avxvnni": "avx_vnni",
    }  # fmt: skip
    return frozenset(renamed.get(name, name.replace(".", "_")) for name in found)

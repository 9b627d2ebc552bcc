"""Machine code for aarch64: everything compiles, and needs nothing but the C library."""

from __future__ import annotations

import struct

import pytest

from gradwright.cpu.llvm.compiler import available
from gradwright.cpu.llvm.objects import outside
from gradwright.cpu.llvm.target import Target

pytestmark = pytest.mark.skipif(not available(), reason="no llvmlite here")
LIBRARY = {
    *("memcpy", "memset", "memmove", "fmod", "fmodf", "pow", "sin", "cos", "tan"),
    *("clock_gettime", "pthread_cond_signal", "pthread_cond_wait"),
    *("pthread_mutex_lock", "pthread_mutex_unlock"),
}
"""What object code may need."""
ARM = 183


def is_fine(code: bytes, name: str) -> None:
    assert code.startswith(b"\x7fELF") and struct.unpack_from("<H", code, 18) == (ARM,), name
    assert set(outside(code)) <= LIBRARY, (name, outside(code))


def test_kernels_compile_for_aarch64() -> None:
    from tests.cpu.aarch64 import cases, tools

    for case in cases():
        text = case.text()
        assert "llvm.x86" not in text, case.name
        is_fine(tools().object_code(text), case.name)


def test_chains_threads_products_and_convolutions_compile_for_aarch64() -> None:
    from tests.cpu.aarch64 import texts, tools

    for name, text in texts():
        assert "llvm.x86" not in text, name
        is_fine(tools().object_code(text), name)


@pytest.mark.parametrize(
    ("triple", "machine"),
    [
        ("aarch64-linux-gnu", "aarch64"),
        ("arm64-apple-darwin", "arm64"),
        ("x86_64-linux-gnu", "x86_64"),
        ("x86_64-apple-darwin", "x86_64"),
        ("x86_64-pc-windows-msvc", "AMD64"),
    ],
)
def test_what_an_object_file_needs_is_known_of_every_format(triple: str, machine: str) -> None:
    from gradwright.cpu.llvm.compiler import Toolchain

    text = """
define void @k(ptr %block) {
  %x = load double, ptr %block
  %y = call double @sin(double %x)
  %z = call double @a_function_with_a_long_name(double %y)
  store double %z, ptr %block
  ret void
}
declare double @sin(double)
declare double @a_function_with_a_long_name(double)
"""
    assert Target("native", machine, frozenset()).is_arm == ("x86" not in triple)
    code = Toolchain(triple).object_code(text)
    assert outside(code) == ["a_function_with_a_long_name", "sin"]
    for damaged in (b"", b"no object", code[:30]):
        with pytest.raises(ValueError, match="object file"):
            outside(damaged)

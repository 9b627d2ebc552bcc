"""What machine code is made for: GRADWRIGHT_CPU, GRADWRIGHT_KERNELS, and names that are nowhere."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

import gradwright as gw
from gradwright.cpu.llvm import cache, compiler, image, target
from gradwright.errors import GraphError
from gradwright.files.trusted import OBJECTS

FLAGS = " ".join(sorted(target.V3))
needs_x86 = pytest.mark.skipif(platform.machine() not in target.X86, reason="levels of x86-64")


def test_levels_contain_each_other() -> None:
    assert target.V2 < target.V3 < target.V4


def test_values_that_are_not_known_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = gw.Graph()
    monkeypatch.setenv("GRADWRIGHT_CPU", "x86-64-v9")
    with pytest.raises(GraphError, match="GRADWRIGHT_CPU=x86-64-v9 is not known") as found:
        gw.Session(graph)
    assert "native or x86-64-v2 or x86-64-v3 or x86-64-v4" in str(found.value)
    monkeypatch.delenv("GRADWRIGHT_CPU")
    monkeypatch.setenv("GRADWRIGHT_KERNELS", "maybe")
    with pytest.raises(GraphError, match="GRADWRIGHT_KERNELS=maybe is not known"):
        gw.Session(graph)


def test_levels_that_the_machine_lacks_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "_known", lambda: (f"flags : {FLAGS}",))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("GRADWRIGHT_CPU", "x86-64-v4")
    with pytest.raises(GraphError, match="lacks avx512bw, avx512cd") as found:
        target.target.__wrapped__()
    assert str(found.value).endswith("need: native or x86-64-v2 or x86-64-v3")
    monkeypatch.setenv("GRADWRIGHT_CPU", "x86-64-v3")
    assert target.target.__wrapped__().flags == target.V3
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(GraphError, match="which is aarch64"):
        target.target.__wrapped__()


SHOW = """
import numpy as np
import gradwright as gw
from gradwright.cpu.llvm.compiler import identity
g = gw.Graph()
x = g.placeholder("x", (None,), dtype="float64")
h = g.placeholder("h", (None,), dtype="float16")
ys = [gw.cast(gw.tanh(x), "float16"), gw.tanh(h), gw.cast(h, "float64") * 2.0]
xs = np.linspace(-3, 3, 165)
with gw.Session(g, kernels="wait") as session:
    found = session.run(ys, {"x": xs, "h": xs.astype("f2")})
    head = session.plan(ys, {"x": (165,), "h": (165,)}).head
for y, e in zip(found, (np.tanh(xs), np.tanh(xs), xs * 2)):
    np.testing.assert_allclose(y.astype("f8"), e, rtol=2e-3, atol=1e-6)
print(type(head.executor.laid).__name__, head.executor.why or "-", *identity().splitlines()[3:])
"""


def shown(folder: Path, **variables: str) -> str:
    environment = {**os.environ, "GRADWRIGHT_CACHE": str(folder), **variables}
    command = [sys.executable, "-c", SHOW]
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True, timeout=300
    ).stdout.strip()


@needs_x86
@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3"])
def test_a_level_is_all_that_machine_code_depends_on(tmp_path: Path, level: str) -> None:
    """Halves have no instructions in x86-64-v2, and none for a double in x86-64-v3."""
    if not compiler.available():
        pytest.skip("no llvmlite here")
    if not target.LEVELS[level] <= target.target().flags:
        pytest.skip(f"no {level} here")
    for _ in range(2):  # compiled, and from disk
        assert shown(tmp_path, GRADWRIGHT_CPU=level) == f"Bound - {level}"
        assert list(tmp_path.glob("*.o"))


@pytest.mark.skipif(not compiler.available(), reason="llvmlite is not installed")
def test_without_kernels_sessions_run_on_numpy(tmp_path: Path) -> None:
    said = shown(tmp_path, GRADWRIGHT_KERNELS="off")
    assert said.startswith("Plain GRADWRIGHT_KERNELS=off") and not list(tmp_path.iterdir())


NOWHERE = """define void @k(ptr %block) {
  call void @is_nowhere()
  ret void
}
declare void @is_nowhere()
"""


def test_object_code_on_disk_that_needs_what_is_nowhere_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where LLVM's own loader would place it, which ends the process."""
    if not compiler.available():
        pytest.skip("no llvmlite here")
    monkeypatch.setenv("GRADWRIGHT_CACHE", str(tmp_path))
    code = compiler._toolchain().object_code(NOWHERE)
    OBJECTS.store(cache.key(NOWHERE, compiler.identity()), code)
    with pytest.raises(RuntimeError, match="is_nowhere"):
        compiler.compile_text(NOWHERE)
    monkeypatch.setattr(image, "place", lambda *_: None)
    with pytest.raises(RuntimeError, match="is_nowhere"):
        compiler.compile_text(NOWHERE)
    monkeypatch.setattr(compiler.Toolchain, "object_code", lambda *_: b"of another format")
    with pytest.raises(ValueError, match="not known"):
        compiler.compile_text(NOWHERE)


def test_llvm_is_told_where_helpers_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where LLVM places object code, it finds the helpers for halves, too."""
    if not compiler.available():
        pytest.skip("no llvmlite here")
    monkeypatch.setenv("GRADWRIGHT_CACHE", "off")
    monkeypatch.setattr(image, "place", lambda *_: None)
    text = """define void @k(ptr %block) {
  %x = load double, ptr %block
  %h = call half @__truncdfhf2(double %x)
  store half %h, ptr %block
  ret void
}
declare half @__truncdfhf2(double)
"""
    assert compiler.compile_text(text)

"""Bits of deterministic sessions: the same with any threads, imports, and places of arrays."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm.blas import blas
from gradwright.cpu.llvm.compiler import available
from gradwright.cpu.threads import alike
from gradwright.cpu.threads.alike import Product, keeps_bits
from tests.ops import bit_programs

ROOT = Path(__file__).parents[2]
counted = pytest.mark.skipif(blas() is None, reason="numpy has another BLAS")
SETS = {
    "Prescott": "SSE3", "Nehalem": "SSE42", "Sandybridge": "AVX", "Haswell": "AVX2", "Zen": "AVX2",
    "SkylakeX": "AVX512_SKX", "Cooperlake": "AVX512_ICL", "Sapphirerapids": "AVX512_SPR",
}  # fmt: skip
"""OpenBLAS's sets of kernels for x86-64, and what a processor needs for them, as numpy says it."""


PLAIN = """import numpy as np
for char in "fdFD":
    for n in (8, 64, 333):
        a = np.ones((n, n), char); a @ a; a @ a[0]; a[0] @ a
"""


def process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
        env={**os.environ, **environment},
    )


def answer(code: str, **environment: str) -> Any:
    """Return what a process of its own finds: the JSON that it prints last."""
    done = process(f"import json\n{code}", **environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def alone(found: dict[str, list[str]]) -> dict[str, int]:
    """Return those programs that have several digests."""
    return {name: len(set(seen)) for name, seen in found.items() if len(set(seen)) > 1}


def test_bits_are_the_same_with_any_number_of_threads() -> None:
    assert not alone(bit_programs.by_threads())


@pytest.mark.parametrize("kernels", ["wait", "off"])
def test_bits_are_the_same_wherever_arrays_begin(kernels: str) -> None:
    assert not alone(bit_programs.by_place(kernels=kernels, threads=2))


@pytest.mark.skipif(not available(), reason="no llvmlite here")
def test_bits_are_the_same_of_arrays_that_are_not_aligned_to_their_items() -> None:
    for name in ("vectors", "attention", "optimizers"):
        assert (
            len({bit_programs.digest(bit_programs.PROGRAMS[name](), at) for at in (0, 1, 6)}) == 1
        )


@pytest.mark.skipif(not available(), reason="no llvmlite here")
def test_bits_are_the_same_of_kernels_from_the_disk(tmp_path: Path) -> None:
    code = """
from tests.ops.bit_programs import *
print(json.dumps([digest(PROGRAMS[name]()) for name in ("attention", "optimizers")]))
"""
    fresh = answer(code, GRADWRIGHT_CACHE=str(tmp_path))
    assert any(tmp_path.rglob("*"))
    assert answer(code, GRADWRIGHT_CACHE=str(tmp_path)) == fresh


def test_bits_do_not_depend_on_which_plan_is_made_first() -> None:
    g = gw.Graph()
    x, w = g.placeholder("x", (None, 301)), g.constant(bit_programs.drawn(0, 301, 259))
    y = gw.nn.softmax(gw.nn.gelu(x @ w))
    dx = gw.gradients(gw.mean(y * y), [x])
    feeds = [{"x": bit_programs.drawn(n, n, 301)} for n in (40, 1, 252)]
    found = []
    for order in ([0, 1, 2], [2, 0, 1]):
        with gw.Session(g, deterministic=True, threads=2) as session:
            first = {i: session.run([y, *dx], feeds[i]) for i in order}
            again = {i: session.run([y, *dx], feeds[i]) for i in order}
        found += [b"".join(a.tobytes() for i in range(3) for a in r[i]) for r in (first, again)]
    assert found[0] == found[2] and found[1] == found[3]


@pytest.mark.skipif(not available(), reason="no llvmlite here")
@counted
def test_bits_are_the_same_with_any_number_of_threads_in_every_set_of_kernels() -> None:
    if platform.machine().lower() not in ("x86_64", "amd64"):
        pytest.skip("the names of OpenBLAS's kernels for this machine are not listed")
    from numpy._core._multiarray_umath import __cpu_features__ as has

    known: list[str] = []
    for name, needed in SETS.items():
        if not has.get(needed):
            print(f"{name}: not run, the processor lacks {needed}")
            continue
        if process(PLAIN, OPENBLAS_CORETYPE=name).returncode:
            # OpenBLAS 0.3.34 in numpy 2.5 ends the process with three of them, asked for by name.
            print(f"{name}: not run, numpy alone ends the process with it")
            continue
        code = f"from tests.ops.bit_programs import *\nprint(json.dumps(of_this_set({known})))"
        found = answer(code, OPENBLAS_CORETYPE=name, OPENBLAS_NUM_THREADS="2")
        if found["core"] in known:
            print(f"{name}: this OpenBLAS takes {found['core']}")
            continue
        known.append(found["core"])
        print(f"{name}: {found['core']}, {found['products'][0]} products cut")
        assert found["products"][0] > 10 and found["products"][1] == 0
        assert not alone(found["programs"])
    assert known


@counted
def test_pieces_with_other_bits_are_found_by_computing_them(monkeypatch: Any) -> None:
    rng = np.random.default_rng(0)

    def gemm(library: Any, char: str) -> Any:
        def run(product: Product, a: Any, b: Any, c: Any) -> None:
            # By pairs of rows: what lies alone is added up from behind.
            even = len(a) // 2 * 2
            c[:even] = np.add.accumulate(a[:even, :, None] * b, 1)[:, -1]
            c[even:] = np.add.accumulate((a[even:, :, None] * b)[:, ::-1], 1)[:, -1]

        return run

    monkeypatch.setattr(alike, "_gemm", gemm)
    alike._keeps.cache_clear()
    product = Product("f", (False, False), False, (9, 12, int(rng.integers(30, 40))), (0, 0, 0))
    assert keeps_bits(product, 0, [0, 4, 9]) and keeps_bits(product, 1, [0, 5, 12])
    assert not keeps_bits(product, 0, [0, 3, 9])
    monkeypatch.undo()
    alike._keeps.cache_clear()


def test_imports_change_no_bits() -> None:
    code = """
import importlib, pkgutil, sys
import gradwright
from tests.ops import bit_programs
from gradwright.fuse.rules import RULES as fusions
from gradwright.rewrite import RULES as rewrites
lowerings = sys.modules["gradwright.program.lowering"]._table

def tables():
    return [dict(t) for t in (fusions, rewrites, lowerings)]

def digests():
    return {name: bit_programs.digest(make()) for name, make in bit_programs.PROGRAMS.items()}

before, first, changed, there = tables(), digests(), [], set(sys.modules)
for info in pkgutil.iter_modules(gradwright.__path__, "gradwright."):
    importlib.import_module(info.name)
    if tables() != before:
        changed.append(info.name)
        before = tables()
print(json.dumps([sorted(set(sys.modules) - there), changed, first, digests()]))
"""
    imported, changed, before, after = answer(code)
    assert {"gradwright.train", "gradwright.formats", "gradwright.debug"} <= {*imported}
    assert not changed and before == after

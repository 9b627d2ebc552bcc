"""The compiler of kernels and its cache: threads, forks, damage, limits, other machines."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwright.cpu.llvm import cache, compiler, image
from gradwright.cpu.threads.background import Background
from gradwright.files import trusted
from gradwright.files.trusted import OBJECTS
from gradwright.fuse.ir import Kernel
from gradwright.fuse.layout import Loops, lay_out
from tests.cpu.sketches import Sketch

pytestmark = pytest.mark.skipif(not compiler.available(), reason="llvmlite is not installed")
Array = np.ndarray[Any, Any]


# Compiler ---------------------------------------------------------------------------------------

TEXT = """define void @k(ptr %block) {{
  store i64 {number}, ptr %block
  ret void
}}
"""


def stored(address: int) -> int:
    number = np.zeros(1, np.int64)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(number.ctypes.data)
    return int(number[0])


def nowhere(name: str) -> int | None:
    return None


def doubling(times: int) -> Kernel:
    sketch = Sketch(1)
    x = sketch.load("f4:1")
    for _ in range(times):
        x = sketch.add(x, x)
    sketch.store(x, "f4:1")
    return sketch.kernel()


def key_of(kernel: Kernel) -> compiler.Key:
    x = np.ones(8, "f4")
    loops = lay_out(kernel, [x, x.copy()], (8,))
    assert isinstance(loops, Loops)
    return kernel, loops.pattern


def test_the_background_does_one_thing_after_the_other_and_ends() -> None:
    background, begun, done = Background("test"), threading.Event(), []
    gate = threading.Event()

    def first() -> None:
        begun.set()
        gate.wait(60)
        done.append((0, threading.current_thread().name, threading.current_thread().daemon))

    background.add(first)
    assert begun.wait(60) and background.is_busy
    for n in (1, 2):
        background.add(lambda n=n: done.append(n))
    assert not done
    gate.set()
    background.wait(60)
    assert done == [(0, "test", True), 1, 2] and not background.is_busy
    background.add(lambda: done.append(3))
    background.wait(60)
    assert done[-1] == 3


def test_many_threads_ask_for_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    original = compiler.compile_text
    monkeypatch.setattr(
        compiler, "compile_text", lambda text: compiled.append(text) or original(text)
    )
    kernels, key = compiler.Kernels(), key_of(doubling(5))
    text = compiler.emit(*key)  # a thread may still compile for a test before
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(kernels.compile(key))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert compiled.count(text) == 1 and len(set(found)) == 1 and len(found) == 6


def test_what_cannot_be_compiled_is_reported_once_and_stays_on_numpy(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compiler, "emit", lambda kernel, pattern: "define nonsense")
    kernels, key = compiler.Kernels(), key_of(doubling(6))
    with caplog.at_level("INFO", "gradwright"):
        assert kernels.compile(key) is None and kernels.compile(key) is None
    assert [r.message.startswith("a kernel stays on numpy") for r in caplog.records] == [True]


def test_functions_that_the_process_lacks_are_found_before_llvm_gives_up() -> None:
    text = """define void @k(ptr %block) {
  %x = call double @no_such_function(double 1.0)
  ret void
}
declare double @no_such_function(double)
"""
    with pytest.raises(RuntimeError, match="no_such_function"):
        compiler.compile_text(text)


def test_without_llvmlite_nothing_is_available() -> None:
    code = (
        "import sys; sys.modules['llvmlite'] = None\n"
        "from gradwright.cpu.llvm import compiler\n"
        "assert not compiler.available()\n"
        "import gradwright as gw\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


ON_DISK = """
import sys
import numpy as np
import gradwright as gw
g = gw.Graph()
x = g.placeholder("x", (6, 40))
y = gw.nn.softmax(gw.tanh(x @ gw.transpose(x)) + gw.fmod(x, 0.7).sum(), axis=-1)
given = np.linspace(-2, 2, 240, dtype="f4").reshape(6, 40)
with gw.Session(g, kernels="wait") as session:
    found = session.run(y, {"x": given})
    assert type(session.plan(y, {"x": (6, 40)}).head.executor.laid).__name__ == "Bound"
with gw.Session(g, kernels="off") as session:
    np.testing.assert_allclose(found, session.run(y, {"x": given}), rtol=1e-5)
print("llvmlite.binding" in sys.modules)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere LLVM places what is on disk")
def test_kernels_on_disk_run_without_llvm(folder: Path) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("images are for x86-64")
    command = [sys.executable, "-c", ON_DISK]
    said = [
        subprocess.run(command, check=True, timeout=300, capture_output=True, text=True).stdout
        for _ in range(2)
    ]
    assert [text.strip() for text in said] == ["True", "False"]


def test_object_files_that_are_more_than_an_image_are_left_to_llvm() -> None:
    tools = compiler._toolchain()
    code = tools.object_code(TEXT.format(number=42))
    assert image.place(code, "no_such_name", nowhere) is None
    for broken in (b"", b"no object", code[:80], code[:-40], b"\x7fELF\x01" + code[5:]):
        assert image.place(broken, "k", nowhere) is None
    writable = "@x = global i64 7\n" + TEXT.format(number=42).replace("i64 42", "i64 43")
    assert image.place(tools.object_code(writable), "k", nowhere) is None
    missing = "define void @k(ptr %block) {\n  call void @nowhere()\n  ret void\n}\n"
    assert image.place(tools.object_code(missing + "declare void @nowhere()"), "k", nowhere) is None


AT_WORK = """
import os, sys
from gradwright.cpu.threads.background import BACKGROUND
from tests.cpu.test_native_compiler import compiler, doubling, key_of
keys = [key_of(doubling(n)) for n in range(20, 40)]
for key in keys:
    BACKGROUND.add(lambda key=key: compiler.KERNELS.compile(key))
if sys.argv[1] == "fork":
    child = os.fork()
    if child == 0:
        BACKGROUND.wait(200)
        missing = [key for key in keys if not compiler.KERNELS.addresses.get(key)]
        os._exit(len(missing) > 1)  # one may have been taken by the parent's thread
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("what", ["exit", "fork"])
def test_leaving_and_forking_amid_the_work(what: str) -> None:
    environment = {**os.environ, "GRADWRIGHT_CACHE": "off", "PYTHONWARNINGS": "ignore"}
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", AT_WORK, what]
    subprocess.run(command, check=True, timeout=300, cwd=root, env=environment)


# Cache ------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRADWRIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_object_code_is_kept_and_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stored(compiler.compile_text(TEXT.format(number=42))) == 42
    assert len(list(folder.glob("*.o"))) == 1
    monkeypatch.setattr(compiler.Toolchain, "object_code", lambda *_: pytest.fail("compiled"))
    assert stored(compiler.compile_text(TEXT.format(number=42))) == 42
    if os.name == "posix":
        assert folder.stat().st_mode & 0o777 == 0o700
        assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())
    name = cache.key("text", "compiler 1")
    assert len({name, cache.key("text", "compiler 2"), cache.key("text 2", "compiler 1")}) == 3
    assert not list(folder.glob("*.draft"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[:40],
        lambda data: b"",
        lambda data: data + b"\0",
        lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
        lambda data: b"X" + data[1:],
        lambda data: data[:70] + bytes(32) + data[102:],
    ],
)
def test_a_damaged_file_is_never_run(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    name = cache.key("text", "")
    OBJECTS.store(name, b"code" * 100)
    assert OBJECTS.load(name) == b"code" * 100
    path = folder / f"{name}.o"
    path.write_bytes(damage(path.read_bytes()))
    assert OBJECTS.load(name) is None
    OBJECTS.store(name, b"new")
    assert OBJECTS.load(name) == b"new"


def test_a_file_under_another_name_or_secret_is_never_run(folder: Path) -> None:
    one, other = cache.key("one", ""), cache.key("other", "")
    OBJECTS.store(one, b"code")
    (folder / f"{other}.o").write_bytes((folder / f"{one}.o").read_bytes())
    assert OBJECTS.load(other) is None
    (folder / "secret").write_bytes(bytes(32))
    assert OBJECTS.load(one) is None
    (folder / "secret").write_bytes(b"short")
    OBJECTS.store(one, b"code")
    assert OBJECTS.load(one) == b"code" and len((folder / "secret").read_bytes()) == 32


@pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX")
def test_a_folder_that_others_can_write_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = cache.key("text", "")
    OBJECTS.store(name, b"code")
    folder.chmod(0o777)
    assert OBJECTS.load(name) is None
    folder.chmod(0o700)
    assert OBJECTS.load(name) == b"code"
    (folder / "secret").chmod(0o666)
    assert OBJECTS.load(name) is None
    (folder / "secret").chmod(0o600)
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    assert OBJECTS.load(name) is None
    before = sorted(folder.iterdir())
    OBJECTS.store(cache.key("more", ""), b"code")
    assert sorted(folder.iterdir()) == before


@pytest.mark.skipif(os.name != "posix", reason="links need no rights on POSIX")
def test_a_link_is_no_cache_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    OBJECTS.store(cache.key("text", ""), b"code")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_disk_that_refuses_fails_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    name = cache.key("text", "")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", full)
        OBJECTS.store(name, b"code")
    OBJECTS.store(name, b"code")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdopen", full)
        patch.setattr(Path, "replace", full)
        OBJECTS.store(cache.key("more", ""), b"code")
        patch.setattr(Path, "read_bytes", full)
        assert OBJECTS.load(name) is None
    assert OBJECTS.load(name) == b"code" and not list(folder.glob("*.draft"))
    folder_file = folder.parent / "file"
    folder_file.write_text("in the way")
    monkeypatch.setenv("GRADWRIGHT_CACHE", str(folder_file))
    OBJECTS.store(name, b"code")
    assert OBJECTS.load(name) is None
    assert stored(compiler.compile_text(TEXT.format(number=43))) == 43


def test_the_cache_can_be_off_and_has_a_place_on_every_system(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GRADWRIGHT_CACHE", "off")
    assert trusted.folder() is None
    OBJECTS.store(cache.key("text", ""), b"code")
    assert OBJECTS.load(cache.key("text", "")) is None
    assert stored(compiler.compile_text(TEXT.format(number=44))) == 44
    monkeypatch.delenv("GRADWRIGHT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert trusted.folder() == tmp_path / "gradwright/native"
    monkeypatch.setattr(sys, "platform", "win32")
    assert trusted.folder() == tmp_path / "gradwright/native"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert trusted.folder() == Path("~/Library/Caches/gradwright/native").expanduser()


def test_the_files_used_longest_ago_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [cache.key(str(n), "") for n in range(5)]
    for n, name in enumerate(names):
        OBJECTS.store(name, bytes(1000))
        os.utime(folder / f"{name}.o", (n, n))
    assert OBJECTS.load(names[0]) is not None  # which makes it the latest
    monkeypatch.setattr(trusted, "LIMIT", 4000)
    trusted.trim(folder)
    assert [OBJECTS.load(name) is not None for name in names] == [True, False, False, True, True]
    assert OBJECTS.load(names[0]) is not None

"""The extension in a real Jupyter server: who may ask, what is refused, and what no file can do."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import gradwright as gw
from gradwright_widgets.server.handlers import TASKS, Handler, handlers
from gradwright_widgets.server.kept import Kept
from gradwright_widgets.server.pool import Lane, Pool
from gradwright_widgets.server.refused import RefusedError
from tests.formats import every_format
from tests.widgets.server import fuzz
from tests.widgets.server.serving import TOKEN, Server, resident

pytest.importorskip("jupyter_server")
from jupyter_server.services.contents.filemanager import AsyncFileContentsManager
from jupyter_server.services.contents.manager import ContentsManager


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    root, home = tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("home")
    for name in ("gw", "onnx", "safetensors", "run"):
        (root / name).mkdir()
        every_format.MAKERS[name](root / name)
    (root / "<img src=x onerror=alert(1)>.gw").write_bytes(b"PK\3\4<b>")
    (root / ".secret.gw").write_bytes((root / "gw/net.gw").read_bytes())
    (root / "out").symlink_to("/etc")
    os.mkfifo(root / "pipe.gw")
    served = Server(root, home)
    yield served
    readers = served.readers()
    served.close()
    until = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in readers) and time.monotonic() < until:
        time.sleep(0.05)
    assert readers and not any(Path(f"/proc/{pid}").exists() for pid in readers)


def sparse(path: Path, rows: int, columns: int) -> None:
    """Write a safetensors file of zeros that takes no room on the disk."""
    size = 4 * rows * columns
    row = {"dtype": "F32", "shape": [rows, columns], "data_offsets": [0, size]}
    head = json.dumps({"w": row}).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        file.truncate(8 + len(head) + size)


ADDRESSES = ["stamp", *TASKS]
PATHS = {"compare": "a=gw/net.gw&b=onnx/net.onnx", "formats": ""}


@pytest.mark.parametrize("task", ADDRESSES)
def test_nobody_is_answered_without_a_token(server, task):
    url = f"/base/gradwright/{task}?{PATHS.get(task, 'path=gw/net.gw')}"
    answer = server.get(url, token=None)
    assert answer.status == 403 and b"net" not in answer.body
    assert server.get(url, token="wrong").status == 403
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert server.get(url, method=method).status == 405
        assert server.get(url, token=None, method=method).status in (403, 405)


def test_every_handler_is_one_that_asks_who_is_asking():
    found = handlers("/base/")
    assert [url for url, *_ in found] == [f"/base/gradwright/{task}" for task in ADDRESSES]
    for _, handler, shared in found:
        assert issubclass(handler, Handler) and handler.get.__wrapped__
        shared["pool"].close()


def test_folders_called_checkpoints_are_listed_and_copies_still_kept(server):
    at = "/base/api/contents/run/run/checkpoints"
    listed = server.get(f"{at}?content=1&hash=0").json
    assert listed["path"] == "run/run/checkpoints" and listed["type"] == "directory"
    assert {item["name"][-3:] for item in listed["content"]} == {".gw"}
    assert server.get(f"{at}?content=1", token=None).status == 403
    assert server.get("/base/api/contents/gw/checkpoints?content=1").status == 404
    assert server.get("/base/api/contents/../checkpoints?content=1").status in (400, 404)
    for method in ("PUT", "PATCH", "DELETE"):
        assert server.get(f"{at}?content=1", method=method).status in (403, 405)
    assert (server.root / "run/run/checkpoints").is_dir()


def test_copies_of_files_are_made_restored_and_deleted(server):
    at, file = "/base/api/contents/copied.ipynb/checkpoints", server.root / "copied.ipynb"
    book = {"cells": [], "metadata": {"version": 1}, "nbformat": 4, "nbformat_minor": 5}
    file.write_text(json.dumps(book))
    assert server.get(at).json == []
    for method in ("GET", "POST"):
        assert server.get(at, method=method, token=None).status == 403
    assert server.get(at, method="HEAD").status == 405  # as Jupyter Server's own handler
    made = server.get(at, method="POST")
    assert made.status == 201 and server.get(at).json == [made.json]
    file.write_text(json.dumps(book | {"metadata": {"version": 2}}))
    assert server.get(made.headers["Location"], method="POST").status == 204
    assert json.loads(file.read_text())["metadata"] == {"version": 1}
    assert server.get(made.headers["Location"], method="DELETE").status == 204
    assert server.get(at).json == []


def test_what_is_asked_for_is_told(server):
    told = server.ask("drawing", path="gw/net.gw")
    assert told.status == 200 and told.headers["Content-Type"].startswith("application/json")
    assert told.json["state"]["graph_spec"]["names"][:2] == ["x", "w"]
    assert server.ask("drawing", path="gw/net.gw").body == told.body
    stamp = server.ask("stamp", path="gw/net.gw").json
    assert stamp["stamp"] == told.json["stamp"] and stamp["kind"] == "file"
    assert server.ask("inspect", path="run/run").json["format"] == "run"
    assert server.ask("runs", path="run").json["runs"][0]["path"] == "run/run"
    both = server.ask("difference", path=["run/run", "run/run"])
    assert both.json["rows"] == []
    assert server.ask("compare", a="gw/net.gw", b="onnx/net.onnx").json["structure"]["same"] > 0


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("../home", 400), ("/etc/passwd", 400), ("a\0b", 400), ("%2e%2e/home", 404),
        ("out/passwd", 403), ("out", 403), (".secret.gw", 404), ("pipe.gw", 403), ("gone", 404),
    ],
)  # fmt: skip
def test_paths_outside_are_refused(server, path, status):
    for task in ("inspect", "drawing", "stamp", "runs"):
        told = server.ask(task, path=path)
        assert told.status == status, (task, told.body)
        assert told.json.keys() == {"code", "message", "where", "facts", "need", "hint"}
        assert b"root:" not in told.body and str(server.root).encode() not in told.body
    assert server.ask("compare", a="gw/net.gw", b=path).status == status


def test_names_are_text(server):
    told = server.ask("inspect", path="<img src=x onerror=alert(1)>.gw")
    assert told.status in (415, 422)
    assert told.headers["Content-Type"].startswith("application/json")
    assert told.headers["X-Content-Type-Options"] == "nosniff"


def test_contents_of_no_folder_are_not_shown(tmp_path):
    class Others(ContentsManager):
        """Contents of a database, say, whose root is "/" unless somebody says otherwise."""

    assert Others().root_dir == "/"
    with pytest.raises(RefusedError, match="do not lie in a folder") as caught:
        Handler.root(SimpleNamespace(contents_manager=Others()))
    assert (caught.value.status, caught.value.code) == (501, "no-root")
    held = SimpleNamespace(contents_manager=AsyncFileContentsManager(root_dir=str(tmp_path)))
    assert Handler.root(held) == str(tmp_path)


def test_files_of_any_size_are_read_alike(server):
    sizes = {"small": (10, 10), "3 GB": (30_000, 25_000), "100 GB": (250_000, 100_000)}
    held = []
    for name, shape in sizes.items():
        sparse(server.root / f"{name}.safetensors", *shape)
        path = f"{name}.safetensors"
        assert server.ask("inspect", path=path).json["count"] == 1
        listed = server.ask("tensors", path=path).json["tensors"]
        assert listed[0]["shape"] == list(shape)
        told = server.ask("tensor", path=path, name="w", index="[-1, :5]").json
        assert told["messages"][0]["content"]["slice"] == [5]
        assert told["statistics"]["high"] == 0.0 and (told["every"] > 1) is (name != "small")
        rows, columns = shape
        for window in (f"0,{rows},0,{columns}", f"{rows // 4},{rows // 2},0,{columns}"):
            near = server.ask("window", path=path, name="w", window=f"0,1,0,1,{window}").json
            assert near["part"]["cells"][1] == min(256, columns)
            told = server.ask("element", path=path, name="w", at=f"0,{window}").json
            assert told["text"].startswith("min 0.0 at [")
        held.append(max(map(resident, server.readers())))
    assert held[-1] < 400 << 20 and resident(server.pid) < 300 << 20, held


def test_headers_that_are_huge_or_lie_are_refused(server):
    for name, head in {
        "huge": struct.pack("<Q", 1 << 40) + b"{" + bytes(100),
        "deep": struct.pack("<Q", 4_000_002) + b"{" + b"[" * 4_000_001,
        "past": _header({"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 4 << 40]}),
        "axes": _header({"dtype": "F32", "shape": [1] * 100, "data_offsets": [0, 4]}) + bytes(4),
    }.items():
        (server.root / f"{name}.safetensors").write_bytes(head)
        told = server.ask("tensor", path=f"{name}.safetensors", name="w")
        assert told.status in (415, 422), (name, told.body)
        assert server.ask("drawing", path=f"{name}.safetensors").status in (415, 422)
    assert server.ask("inspect", path="gw/net.gw").status == 200


def _header(row: dict) -> bytes:
    head = json.dumps({"w": row}).encode()
    return struct.pack("<Q", len(head)) + head


def test_one_who_leaves_ends_the_work(server):
    server.ask("compare", a="gw/net.gw", b="onnx/net.onnx")  # begins the process that will do it
    first = set(server.readers())
    url = f"http://127.0.0.1:{server.port}/base/gradwright/"
    url += "tensor?path=100%20GB.safetensors&name=w&exact=1"
    sparse(server.root / "100 GB.safetensors", 250_000, 100_000)
    request = urllib.request.Request(url, headers={"Authorization": f"token {TOKEN}"})
    with pytest.raises(TimeoutError):
        urllib.request.urlopen(request, timeout=2)
    until = time.monotonic() + 20
    while first <= set(server.readers()) and time.monotonic() < until:
        time.sleep(0.1)
    assert not first <= set(server.readers()), "the process that read it goes on"
    assert server.ask("inspect", path="gw/net.gw").status == 200


def test_the_server_answers_others_meanwhile(server):
    done = threading.Event()

    def long() -> None:
        server.ask("tensor", path="250 MB.safetensors", name="w", exact=1)
        done.set()

    sparse(server.root / "250 MB.safetensors", 2_500, 25_000)
    thread = threading.Thread(target=long)
    thread.start()
    while not done.is_set():
        begun = time.monotonic()
        assert server.ask("stamp", path="gw/net.gw").status == 200
        if time.monotonic() - begun < 0.5:
            break
        time.sleep(0.1)
    else:
        pytest.fail("no stamp was told before the tensor was read")
    thread.join()


def test_random_requests(server):
    before = resident(server.pid)
    fuzz.prepare(server.root)
    assert fuzz.campaign(server, range(40)) == []
    assert resident(server.pid) < before + (64 << 20)


# -- processes -------------------------------------------------------------------------------------


def asked(**changes):
    return {
        "task": "formats", "root": "", "hidden": False, "paths": [], "files": [], "stamps": [],
        "arguments": {}, **changes,
    }  # fmt: skip


def test_a_process_that_takes_too_long_or_dies_is_replaced():
    async def run():
        pool = Pool({"quick": Lane(1, 0.01)})
        try:
            with pytest.raises(RefusedError, match="longer than") as caught:
                await pool.ask("quick", asked())
            assert caught.value.status == 504
            pool._lanes = {"quick": Lane(1, 60.0)}
            assert b"safetensors" in await pool.ask("quick", asked())
            ((reader, _),) = pool._free["quick"]
            reader._process.kill()
            with pytest.raises(RefusedError, match="has ended"):
                await pool.ask("quick", asked())
            assert b"safetensors" in await pool.ask("quick", asked())
            with pytest.raises(RefusedError) as wrong:
                await pool.ask("quick", asked(task="nothing"))
            assert wrong.value.status == 500
        finally:
            pool.close()

    asyncio.run(run())


def test_too_many_requests_are_refused():
    async def run():
        pool = Pool({"quick": Lane(1, 60.0)})
        pool._waiting["quick"] = 64
        with pytest.raises(RefusedError, match="wait"):
            await pool.ask("quick", asked())
        pool.close()

    asyncio.run(run())


def test_answers_are_kept_within_bounds():
    kept = Kept(100)
    for i in range(50):
        kept.keep(i, b"x" * 20)
    kept.keep("large", b"x" * 26)
    assert kept.find("large") is None and kept.find(49) and not kept.find(0)
    assert sum(map(len, kept._held.values())) <= 100


def test_the_extension_loads_nothing_heavy():
    script = (
        "import jupyter_server.serverapp, jupyter_server.auth.decorator, sys, time\n"
        "import jupyter_server.services.contents.fileio\n"
        "before = set(sys.modules)\n"
        "import gradwright_widgets.server as s\n"
        "from gradwright_widgets.server import handlers\n"
        "print(*{n.split('.')[0] for n in set(sys.modules) - before})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not set(done.stdout.split()) & {"gradwright", "numpy", "ipywidgets", "anywidget", "onnx"}


def test_large_drawings_are_made(server):
    g = gw.Graph("large")
    x = h = g.placeholder("x", (4,))
    for i in range(3000):
        h = gw.nn.relu(h + x, name=f"r{i}")
    g.save(server.root / "large.gw")
    told = server.ask("drawing", path="large.gw").json
    assert told["nodes"] == 6001 and told["state"]["expanded"] is None
    assert np.frombuffer(_bytes(told["state"]["graph_spec"]["call"]), "<i4").size == 6001


def _bytes(buffer: dict) -> bytes:
    import base64

    return base64.b64decode(buffer["$bytes"])

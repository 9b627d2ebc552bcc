"""Arrays that stay on a device: fetched, fed again, lent to others and borrowed from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import DTypeError, FeedError, GraphError, LoweringError

pytest.importorskip("triton", reason="Triton has wheels for Linux only")

from gradwright.spec import dtype
from gradwright_kernels.device import dlpack
from gradwright_kernels.device.array import DeviceArray, Pool, get, put
from gradwright_kernels.device.gpu import Gpu
from gradwright_kernels.device.simulated.driver import Simulated
from gradwright_kernels.device.there import OnDevice, taken

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_results_stay_and_are_fed_again() -> None:
    g = gw.Graph()
    x, w = g.placeholder("x", (None, 3)), g.variable("w", (3,), init=gw.init.ones())
    z = g.placeholder("z", (None, 2))
    with gw.Session(g, device="cuda-sim", results="device") as session:
        run = session.prepare([x + w, x.T, x[:, 1:], x], [x], {w: w + 1.0}, commit_if=x.sum() > 0.0)
        y, turned, part, same = run(X)
        for _ in range(3):  # the second of these is a graph
            again, *_ = run(y)
        found = [np.asarray(a).tolist() for a in (y, turned, part, same, again)]
        assert found == [
            (X + 1).tolist(),
            X.T.tolist(),
            X[:, 1:].tolist(),
            X.tolist(),
            (X + 5).tolist(),
        ]
        assert (g.values.version("w"), float(y.copy().sum()), y.nbytes) == (4, 21.0, 24)
        own = dlpack.borrow(y.__dlpack__(copy=True))
        assert own.address != y.array.address == dlpack.borrow(y.__dlpack__()).address
        assert len(y) == 2 and f"{session.run(x.sum(), {x: y}):.1f}" == "21.0"
        assert isinstance(again, OnDevice) and np.array(y, "f8").dtype == "f8"
        whole = session.run(gw.cast(x, "int64"), {x: X})
        assert np.asarray(run(whole)[0]).tolist() == (X + 5).tolist()  # converted by the host
        with pytest.raises(FeedError, match="fed with size 2 on axis 1"):
            run(turned)
        assert np.asarray(session.run(z * 1.0, {z: part})).tolist() == X[:, 1:].tolist()
    others = [{}, {"device": "cuda-sim", "check": "replay"}, {"device": "cuda-sim"}]
    for how in others:  # what lies on another GPU goes by the host
        with gw.Session(g, **how) as other:
            assert other.run(x * 2.0, {x: y}).tolist() == (2 * X + 2).tolist()
    with pytest.raises(GraphError, match="results='here' is not known"):
        gw.Session(g, results="here")


def test_what_is_lent_is_held_until_it_is_given_back() -> None:
    torch = pytest.importorskip("torch")
    device = Gpu("cuda-sim", cuda := Simulated())
    free = cuda.memory()[0]
    for name in ("float32", "bool", "int64", "float16", "bfloat16", "complex64"):
        given = X.astype(dtype(name))
        lent = torch.from_dlpack(OnDevice(device, put(cuda, given, name="x")))
        assert cuda.memory()[0] < free
        assert lent.to(torch.complex64).tolist() == given.astype("c8").tolist()
        back = dlpack.borrow(lent.__dlpack__())
        del lent
        assert cuda.memory()[0] < free and get(cuda, back).tobytes() == given.tobytes()
        del back
        assert cuda.memory()[0] == free and not dlpack._lent


def test_nobody_takes_a_capsule() -> None:
    device = Gpu("cuda-sim", Simulated())
    OnDevice(device, put(device.cuda, X)).__dlpack__()
    assert not dlpack._lent
    with pytest.raises(DTypeError, match="no name for int4"):
        dlpack.lend(DeviceArray(0, gw.TensorSpec((2,), "int4")), (1, 0))


def test_batches_come_while_a_step_runs() -> None:
    """What is ahead has a stream of its own, and is there when it is given."""
    found = []
    for device in ("cpu", "cuda-sim"):
        g = gw.Graph()
        x, w = g.placeholder("x", (None, 3)), g.variable("w", (3,), init=gw.init.ones())
        trainer = gw.Trainer(g, gw.mean((x * w) ** 2.0), optimizer=gw.optim.SGD(0.1), device=device)
        session = trainer.session
        batches = ({"x": (X + n).astype("f8" if n == 2 else "f4")} for n in range(4))
        found.append([trainer.step(b).metrics["loss"] for b in session.ahead(batches)])
        assert list(session.ahead([])) == []
        if device == "cuda-sim":
            cuda: Any = session.device.cuda
            ahead = session.ahead({"x": X + n, "names": ["a"]} for n in range(3))
            first = next(ahead)
            assert isinstance(first["x"], OnDevice) and first["names"] == ["a"]
            taken = cuda.memory()[0]
            for other in ahead:
                assert np.asarray(other["x"])[0, 0] > 0
            assert cuda.memory()[0] >= taken - 512  # blocks are used again
            assert first["x"].tolist() == X.tolist()
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_the_memory_of_batches_that_nobody_took_is_free_of_their_copies() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (2, 3))
    with gw.Session(g, device="cuda-sim", results="device") as session:
        ahead: Any = session.ahead({"x": X + n} for n in range(3))
        next(ahead)
        ahead.close()  # the second was on its way
        cuda: Any = session.device.cuda
        results = [session.run(x * 1.0, {x: X}) for _ in range(2)]
        for stream in list(cuda.streams._queues):
            cuda.wait(stream)
        assert [y.tolist() for y in results] == [X.tolist()] * 2


def test_what_the_pool_keeps_makes_room_for_a_run() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    with gw.Session(g, device="cuda-sim", results="device") as session:
        device: Any = session.device
        device.cuda.blocks.total = 39_000
        session.run(x * 1.0, {x: np.ones(2_000, np.float32)})  # 8,000 bytes of it are kept
        assert session.run((x * 2.0).sum(), {x: np.ones(8_000, np.float32)}).item() == 16_000.0


def test_a_pool_keeps_no_more_than_it_may() -> None:
    cuda = Simulated(total=4096)
    pool = Pool(cuda, most=1024)
    first = pool.allocate(300)
    pool.free(first)
    assert pool.allocate(512) == first and cuda.memory()[0] == 4096 - 512
    for address in [pool.allocate(1000) for _ in range(3)]:
        pool.free(address)
    assert cuda.memory()[0] == 4096 - 512 - 1024
    pool.allocate(2600)  # what is kept makes room
    assert cuda.memory()[0] == 4096 - 512 - 3072


def test_memory_of_a_gpu_comes_without_the_host() -> None:
    class Theirs:
        def __init__(self, number: int) -> None:
            self.number, self.asked = number, list[Any]()

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, self.number

        def __dlpack__(self, **how: Any) -> Any:
            self.asked.append(how)
            return dlpack.lend(put(cuda, X), (2, self.number))

    cuda, theirs = Simulated(), Theirs(1)
    device = Gpu("cuda:1", cuda, 1)
    found = taken(device, theirs)
    assert found is not None and found.tolist() == X.tolist()
    assert theirs.asked == [{"stream": device.stream}]
    assert found.__dlpack_device__() == (2, 1)
    assert found.__cuda_array_interface__["stream"] == device.stream
    with pytest.raises(LoweringError, match=r"lies on GPU 0, and .* GPU 1\n.*cuda:0"):
        taken(device, Theirs(0))
    assert taken(device, X) is None and taken(Gpu("cuda-sim", cuda), theirs) is None

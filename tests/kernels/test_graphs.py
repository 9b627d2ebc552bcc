"""Steps that are one graph: what they compute, when they commit, what becomes of old addresses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import LoweringError

pytest.importorskip("triton", reason="Triton has wheels for Linux only")

from gradwright.spec import TensorSpec
from gradwright_kernels.device.array import Block, put
from gradwright_kernels.device.simulated.driver import Simulated
from gradwright_kernels.device.staging import Pinned

Array = np.ndarray[Any, Any]


def counted(session: gw.Session) -> int | None:
    """Return how many graphs were launched, if it is a simulated GPU, which counts them."""
    device: Any = session.device
    return getattr(device.cuda, "graphs", None)


def test_a_graph_decides_whether_it_commits() -> None:
    """An update commits if it is asked for and no index is wrong; else all stays as it was."""
    found = []
    for device in ("cpu", "cuda-sim"):
        g = gw.Graph()
        w, n = g.variable("w", (4, 2)), g.variable("n", (), dtype="int64")
        x, ids = g.placeholder("x", ()), g.placeholder("ids", ("K",), "int64")
        updates = {w: w + gw.gather(w + 1.0, ids).sum() * x, n: n + 1}
        with gw.Session(g, device=device) as session:
            run = session.prepare(w.sum(), [x, ids], updates, commit_if=x > 0.0)
            values: list[Any] = []
            for v, at in [(1, [0]), (2, [1]), (-1, [1]), (1, [9]), (-1, [9]), (3, [2]), (1, [0])]:
                try:
                    values.append(run(np.float32(v), np.array(at)).item())
                except LoweringError as error:
                    assert "gather" in str(error)
                    values.append("wrong")
                except gw.errors.GradwrightError:
                    values.append("wrong")
                values.append(g.values["w"].tolist())
            assert g.values.version("w") == g.values.version("n") == 4 == g.values["n"]
            assert device == "cpu" or counted(session) in (6, None)
        found.append(values)
    assert found[0] == found[1]


def test_sizes_and_memory_have_graphs_of_their_own() -> None:
    g = gw.Graph()
    w, x = g.variable("w", ()), g.placeholder("x", ("B",))
    with gw.Session(g, device="cuda-sim") as session:
        run = session.prepare(gw.exp(x), [x], {w: w + x.sum()})
        for _ in range(3):
            for n in (3, 5000, 8):  # the arena grows once, what was kept for 3 is kept anew
                assert run(np.zeros(n, np.float32)).tolist() == [1.0] * n
                run(np.ones(n, np.float32))
        g.values["w"] = 2.0  # lies where it did
        run(np.ones(8, np.float32))
        assert g.values["w"] == 10.0
        graphs = counted(session)
        session.release()
        run(np.ones(8, np.float32))
        run(np.ones(8, np.float32))
        assert g.values["w"] == 26.0
        assert graphs is None or counted(session) == graphs + 1


def test_updates_are_one_launch_however_their_gradients_lie() -> None:
    """Those that lie dense are; those that lie turned or reversed have launches of their own."""
    rng, found = np.random.default_rng(0), []
    shapes = [(16, 16), (8, 32), (32, 4), (2, 8, 2), (96,), (64, 2)]
    feeds = [[rng.standard_normal(s, np.float32) for s in shapes] for _ in range(3)]
    for device in ("cpu", "cuda-sim"):
        g = gw.Graph()
        x = [g.placeholder(f"x{k}", s) for k, s in enumerate(shapes)]
        by = [x[0], x[1], x[2].T, x[3], x[4][::-1], x[5].T]
        held = {g.variable(f"w{k}", t.shape): t for k, t in enumerate(by)}
        updates = {w: w - 0.5 * t for w, t in held.items()}
        with gw.Session(g, device=device) as session:
            run = session.prepare([], x, updates)
            for arrays in feeds:
                run(*arrays)
            found.append([g.values[w.name].copy() for w in held])
            if device == "cuda-sim":
                given = dict(zip(x, shapes, strict=True))
                laid: Any = session.plan([], given, updates=updates).head.executor.laid
                assert [len(joined.steps) for joined in laid.joined] == [3]
    for expected, y in zip(*found, strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_what_decides_may_be_an_update_and_variables_may_be_fed() -> None:
    found = []
    for device in ("cpu", "cuda-sim"):
        g = gw.Graph()
        w, last, n = (
            g.variable("w", (2,)),
            g.variable("last", (), dtype="bool"),
            g.variable("n", ()),
        )
        x = g.placeholder("x", ())
        good = x > 0.0
        with gw.Session(g, device=device) as session:
            run = session.prepare([], [x], {w: w + x, last: good}, commit_if=good)
            held = []
            for number in (1, -1, 2, 3, -1):
                run(np.float32(number))
                held += [g.values["w"].tolist(), g.values["last"].item()]
            stated = session.prepare([(w * 2.0).sum(), w], [w], {n: n + w.sum()})
            over = session.prepare([n + 0.0], [w], {w: w + 1.0}, commit_if=w.sum() > 0.0)
            for number in (5, 6, 7, -8):
                a = np.full(2, number, np.float32)
                held += [stated(a)[0].item(), g.values["n"].item()]
                held += [over(a)[0].item(), g.values["w"].tolist()]
        found.append(held)
    assert found[0] == found[1]


def test_a_graph_that_was_not_kept_to_its_end_is_made_again(monkeypatch: Any) -> None:
    g = gw.Graph()
    w, x = g.variable("w", (3,)), g.placeholder("x", ())
    with gw.Session(g, device="cuda-sim") as session:
        run = session.prepare(w.sum(), [x], {w: w + x})
        assert run(np.float32(1)) == 0.0
        device: Any = session.device
        with monkeypatch.context() as patch:
            patch.setattr(device.cuda, "copy_out", _refused)
            with pytest.raises(LoweringError, match="an illegal address"):
                run(np.float32(2))
        assert [run(np.float32(1)).item() for _ in range(3)] == [3.0, 6.0, 9.0]
        assert g.values["w"].tolist() == [4.0] * 3


def _refused(*args: Any) -> None:
    raise LoweringError("an illegal address")


def kept(cuda: Simulated, do: Any) -> int:
    cuda.begin_graph(0)
    do()
    return cuda.end_graph(0)


def test_a_graph_with_an_old_address_is_found() -> None:
    cuda = Simulated()
    x, to = put(cuda, np.arange(4.0)), Block(cuda, 32)
    source = x.address
    graph = kept(cuda, lambda: cuda.copy(to.address, source, 32, 0))
    cuda.launch_graph(graph, 0)
    cuda.wait(0)
    del x  # its memory goes with it
    cuda.launch_graph(graph, 0)
    with pytest.raises(LoweringError, match=r"a copy on the device: the memory at .* been freed"):
        cuda.wait(0)
    cuda.free_graph(graph)
    with pytest.raises(LoweringError, match="there is no graph"):
        cuda.launch_graph(graph, 0)


def test_a_graph_copies_pinned_memory_as_it_is_when_launched() -> None:
    cuda, loose = Simulated(), np.zeros(2, np.float32)
    block, pinned = Block(cuda, 16), Pinned(cuda, 16)
    given, found = (pinned.view(at, TensorSpec((2,))) for at in (0, 8))

    def there_and_back(to: Array = found) -> None:
        cuda.copy_in(block.address, given.ctypes.data, 8, 0)
        cuda.copy_out(to.ctypes.data, block.address, 8, 0)

    graph = kept(cuda, there_and_back)
    for number in (3.0, 5.0):
        given[...] = number + np.arange(2)
        cuda.launch_graph(graph, 0)
        assert np.isnan(found).all()  # nobody has waited
        cuda.wait(0)
        assert found.tolist() == [number, number + 1]
    with pytest.raises(LoweringError, match="host that is not pinned"):
        cuda.launch_graph(kept(cuda, lambda: there_and_back(loose)), 0)
    cuda.wait(0)
    del pinned
    with pytest.raises(LoweringError, match=r"pinned memory: the memory at .* has been freed"):
        cuda.launch_graph(graph, 0)
    cuda.begin_graph(0)
    with pytest.raises(LoweringError, match="waits for a stream that keeps its work"):
        cuda.wait(0)

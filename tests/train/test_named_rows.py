"""Tables whose gradient stays rows: beside torch's sparse ones, and beside whole gradients."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.graph import Tensor
from gradwright.op import find_op
from gradwright.ops.updates.rows import UpdateRows

N, D, STEPS = 60, 5, 6
rng = np.random.default_rng(3)
TABLE, MATRIX = rng.standard_normal((N, D)).astype("f4"), rng.standard_normal((D, 2)).astype("f4")
IDS = rng.integers(0, N // 2, (STEPS, 4, 3))
IDS[:, 0, :2] = 7  # in every batch, and twice


def model(ids: Tensor, table: Tensor, w: Tensor) -> Tensor:
    return ((gw.nn.embedding(ids, table) @ w - 1.0) ** 2.0).mean()


def trained(
    optimizer: Any, loss: Callable[..., Tensor] = model, steps: Any = IDS, **options: Any
) -> gw.Trainer:
    """Return a trainer after a step for each batch, kernels from the first one on."""
    trainer = begun(optimizer, loss, **options)
    for ids in steps:
        trainer.step({"ids": ids})
    return trainer


def begun(
    optimizer: Any, loss: Callable[..., Tensor] = model, batch: Any = "B", **options: Any
) -> gw.Trainer:
    g = gw.Graph()
    ids = g.placeholder("ids", (batch, 3), "int64")
    table, w = g.variable("table", TABLE.shape, init=TABLE), g.variable("w", (D, 2), init=MATRIX)
    return gw.Trainer(g, loss(ids, table, w), optimizer=optimizer, deterministic=True, **options)


def in_rows(trainer: gw.Trainer) -> bool:
    return " rows" in trainer.gradient_table.rows[0][1]


def state(trainer: gw.Trainer) -> dict[str, Any]:
    """Return what a step changes: variables, and what its optimizer keeps."""
    held = {n: a for n, a in trainer.state_dict().items() if n.startswith("state/")}
    return held | {name: trainer.values[name] for name in ("table", "w")}


class WholeSGD(gw.optim.SGD):
    """It moves all rows, as far as a step can know."""

    def update(self, *args: Any) -> Any:
        return super().update(*args)


class WholeAdaGrad(gw.optim.AdaGrad):
    """Likewise."""

    def update(self, *args: Any) -> Any:
        return super().update(*args)


@pytest.mark.filterwarnings("ignore:Sparse invariant")
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (gw.optim.SGD(0.3), lambda o, p: o.SGD(p, 0.3)),
        (gw.optim.AdaGrad(0.1, eps=1e-4), lambda o, p: o.Adagrad(p, 0.1, eps=1e-4)),
        (gw.optim.SparseAdam(0.1, eps=1e-3), lambda o, p: o.SparseAdam(p, 0.1, eps=1e-3)),
    ],
    ids=["sgd", "adagrad", "sparse_adam"],
)
def test_steps_are_those_of_torch_on_sparse_gradients(ours: Any, theirs: Any) -> None:
    torch = pytest.importorskip("torch")
    trainer = begun(ours)
    trainer.graph.freeze("w")
    table = torch.nn.Embedding(N, D, sparse=True, _weight=torch.tensor(TABLE))
    optimizer = theirs(torch.optim, table.parameters())
    for ids in IDS:
        trainer.step({"ids": ids})
        optimizer.zero_grad()
        ((table(torch.tensor(ids)) @ torch.tensor(MATRIX) - 1.0) ** 2.0).mean().backward()
        optimizer.step()
        found, expected = trainer.values["table"], table.weight.detach().numpy()
        np.testing.assert_allclose(found, expected, 1e-6, 1e-6)
    assert in_rows(trainer)


def tied(ids: Tensor, table: Tensor, w: Tensor) -> Tensor:
    return model(ids, table, w) + (gw.nn.embedding(ids, table) @ table.T).mean()


def twice(ids: Tensor, table: Tensor, w: Tensor) -> Tensor:
    return model(ids, table, w) + gw.gather(table, ids - N).mean()


def bag(ids: Tensor, table: Tensor, w: Tensor) -> Tensor:
    y = gw.nn.embedding_bag(ids, table, mode="mean", padding_idx=7)
    return ((y @ w - 1.0) ** 2.0).mean() + gw.nn.per_layer_embedding(y, table, ids[:, 0]).mean()


SAME: dict[str, tuple[Callable[..., Tensor], dict[str, Any]]] = {
    "plain": (model, {}),
    "numpy": (model, {"kernels": "off"}),
    "clip_value": (model, {"clip_value": 0.02}),
    "bfloat16": (model, {"precision": "bfloat16"}),
    "float16": (model, {"precision": gw.Precision("float16")}),
    "window": (model, {"accumulation": gw.Accumulation(3)}),
    "average": (model, {"ema": gw.EMA(0.9)}),
    "groups": (model, {"groups": [gw.Group(("table",), lr_multiplier=0.5)]}),
}
CLOSE = {
    "clip_norm": (model, {"clip_norm": 0.05}),
    "clip_tensor_norm": (model, {"clip_tensor_norm": 0.05}),
    "twice": (twice, {}),
    "bag": (bag, {}),
}


@pytest.mark.parametrize("case", [*SAME, *CLOSE])
@pytest.mark.parametrize("pair", [(gw.optim.SGD, WholeSGD), (gw.optim.AdaGrad, WholeAdaGrad)])
def test_bits_are_those_of_the_whole_gradient(case: str, pair: tuple[Any, Any]) -> None:
    """Norms, and sums over two look-ups, are added up in another order: 1e-6."""
    loss, options = (SAME | CLOSE)[case]
    rows, whole = (trained(optimizer(0.1), loss, **options) for optimizer in pair)
    assert in_rows(rows) and not np.array_equal(rows.values["table"], TABLE)
    assert in_rows(whole) == (case == "window")
    tolerance = 0 if case in SAME else 1e-6
    found, expected = (state(t) for t in (rows, whole))
    assert found.keys() == expected.keys()
    for name, array in found.items():
        np.testing.assert_allclose(array, expected[name], tolerance, tolerance, err_msg=name)


WINDOW: dict[str, Any] = {"accumulation": gw.Accumulation(2), "batch": 4}


@pytest.mark.parametrize(
    ("pair", "options"),
    [
        ((gw.optim.SGD, WholeSGD), {"clip_norm": 0.05}),
        ((gw.optim.AdaGrad, WholeAdaGrad), {"precision": "bfloat16"}),
    ],
)
def test_a_window_of_stated_batches_is_rows(pair: tuple[Any, Any], options: Any) -> None:
    """Three windows, and one that an epoch leaves half full; no sum has the table's size."""
    found = [begun(optimizer(0.1), **WINDOW, **options) for optimizer in pair]
    for trainer in found:
        trainer.fit([{"ids": ids} for ids in (*IDS, IDS[2])], progress=False)
    rows, whole = found
    assert rows.gradient_table.rows[0][2] == "look-ups alone, rows through a window"
    sizes = {n: a.size for n, a in rows.state_dict().items() if "accumulat" in n and "table" in n}
    assert sizes == {
        "state/accumulation/rows/table": 12,
        "state/accumulation/sums/table": 12 * D,
    }
    for name in ("table", "w"):
        assert not np.array_equal(rows.values[name], begun(pair[0](0.1)).values[name])
        np.testing.assert_allclose(rows.values[name], whole.values[name], 1e-6, 1e-6)


def test_a_window_ends_with_settings_that_hold_it_otherwise() -> None:
    """No update is made of some of its batches as if they were all."""
    trainer, other = (begun(gw.optim.SGD(0.1), **WINDOW) for _ in range(2))
    trainer.step({"ids": IDS[0]})
    trainer.optimizer.learning_rate = 0.2
    assert trainer.step({"ids": IDS[1]}) is not None
    other.optimizer.learning_rate = 0.2
    for ids in IDS[:2]:
        other.step({"ids": ids})
    np.testing.assert_array_equal(trainer.values["table"], other.values["table"])
    for momentum in (0.9, 0.0):
        trainer.optimizer.momentum = 0.9 - momentum
        trainer.step({"ids": IDS[0]})
        trainer.optimizer.momentum = other.optimizer.momentum = momentum
        for ids in IDS[2:4]:
            last = [t.step({"ids": ids}) for t in (trainer, other)]
        assert last[0].metrics["grad_norm"] == last[1].metrics["grad_norm"]
        np.testing.assert_array_equal(trainer.values["table"], other.values["table"])


def test_lazy_adam_moves_the_rows_of_a_window_as_torch_does() -> None:
    torch = pytest.importorskip("torch")
    trainer = trained(gw.optim.SparseAdam(0.1), **WINDOW)
    table = torch.from_numpy(TABLE.copy()).requires_grad_()
    w = torch.from_numpy(MATRIX.copy()).requires_grad_()
    moved = [torch.optim.SparseAdam([table], 0.1), torch.optim.Adam([w], 0.1)]
    for a, b in zip(IDS[::2], IDS[1::2], strict=True):
        for ids in (a, b):
            looked_up = torch.nn.functional.embedding(torch.from_numpy(ids), table, sparse=True)
            (((looked_up @ w - 1.0) ** 2.0).mean() / 2).backward()
        for optimizer in moved:
            optimizer.step()
            optimizer.zero_grad()
    np.testing.assert_allclose(trainer.values["table"], table.detach().numpy(), 1e-5, 1e-6)


@pytest.mark.parametrize(
    ("optimizer", "options", "loss", "why"),
    [
        (gw.optim.Adam(), {}, model, "Adam moves every row"),
        (gw.optim.SGD(0.1, momentum=0.9), {}, model, "momentum moves every row"),
        (gw.optim.AdaGrad(0.1, weight_decay=0.1), {}, model, "weight_decay moves every row"),
        (gw.optim.SGD(0.1), {"l2": 0.1}, model, "l2 moves every row"),
        (gw.optim.SGD(0.1), {"weight_decay": 0.1}, model, "weight_decay moves every row"),
        (gw.optim.SGD(0.1), {"constraints": {"table": gw.constraints.MaxNorm(1.0)}}, model,
         "a constraint is one of all rows"),
        (gw.optim.SparseAdam(0.1), {}, tied, "is a gradient of every row"),
    ],
)  # fmt: skip
def test_what_moves_every_row_is_told(optimizer: Any, options: Any, loss: Any, why: str) -> None:
    trainer = begun(optimizer, loss, **options)
    (name, said, reason), *_ = trainer.gradient_table.rows
    assert (name, said) == ("table", f"f32[{N}, {D}]") and why in reason
    trainer.step({"ids": IDS[0]})


def test_rows_that_are_not_named_keep_their_bits_and_state() -> None:
    trainer = trained(gw.optim.SparseAdam(0.1), steps=IDS[:1])
    held = {n: np.array(v) for n, v in trainer.state_dict().items() if n.endswith(("/m", "/v"))}
    moved = (trainer.values["table"] != TABLE).any(axis=1)
    assert sorted(np.flatnonzero(moved)) == sorted(set(IDS[0].ravel().tolist()))
    trainer.step({"ids": IDS[1]})
    kept = sorted(set(range(N)) - set(IDS[1].ravel().tolist()))
    for name in ("state/table/m", "state/table/v"):
        assert np.array_equal(trainer.state_dict()[name][kept], held[name][kept])


def test_freezing_decay_and_a_batch_that_is_not_finite() -> None:
    trainer = trained(gw.optim.SparseAdam(0.1), steps=IDS[:2])
    snapshot = trainer.values["table"]
    before = snapshot.copy()
    trainer.graph.values["w"] = np.full_like(MATRIX, np.inf)
    with pytest.raises(gw.errors.TrainingError, match="nothing was changed"):
        trainer.step({"ids": IDS[2]})
    assert np.array_equal(trainer.values["table"], before)
    trainer.graph.values["w"] = MATRIX
    trainer.graph.freeze("table")
    trainer.step({"ids": IDS[2]})
    assert np.array_equal(trainer.values["table"], before)
    trainer.graph.unfreeze("table")
    trainer.step({"ids": IDS[2]})
    assert not np.array_equal(trainer.values["table"], before)
    assert np.array_equal(snapshot, before)  # which somebody held, so that it was copied
    sgd = trained(gw.optim.SGD(0.1), steps=IDS[:1])
    sgd.optimizer.weight_decay = 0.1
    assert not in_rows(sgd)
    sgd.optimizer.weight_decay = 0.0
    assert in_rows(sgd)


@pytest.mark.parametrize("options", [{}, {"accumulation": gw.Accumulation(3)}, WINDOW])
def test_a_training_goes_on_to_the_bit(options: Any) -> None:
    whole = trained(gw.optim.SparseAdam(0.1), **options)
    first = trained(gw.optim.SparseAdam(0.1), steps=IDS[:3], **options)
    state = first.state_dict()
    second = begun(gw.optim.SparseAdam(0.1), **options)
    second.graph.values.restore({n: first.values[n] for n in ("table", "w")})
    second.load_state_dict(state)
    for ids in IDS[3:]:
        second.step({"ids": ids})
    for name in ("table", "w"):
        assert np.array_equal(second.values[name], whole.values[name])


@pytest.mark.parametrize("kernels", ["off", "wait"])
def test_numbers_of_no_row_are_errors_of_their_node(kernels: Any) -> None:
    g = gw.Graph()
    t, ones = g.constant(TABLE), g.constant(np.ones((4, D), np.float32))
    ids = g.placeholder("ids", (4,), "int64")
    found = gw.training.sum_rows(ids, ones, t, name="summed")
    taken = gw.training.take_rows(t, ids, name="taken")
    put = gw.training.put_rows(t, ids, ones, name="put")
    with gw.Session(g, kernels=kernels) as session:
        for fetched, wrong in (([*found], (N, -N - 1)), ([taken], (N,)), ([put], (2**40,))):
            want = session.run(fetched, {ids: np.arange(4)})
            for number in wrong:
                with pytest.raises(gw.errors.LoweringError, match=f"{number} is out of"):
                    session.run(fetched, {ids: np.array([1, 2, number, 3])})
            for a, b in zip(session.run(fetched, {ids: np.arange(4)}), want, strict=True):
                np.testing.assert_array_equal(a, b)


def test_rows_are_updated_by_a_gradient_that_lies_otherwise() -> None:
    rng = np.random.default_rng(0)
    shapes = {"table": (7, 2, 3), "grad": (3, 2, 4), "moment": (7, 2, 3)}
    feeds = {name: rng.standard_normal(shape).astype("f4") for name, shape in shapes.items()}
    g = gw.Graph()
    table, grad, moment = (g.placeholder(name, a.shape) for name, a in feeds.items())
    turned, rows = gw.transpose(grad, (2, 1, 0)), g.constant([5, 0, -1, 3])
    y = UpdateRows(op=find_op("momentum_update")())(table, rows, turned, moment, 0.1, 0.9, 0.0)
    want, found = (gw.Session(g, kernels=k).run([*y], feeds) for k in ("off", "wait"))
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a, b, 1e-6, 1e-6)


MEMORY = """
import numpy as np
import gradwright as gw
from tests.benchmarks.engine.costs import CLEAR, resident
g = gw.Graph()
table = g.variable("table", (1_000_000, 64), init=np.zeros((1_000_000, 64), np.float32))
ids = g.placeholder("ids", (256,), "int64")
loss = ((gw.nn.embedding(ids, table) - 1.0) ** 2.0).mean()
trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.1))
CLEAR.write_text("5")
before = resident("VmRSS")
for step in range(6):
    trainer.step({"ids": np.arange(256) * 999 + step})
print(resident("VmHWM") - before)
"""


def test_a_step_holds_no_second_table() -> None:
    """256 MB of table; six steps, their kernels and compiler included, stay below half of it."""
    found = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True
    )
    assert int(found.stdout) < 128 << 20

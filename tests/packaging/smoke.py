"""What an installed gradwright must do, run far from the checkout: ``python smoke.py``.

Each function is a part that has once depended on how new a library is. It prints a line for each
and exits with 1 if one failed; warnings are errors.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import traceback
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

import gradwright as gw


def train() -> None:
    """A training goes down, and goes on from a checkpoint's file."""
    g = gw.Graph("line")
    x, t = g.placeholder("x", ("B", 4)), g.placeholder("t", ("B", 1))
    y = gw.nn.relu(x @ g.variable("w", (4, 8), init=gw.init.he_normal(seed=0)))
    loss = gw.loss.mean_squared_error(
        t, y @ g.variable("v", (8, 1), init=gw.init.he_normal(seed=1))
    )
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=(64, 4)).astype("f"), "t": rng.normal(size=(64, 1)).astype("f")}
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.Adam(1e-2))
    history = trainer.fit(data, epochs=5, progress=False)
    losses = history.steps["loss"]
    assert losses[-1] < losses[0]
    path = Path(tempfile.mkdtemp(), "line.gw")
    gw.save(g, path, trainer=trainer)
    assert gw.load(path).trainer().steps_done == trainer.steps_done


def branches() -> None:
    """Branches and loops run, and their gradients do."""
    g = gw.Graph()
    x, p = g.placeholder("x", (3,)), g.placeholder("p", (), dtype="bool")
    y = gw.cond(p, lambda: x + 1, lambda: x * 2)
    feeds = {"x": np.ones(3, "f"), "p": False}
    (dx,) = gw.gradients(gw.sum(y), [x])
    assert gw.Session(g).run(y, feeds).tolist() == [2.0, 2.0, 2.0]
    assert gw.Session(g).run(dx, feeds).tolist() == [2.0, 2.0, 2.0]


def traced() -> None:
    """A numpy function becomes a graph."""

    @gw.compile
    def rows(x: np.ndarray) -> np.ndarray:
        return np.stack([np.sin(row) for row in x]).sum()

    x = np.ones((2, 3), "f")
    assert abs(rows(x) - np.sin(x).sum()) < 1e-5


def reference() -> None:
    """Every op's description is there, and its example runs in a widget."""
    from gradwright_widgets import OpReference

    assert len(gw.ops.descriptors()["ops"]) > 600
    assert OpReference()._repr_mimebundle_()


def panels() -> None:
    """A workbench is made, and kept as a page."""
    from gradwright_widgets import Workbench

    g = gw.Graph("double")
    x = g.placeholder("x", (3,))
    gw.nn.relu(x + x)
    bench = Workbench(g)
    path = Path(tempfile.mkdtemp(), "bench.html")
    bench.to_html(path)
    assert "<svg" in bench.to_svg() and path.stat().st_size > 50_000


def foreign() -> None:
    """A model is written as ONNX and read again."""
    g = gw.Graph()
    gw.nn.relu(g.placeholder("x", ("B", 2)) @ g.constant([[1.0], [2.0]]), name="y")
    path = Path(tempfile.mkdtemp(), "model.onnx")
    gw.onnx.save(g, path)
    assert gw.onnx.load(path)["y"] is not None


PARTS = (train, branches, traced, reference, panels, foreign)


def main() -> int:
    """Run all parts."""
    warnings.simplefilter("error")
    packages = ("numpy", "ml_dtypes", "ipywidgets", "anywidget", "plotly", "onnx", "llvmlite")
    print(sys.version.split()[0], *(f"{name} {version(name)}" for name in packages))
    failed = 0
    for part in PARTS:
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said):
                part()
        except Exception:
            failed += 1
            print(f"  {part.__name__}: failed\n{traceback.format_exc()}")
        else:
            print(f"  {part.__name__}: passed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())

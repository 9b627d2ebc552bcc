"""Files as users have them, kept in ``tests/house/kept``: how they came to be, how they are read.

    python -m tests.house.files

writes them anew, by the code of today: that is for kinds of files that are added. Those that are
there stand for what older versions have written, and stay as they are.
"""

from __future__ import annotations

import io
import json
import lzma
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gradwright as gw
from tests.house import models
from tests.house.graphs import CASES
from tests.house.models import Array, Arrays, classifier, cross_entropy, rows
from tests.house.views import HELD, scenes

DATA = Path(__file__).parent / "kept"
MODES = {"eval": False, "train": True}
RUN = "run"
PAGES = ("GraphView of loops", "TensorView", "Workbench")


# -- archives: a graph, its lines and its values -------------------------------------------------


_SET = r"data_format='NC[DHW]*'|weights_format='(OI|IO|CM)[DHW]*'|corner=False|changing=\(\)"
_SET += "|unseen='zeros'|offset=None|activations='float32'"
GAINED = rf"(, |(?<=\())({_SET})"
"""Attributes that ops have gained since files were kept, where nobody has set them."""


def lines(graph: gw.Graph) -> list[str]:
    """Return a line for each node and each update; numbers in new sizes' names are no matter."""
    found = []
    for node in graph.all_nodes:
        inputs = ["none" if t is None else t.name for t in node.inputs]
        trained = " trained" if node.kind == "variable" and node.trainable else ""
        specs = ", ".join(str(t.spec) for t in node.outputs)
        found.append(f"{node.name} = {node.op!r} of {', '.join(inputs)}: {specs}{trained}")
    found += [f"{variable.name} <- {value.name}" for variable, value in graph.updates.items()]
    return [re.sub(rf"(?<=__)\d+|{GAINED}", "", line) for line in found]


def values(graph: gw.Graph, feeds: Mapping[str, Any], fetches: Sequence[str]) -> Arrays:
    """Return what is fetched in both modes, and the gradients of a loss."""
    found: Arrays = {}
    tensors = [graph[name] for name in fetches]
    with gw.Session(graph, seed=5, deterministic=True) as session:
        for mode, training in MODES.items():
            got = session.run(tensors, feeds, training=training, step=3)
            found |= {f"{mode}/{k}": plain(v) for k, v in zip(fetches, got, strict=True)}
        if "loss" in fetches:
            wrt = [t for t in graph.trainable if t.dtype.kind == "f"]
            slopes = gw.gradients(graph["loss"], wrt, unreachable="zero") if wrt else []
            got = session.run(slopes, feeds, training=True, step=3) if wrt else []
            found |= {f"slope/{t.name}": plain(v) for t, v in zip(wrt, got, strict=True)}
    return found


def plain(value: Any) -> Array:
    """Return an array that ``.npz`` can hold: dtypes that numpy does not have are float32 there."""
    held = np.asarray(value)
    assert held.dtype != object
    if held.dtype.kind == "T":
        return np.array(held.tolist())
    return held.astype("float32") if held.dtype.isbuiltin == 2 else held


def pack(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write named arrays; many small ones take little space."""
    buffer = io.BytesIO()
    np.savez(buffer, **dict(arrays))
    path.write_bytes(lzma.compress(buffer.getvalue(), preset=9))


def unpack(path: Path) -> Arrays:
    """Return the arrays of a file that ``pack`` has written."""
    with np.load(io.BytesIO(lzma.decompress(path.read_bytes()))) as found:
        return dict(found)


def keep_archives() -> None:
    """Write each graph with its feeds, and its lines and values as they are after loading."""
    for name, make in CASES.items():
        graph, feeds, fetches = make()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"{name}.gw")
            gw.save(graph, path)
            loaded = gw.load(path)
            (DATA / f"{name}.gw.xz").write_bytes(lzma.compress(path.read_bytes(), preset=9))
        facts = {"lines": np.array(lines(loaded)), "fetches": np.array(fetches)}
        fed = {f"feed/{k}": v for k, v in feeds.items()}
        pack(DATA / f"{name}.npz.xz", facts | fed | values(loaded, feeds, fetches))


# -- checkpoints: a trainer, and what becomes of it ----------------------------------------------


class Training(NamedTuple):
    """How a trainer is made, on what it trains, and after how many batches it was saved."""

    trainer: Callable[..., gw.Trainer]
    data: Arrays
    saved_at: int
    tolerance: float
    """How far losses may lie from those that were noted, relative to their size."""


def gathered(*callbacks: gw.Callback) -> gw.Trainer:
    """Adam with a schedule; three batches make an update, an average follows."""
    loss, _ = models.averaging()
    rate = gw.schedules.Cosine(0.05, steps=12, warmup=2)
    return gw.Trainer(
        loss.graph,
        loss,
        gw.optim.Adam(rate),
        accumulation=gw.Accumulation(3),
        ema=gw.EMA(0.9, buffers=True),
        clip_norm=0.5,
        deterministic=True,
        seed=7,
        callbacks=callbacks,
    )


def halved(*callbacks: gw.Callback) -> gw.Trainer:
    """Float16 with a loss scale that has been lowered, statistics, and random masks."""
    loss, _ = models.cnn()
    return gw.Trainer(
        loss.graph,
        loss,
        gw.optim.SGD(0.05, momentum=0.9),
        precision="float16",
        loss_scale=gw.LossScale(initial=2.0**24, interval=3),
        nonfinite="skip",
        deterministic=True,
        seed=7,
        callbacks=callbacks,
    )


def grouped(*callbacks: gw.Callback) -> gw.Trainer:
    """Moments of 8 bits, a matrix and biases apart, an equal average."""
    g, t, logits = classifier(hidden=16)
    groups = [
        gw.Group("out/w", optimizer=gw.optim.Muon(0.02), weight_decay=0.1),
        gw.Group("*/b", lr_multiplier=0.5, l2=1e-3),
    ]
    return gw.Trainer(
        g,
        cross_entropy(t, logits),
        gw.optim.Adam8bit(0.01, block_size=32, min_size=64),
        metrics={"accuracy": gw.metrics.accuracy(t, logits)},
        groups=groups,
        swa=gw.SWA(start=3),
        deterministic=True,
        seed=7,
        callbacks=callbacks,
    )


TRAININGS = {
    "gathered": Training(gathered, rows(), 5, 1e-4),
    "halved": Training(halved, models.cnn()[1], 5, 2e-2),
    "grouped": Training(grouped, rows(), 8, 1e-2),
}
EPOCHS, BATCH = 4, 4


class StopAfter(gw.Listener):
    """Stops a training after some batches, in the midst of an epoch or of an update."""

    def __init__(self, trainer: gw.Trainer, batches: int) -> None:
        self.trainer, self.left = trainer, batches
        trainer.session.listeners.append(self)

    def run_started(self, event: Any) -> None:
        self.left -= event.training
        if self.left == 0:
            self.trainer.stop()


def fit(trainer: gw.Trainer, data: Arrays) -> None:
    """Train up to the last epoch."""
    left = EPOCHS - trainer.epochs_done
    trainer.fit(data, epochs=left, batch_size=BATCH, progress=False)


def ending(trainer: gw.Trainer, since: int) -> Arrays:
    """Return the losses of the steps after one, and all final values."""
    steps = trainer.history.steps
    after = np.asarray(steps["step"]) > since
    found = {f"values/{t.name}": plain(trainer.values[t.name]) for t in trainer.graph.variables}
    return found | {f"steps/{k}": np.asarray(steps[k])[after] for k in steps if k != "seconds"}


def keep_checkpoints() -> None:
    """Write a checkpoint of each training, and how it went on."""
    for name, (make, data, saved_at, _) in TRAININGS.items():
        folder = DATA / name
        shutil.rmtree(folder, ignore_errors=True)
        kept = gw.Checkpoints(folder, every_epochs=None, asynchronous=False)
        trainer = make()
        StopAfter(trainer, saved_at)
        fit(trainer, data)
        step = kept.save(trainer).step
        (folder / ".lock").unlink(missing_ok=True)
        fit(trainer, data)
        pack(DATA / f"{name}.npz.xz", ending(trainer, step))


# -- a run ---------------------------------------------------------------------------------------


def keep_run() -> None:
    """Write the folder of a run, with nothing in it that tells of a machine or a checkout."""
    folder = DATA / RUN
    shutil.rmtree(folder, ignore_errors=True)
    run = gw.Run(folder, name="kept", tags=["small", "kept"], notes="Four epochs.", store=None)
    fit(grouped(run), rows())
    (folder / ".lock").unlink(missing_ok=True)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    host, config["machine"]["host"] = config["machine"]["host"], "somewhere"
    config["machine"]["system"] = "Linux"
    config.pop("git", None)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", "utf-8")
    events = (folder / "events.jsonl").read_text("utf-8")
    there = re.sub(r'"pid":\d+', '"pid":1', events.replace(f'"{host}"', '"somewhere"'))
    (folder / "events.jsonl").write_text(there, "utf-8")


# -- pages ---------------------------------------------------------------------------------------


def keep_pages() -> None:
    """Write what pages of some widgets hold, but for the module that draws them."""
    held = {n: HELD.search(w.to_html())[1] for n, w in scenes() if n in PAGES}
    (DATA / "pages.json.xz").write_bytes(lzma.compress(json.dumps(held).encode(), preset=9))


def keep_saved() -> None:
    """Write whole pages, with the module that draws them: once, by the version that saves them."""
    whole = {n: w.to_html() for n, w in scenes() if n in PAGES}
    (DATA / "saved.json.xz").write_bytes(lzma.compress(json.dumps(whole).encode(), preset=9))


def saved_pages() -> dict[str, str]:
    """Return pages as the version before the house was rebuilt has saved them."""
    found: dict[str, str] = json.loads(lzma.decompress((DATA / "saved.json.xz").read_bytes()))
    return found


def pages() -> dict[str, str]:
    """Return the held part of each page, as it stands in its text."""
    found: dict[str, str] = json.loads(lzma.decompress((DATA / "pages.json.xz").read_bytes()))
    return found


def main() -> int:
    """Write all files."""
    DATA.mkdir(parents=True, exist_ok=True)
    keep_archives()
    keep_checkpoints()
    keep_run()
    keep_pages()
    files = [p for p in sorted(DATA.rglob("*")) if p.is_file()]
    for path in files:
        print(f"{path.stat().st_size:8,} {path.relative_to(DATA)}")
    print(f"{sum(p.stat().st_size for p in files):8,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Forged files: every field of every JSON file wrong in type, range and depth, with valid sums.

    python -m tests.forgeries [--every N] [--only KIND]    every N-th forgery of each kind (1: all)

A forgery is a good file in which one field is another value, or gone, or has company; checksums
and sizes are right, as an attacker would write them. Whoever reads it must take it, say with an
error of ours what is wrong, or fall back to an earlier file; a trainer that is not resumed must be
what it was, to the bit, and what is taken must be able to go on.
"""

from __future__ import annotations

import argparse
import copy
import json
import shutil
import sqlite3
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.errors import GradwrightError
from gradwright.formats.archive.container import Writer
from gradwright.formats.source import Folder
from gradwright.recording import format as run_format
from tests.formats.archives import forge, members, safetensors

DEEP: Any = 0
for _ in range(150):
    DEEP = [{"deep": DEEP}]
WRONG: list[Any] = [
    *(None, True, 0, -1, 3, 2**31, 2**70, -(2**70), 0.5, 1e308, -1e-320),
    *("", "x", "é\n\u2028", "9" * 5000, "<b>", "../..", "nan"),
    *([], [None], {}, {"$class": "Adam"}, {"$number": "inf"}, {"$class": []}, {"": {}}, DEEP),
]
"""What stands in a field's place."""
GONE = object()
"""The field is not there."""
MORE = object()
"""There is another field beside it."""


# -- fields ----------------------------------------------------------------------------------------


def fields(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of everything in a JSON value, the value itself first."""
    yield at
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from fields(inner, (*at, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from fields(inner, (*at, i))


def changed(value: Any, at: tuple[Any, ...], wrong: Any) -> Any:
    """Return a JSON value with another one at a path, or without it, or with one more."""
    if not at:
        return {} if wrong is GONE else {"more": 1} if wrong is MORE else wrong
    found = copy.deepcopy(value)
    holder = found
    for step in at[:-1]:
        holder = holder[step]
    if wrong is GONE:
        del holder[at[-1]]
    elif wrong is not MORE:
        holder[at[-1]] = wrong
    elif isinstance(holder, dict):
        holder["more"] = 1
    else:
        holder.append(holder[at[-1]])
    return found


Case = tuple[str, Callable[[], Any]]
"""A name, and what makes the forgery: most are not asked for."""


def forgeries(value: Any, made: Callable[[Any], Any] = lambda wrong: wrong) -> Iterator[Case]:
    """Yield a name, and what makes the forgery, for all that can be wrong with a JSON value."""
    for at in fields(value):
        for wrong in (*WRONG, GONE, MORE):
            if not at and wrong in (GONE, MORE):
                continue
            what = {GONE: "gone", MORE: "more"}.get(wrong) if _is_mark(wrong) else repr(wrong)[:40]
            name = f"{'.'.join(map(str, at)) or '(all)'} = {what}"
            yield name, lambda at=at, wrong=wrong: made(changed(value, at, wrong))  # type: ignore[misc]


def _is_mark(wrong: Any) -> bool:
    return wrong is GONE or wrong is MORE


def written(value: Any) -> bytes:
    """Return JSON as it is stored."""
    return json.dumps(value).encode()


def put(path: Path, member: str, data: bytes) -> None:
    """Write another member into an archive, with right sums."""
    forge(path, lambda held: held.update({member: data}))


# -- what is forged --------------------------------------------------------------------------------


def training(*callbacks: gw.Callback) -> gw.Trainer:
    """Return a trainer with all kinds of state, small enough to be resumed a thousand times."""
    g = gw.Graph("forged")
    x, t = g.placeholder("x", (None, 2)), g.placeholder("t", (None,))
    h = gw.nn.dropout(gw.tanh(x @ g.variable("w", (2, 3), init=gw.init.normal(seed=1))), 0.2)
    mean = g.variable("mean", (3,), trainable=False)
    g.update(mean, mean * 0.9 + gw.mean(h, axis=0) * 0.1)
    y = (h - mean) @ g.variable("v", (3,), init=gw.init.normal(seed=2))
    return gw.Trainer(
        g,
        gw.mean((y - t) ** 2.0, name="loss"),
        optimizer=gw.optim.Adam(gw.schedules.Cosine(0.01, 40)),
        metrics={"error": gw.mean(gw.abs(y - t))},
        clip_norm=1.0,
        accumulation=2,
        ema=gw.EMA(0.9),
        loss_scale=gw.LossScale("dynamic", 2.0**10),
        seed=3,
        session=gw.Session(g, deterministic=True, kernels="off", seed=3),
        callbacks=[gw.EarlyStopping("loss", patience=50), gw.train.UpdateRatio(), *callbacks],
    )


RNG = np.random.default_rng(0)
X = RNG.standard_normal((9, 2)).astype("float32")
DATA = {"x": X, "t": np.sin(X.sum(1)).astype("float32")}


def fit(trainer: gw.Trainer, epochs: int = 1, steps: int | None = None) -> None:
    """Train on five batches an epoch: two updates of two, and one of the rest."""
    trainer.fit(DATA, epochs=epochs, steps=steps, batch_size=2, progress=False)


def everything(trainer: gw.Trainer) -> dict[str, Any]:
    """Return all that a resume may change, as values to be compared."""
    state = {k: np.asarray(v) for k, v in trainer.state_dict().items() if "seconds" not in k}
    values = {t.name: trainer.values[t.name] for t in trainer.graph.variables}
    bits = {k: (str(v.dtype), v.shape, v.tobytes()) for k, v in {**state, **values}.items()}
    session = trainer.session
    return bits | {
        "config": trainer.config,
        "frozen": [t.name for t in trainer.graph.variables if not t.trainable],
        "seed": session.seed,
        "tuning": session.tuning,
        "history": id(trainer.history),
        "outcome": trainer.progress and trainer.progress.outcome,
        "is_bound": trainer.parts.position.is_bound,
    }


class Forger:
    """Makes forgeries of one kind, and has them read; ``check`` raises for what must not be."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def cases(self) -> Iterator[Case]:
        """Yield what is forged, by name."""
        raise NotImplementedError

    def check(self, forged: Any) -> str:
        """Have a forgery read and return what became of it."""
        raise NotImplementedError


class Resumed(Forger):
    """A folder of two checkpoints, of which the newer one is forged."""

    member = "checkpoint.json"

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.folder = place / "checkpoints"
        checkpoints = gw.Checkpoints(self.folder, every_epochs=None, keep_last=2)
        first = training(checkpoints)
        fit(first, 2, steps=4)
        first.optimizer = gw.optim.Adam(gw.schedules.Cosine(0.02, 40))
        fit(first, 1, steps=1)
        self.good, self.newest = (c.path for c in checkpoints.list())
        self.data = self.newest.read_bytes()
        self.trainer = self.begun()
        self.before = everything(self.trainer)
        self.known = self.went_on(self.begun())

    def begun(self) -> gw.Trainer:
        """Return a trainer that stands in the midst of a window of an epoch."""
        trainer = training()
        fit(trainer, 1)
        trainer.step({"x": X[:2], "t": DATA["t"][:2]})
        return trainer

    @staticmethod
    def went_on(trainer: gw.Trainer) -> dict[str, Any]:
        """Return what a trainer comes to by the next steps."""
        fit(trainer, 1)
        return everything(trainer) | {"history": None}

    def cases(self) -> Iterator[Case]:
        """Yield the wrong records."""
        yield from forgeries(json.loads(members(self.newest)[self.member]), written)

    def forge(self, forged: Any) -> None:
        """Put a forgery into the newer checkpoint."""
        put(self.newest, self.member, forged)

    def check(self, forged: Any) -> str:
        """Resume from the folder."""
        self.newest.write_bytes(self.data)
        self.forge(forged)
        try:
            one = gw.resume(self.trainer, self.folder)
        except GradwrightError as error:
            assert str(error)
            self._is_as_it_was()
            return "refused"
        finally:
            gw.Checkpoints(self.folder).list()
        trainer, self.trainer = self.trainer, self.begun()
        self.before = everything(self.trainer)
        if one.path == self.good:
            return "fell back"
        try:
            fit(trainer, 1, steps=1)
        except GradwrightError:
            return "taken, and refused by fit"
        return "taken"

    def _is_as_it_was(self) -> None:
        now = everything(self.trainer)
        other = [k for k in {**now, **self.before} if now.get(k) != self.before.get(k)]
        assert not other, f"the trainer has changed: {other}"

    def end(self) -> None:
        """Check that the trainer goes on after all that it refused."""
        assert self.went_on(self.trainer) == self.known, "the trainer goes on to other numbers"


class Headers(Resumed):
    """The headers of the arrays of a checkpoint."""

    member = "state/trainer/00001-of-00001.safetensors"

    def cases(self) -> Iterator[Case]:
        """Yield members with wrong headers over the same bytes."""
        data = members(self.newest)[self.member]
        size = 8 + int.from_bytes(data[:8], "little")
        yield from forgeries(
            json.loads(data[8:size]), lambda wrong: safetensors(written(wrong), data[size:])
        )


class States(Resumed):
    """The arrays of a checkpoint: right as arrays, wrong as the state of a trainer."""

    def cases(self) -> Iterator[Case]:
        """Yield arrays by name, one of them wrong."""
        held = gw.load_state(self.newest, "trainer")
        wrong: list[Any] = [
            *(np.zeros(()), np.zeros(0), np.zeros((2, 2)), np.full(6, -1), np.full(2, 2**62)),
            *(np.array(np.nan), np.full(6, np.inf), np.array(["a", "b"], "T"), np.array(True)),
            *(np.frombuffer(b"Adam", np.uint8), np.zeros(3, np.complex64), np.uint64(2**64 - 1)),
        ]
        for name, array in held.items():
            without = {k: v for k, v in held.items() if k != name}
            yield f"{name} gone", lambda without=without: without  # type: ignore[misc]
            more = held | {f"{name}/more": array, f"more/{name}": array}
            yield f"{name} twice", lambda more=more: more  # type: ignore[misc]
            like = [] if array.dtype.kind == "T" else [array - array.dtype.type(1), array * 0]
            for other in (*wrong, *like, array[..., None], array.reshape(-1)[:1]):
                one = held | {name: other}
                yield f"{name} = {other!r}"[:80], lambda one=one: one  # type: ignore[misc]

    def forge(self, forged: Any) -> None:
        """Write the archive anew."""
        held = members(self.newest)
        graph = gw.load(self.good)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gw.save(graph, self.newest, state={"trainer": forged})
        put(self.newest, "checkpoint.json", held["checkpoint.json"])


class Manifests(Resumed):
    """The manifest of a checkpoint."""

    def cases(self) -> Iterator[Case]:
        """Yield the wrong manifests."""
        import zipfile

        with zipfile.ZipFile(self.newest) as archive:
            held = archive.read("manifest.json")
        yield from forgeries(json.loads(held), written)

    def forge(self, forged: Any) -> None:
        """Write the same members and another manifest."""
        held = members(self.newest)

        class Forging(Writer):
            def _write_manifest(self) -> None:
                self.add("manifest.json", len(forged), [forged])

        with self.newest.open("wb") as file, Forging(file) as writer:
            for name, data in held.items():
                writer.add(name, len(data), [data])


class Documents(Forger):
    """The graph of an archive."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.path = place / "graph.gw"
        trainer = training()
        gw.save(trainer.graph, self.path)
        self.data = self.path.read_bytes()

    def cases(self) -> Iterator[Case]:
        """Yield the wrong documents."""
        yield from forgeries(json.loads(members(self.path)["graph.json"]), written)

    def check(self, forged: Any) -> str:
        """Load and inspect it."""
        self.path.write_bytes(self.data)
        put(self.path, "graph.json", forged)
        try:
            gw.inspect(self.path)
            gw.load(self.path)
        except GradwrightError as error:
            assert str(error)
            return "refused"
        return "taken"


class Configs(Forger):
    """The settings of a training."""

    def cases(self) -> Iterator[Case]:
        """Yield wrong settings."""
        yield from forgeries(json.loads(json.dumps(training().config.to_json())))

    def check(self, forged: Any) -> str:
        """Read them."""
        try:
            gw.TrainingConfig.from_json(forged)
        except GradwrightError:
            return "refused"
        return "taken"


class RunFolders(Forger):
    """Two run folders, one of which has a forged file."""

    file = "config.json"

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.store = gw.train.Store(place / "runs")
        for name in ("good", "forged"):
            run = gw.Run(place / "runs" / name, name, store=self.store, tags=["a"])
            fit(training(run), 2)
        self.folder = place / "runs" / "forged"
        self.path = self.folder / self.file
        self.data = self.path.read_bytes()

    def cases(self) -> Iterator[Case]:
        """Yield the wrong configurations."""
        yield from forgeries(json.loads(self.data), written)

    def check(self, forged: Any) -> str:
        """List, show, compare and open the runs, from the index and without it."""
        self.path.write_bytes(forged)
        outcome = "taken"
        for indexed in (True, False):
            if not indexed:
                self.store.path.unlink()
            runs = gw.runs(self.store)
            assert "good" in {r.name for r in runs}, "a bad one hides the other"
            str(runs), runs._repr_html_(), str(runs.sort("created"))
            outcome = "taken" if len(runs) == 2 else "left out"
        for read in (
            lambda: gw.train.RunFolder(self.folder),
            lambda: gw.train.RunFolder(self.folder).config,
            lambda: repr(gw.train.RunFolder(self.folder)),
            lambda: gw.train.RunFolder(self.folder).history,
            lambda: gw.train.RunFolder(self.folder).gradient_watch,
            lambda: gw.runs(self.store).compare(0, 1),
            lambda: run_format.inspect(Folder(self.folder)),
        ):
            try:
                read()
            except (GradwrightError, IndexError):
                outcome = "left out" if outcome == "left out" else "refused"
        return outcome


class Events(RunFolders):
    """What happened in a run."""

    file = "events.jsonl"

    def cases(self) -> Iterator[Case]:
        """Yield files with one wrong line."""
        lines = self.data.split(b"\n")[:-1]
        for n in (0, 1, 2, len(lines) - 1):
            around = lines[:n], [*lines[n + 1 :], b""]

            def made(wrong: Any, around: Any = around) -> bytes:
                return b"\n".join([*around[0], written(wrong), *around[1]])

            for name, make in forgeries(json.loads(lines[n]), made):
                yield f"line {n + 1}: {name}", make


class Rows(RunFolders):
    """The index of runs: a cache, whose rows are made anew where they are wrong."""

    def cases(self) -> Iterator[Case]:
        """Yield columns with wrong values, as SQLite and JSON may hold them."""
        from gradwright.recording.store import COLUMNS

        values: list[Any] = [None, 0, -1, 2**62, 0.5, 1e308, "", "x", b"\xff\0", "[" * 2000, "{}"]
        values += ['{"loss": []}', '{"loss": 1e999}', "[1, null]", '{"loss": "low"}', "9" * 5000]
        for column in COLUMNS:
            for value in values:
                row = column, value
                yield f"{column} = {value!r}"[:80], lambda row=row: row  # type: ignore[misc]

    def check(self, forged: Any) -> str:
        """List the runs."""
        column, value = forged
        gw.runs(self.store)
        with sqlite3.connect(self.store.path) as db:
            db.execute(f"UPDATE runs SET {column} = ? WHERE name = 'forged'", (value,))
        db.close()
        runs = gw.runs(self.store)
        assert {r.folder for r in runs} == {
            str(self.place / "runs" / n) for n in ("good", "forged")
        }
        str(runs), runs._repr_html_(), str(runs.sort("created"))
        self.store.path.unlink()
        return "made anew"


KINDS: dict[str, Callable[[Path], Forger]] = {
    "record": Resumed,
    "header": Headers,
    "state": States,
    "manifest": Manifests,
    "document": Documents,
    "settings": Configs,
    "run": RunFolders,
    "events": Events,
    "index": Rows,
}


def forged(kind: str, every: int = 1, first: int = 0) -> tuple[Counter[str], list[str]]:
    """Try each ``every``-th forgery of a kind; return what became of them, and what must not be."""
    place = Path(tempfile.mkdtemp(prefix="gradwright-forged-"))
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            forger = KINDS[kind](place)
            for i, (name, make) in enumerate(forger.cases()):
                if i % every != first % every:
                    continue
                try:
                    outcomes[forger.check(make())] += 1
                except Exception as error:  # what must not be: it is told, and the next one tried
                    wrong.append(f"{kind}, {name}: {type(error).__name__}: {str(error)[:200]}")
                    if isinstance(forger, Resumed):
                        forger.trainer = forger.begun()
                        forger.before = everything(forger.trainer)
            if isinstance(forger, Resumed) and not wrong:
                forger.end()
    finally:
        shutil.rmtree(place)
    return outcomes, wrong


def main() -> None:
    """Try all, and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only", choices=KINDS, action="append")
    asked = parser.parse_args()
    failed = 0
    for kind in asked.only or KINDS:
        outcomes, wrong = forged(kind, asked.every)
        told = ", ".join(f"{n} {what}" for what, n in sorted(outcomes.items()))
        print(f"{kind}: {sum(outcomes.values()) + len(wrong)} forgeries: {told}", flush=True)
        for line in wrong:
            print("  " + line)
        failed += len(wrong)
    sys.exit(f"{failed} that must not be" if failed else 0)


if __name__ == "__main__":
    main()

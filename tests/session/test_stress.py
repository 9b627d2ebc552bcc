"""Races and forks: what threads share stays whole; ``tests.stress`` is the search for others."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import gradwright as gw
from gradwright.cpu import Cpu
from gradwright.cpu.threads.background import Background
from gradwright.program.lowering import _table, replaced_ops
from gradwright.rewrite import table
from gradwright.shared import Bounded

ROOT = Path(__file__).parents[2]


def run(*arguments: str, cache: Path) -> str:
    """Run Python with an empty cache for kernels, and return what it printed."""
    env = {**os.environ, "GRADWRIGHT_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments],
        cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def at_once(*work):
    """Do something in a thread each, all from one moment on; return results, raise what failed."""
    barrier, results, errors = threading.Barrier(len(work)), [None] * len(work), []

    def serve(n):
        barrier.wait()
        try:
            results[n] = work[n]()
        except BaseException as error:
            errors.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=serve, args=(n,)) for n in range(len(work))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not errors, errors
    return results


def test_everything_at_once_for_a_few_seconds(tmp_path):
    assert ", 0 wrong" in run("-m", "tests.stress", "4", cache=tmp_path)


FIRST_USE = """
import sys
sys.path.insert(0, ".")
import gradwright as gw
import numpy as np
from tests.session.test_stress import at_once

def value(name):
    g = gw.Graph()
    return lambda: g.output({}, getattr(gw.nn, name)(g.constant([1.0])))

names = ["Trainer", "Checkpoints", "resume", "Run", "runs", "evaluate", "predict", "compile"]
at_once(
    *(lambda name=name: getattr(gw, name) for name in names),
    *(lambda space=space: gw.ops.table(space) for space in ("rnn", "loss", "signal", "training")),
    *(lambda: gw.ops.find("gelu").function for _ in range(2)),
    *(value("gelu") for _ in range(3)),
)
"""


def test_names_are_asked_for_first_by_several_threads(tmp_path):
    run("-c", FIRST_USE, cache=tmp_path)


def test_no_module_asks_for_names_of_others_while_it_is_imported(tmp_path):
    """It would wait for who imports it at the name's first use, who waits for it."""
    run(
        "-c",
        "import importlib, pkgutil, threading, gradwright as gw\n"
        "from gradwright.shared import first_use\n"
        "first_use.acquire()\n"  # whoever asks in the other thread waits for ever
        "def load():\n"
        "    for module in pkgutil.walk_packages(gw.__path__, 'gradwright.'):\n"
        "        importlib.import_module(module.name)\n"
        "thread = threading.Thread(target=load, daemon=True)\n"
        "thread.start()\n"
        "thread.join(60)\n"
        "assert not thread.is_alive(), 'a module waits for a name of another'\n",
        cache=tmp_path,
    )


@pytest.mark.parametrize("turn", [1, 2])
def test_a_plan_knows_all_rewrites_while_another_thread_looks_through_them(monkeypatch, turn):
    def fired():
        g = gw.Graph()
        x = g.placeholder("x", (3,))
        with gw.Session(g, kernels="off") as session:
            plan = session.plan(gw.log(gw.exp(x * 1.0)) + gw.log(gw.nn.softmax(x)), {"x": (3,)})
            return {entry.rule for entry in plan.rewrites.entries}

    class Rules(dict):
        times, found = 0, []

        def values(self):
            self.times += 1
            mine = self.times == turn
            for rule in super().values():
                if mine and rule.name == "mul_one":  # as if another thread had its turn here
                    self.found.append(fired())
                yield rule

    expected = fired()
    assert "mul_one" in expected
    monkeypatch.setattr(table, "RULES", Rules(table.RULES))
    table.refresh()
    assert fired() == expected
    assert all(rules == expected for rules in Rules.found)


class Inner(gw.Op):
    """An op within another, which is hashed meanwhile, as if another thread had its turn."""

    outer = None

    def for_mode(self, training):
        hash(Inner.outer)
        return self


class Outer(gw.Op):
    """An op with an op among its attributes."""

    inner: gw.Op = gw.attr(None, doc="The op within.")


def test_an_op_is_hashed_while_its_mode_is_settled():
    Inner.outer = outer = Outer(inner=Inner())
    assert outer.for_mode(True) == outer


def test_lowerings_may_be_registered_while_others_are_listed():
    """The compiler's thread asks which ops are replaced; an import registers lowerings."""

    class Make:
        @property
        def __module__(self):  # as if another thread had its turn here
            _table["stress/while_listed", "cpu"] = self
            return "mine"

    _table["stress/listed", "cpu"] = Make()
    try:
        assert "stress/listed" in replaced_ops("cpu")
    finally:
        for name in ("listed", "while_listed"):
            _table.pop((f"stress/{name}", "cpu"), None)


def test_an_arena_is_whole_though_a_run_lets_go_of_it():
    device = Cpu()
    device.arena(1000)

    class Size(int):
        def __gt__(self, other):  # as if another thread had its turn here
            device.release()
            return int.__gt__(self, other)

    assert device.arena(Size(500)).nbytes == 500


def test_work_added_while_others_wait_is_not_waited_for():
    background = Background("test")
    waits, over = threading.Event(), threading.Event()
    wait_for = background._lock.wait_for

    def first():
        assert waits.wait(60)
        background.add(lambda: over.wait(60))

    def waited_for(*arguments):
        waits.set()  # the lock is let go next
        return wait_for(*arguments)

    background._lock.wait_for = waited_for
    background.add(first)
    assert background.wait(60) and background.is_busy
    over.set()
    assert background.wait(60) and not background.is_busy


def test_a_cache_may_be_looked_at_while_it_changes():
    cache = Bounded[int](4)

    def change():
        for n in range(3000):
            cache.keep(n % 7, n)
            cache.find(n % 5)

    def look():
        for _ in range(1500):
            assert len(cache.values()) <= 4 and len(list(cache)) <= 4
            assert cache.latest is None or cache.latest >= 0

    at_once(change, change, look, look)
    assert len(cache) == 4


def test_the_index_of_runs_is_made_again_under_who_has_it_open(tmp_path):
    store = gw.train.Store(tmp_path)
    g = gw.Graph("parabola")
    w = g.variable("w", (), init=2.0)
    gw.Trainer(g, w * w, callbacks=[gw.Run(store=store)]).fit([{}], progress=False)
    held = store.path.stat().st_ino
    store.rebuild()
    assert store.path.stat().st_ino == held
    assert [row.name for row in store.rows()] == ["parabola"]


FORKED = """
import gc, os, threading
import gradwright as gw
from gradwright import shared
from gradwright.graph.collecting import without_collecting

held, over = threading.Event(), threading.Event()

def hold():
    with shared._lock, without_collecting():
        held.set()
        over.wait()

threading.Thread(target=hold).start()
held.wait()
assert not gc.isenabled()
pid = os.fork()
if not pid:
    g = gw.Graph()
    found = g.output({}, gw.nn.softmax(g.constant([1.0, 1.0])))["softmax"].tolist()
    os._exit(0 if found == [0.5, 0.5] and gc.isenabled() else 1)
over.set()
assert os.waitpid(pid, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_waits_for_no_thread_of_its_parent(tmp_path):
    run("-c", FORKED, cache=tmp_path)

"""``python -m tests.watching [named|healthy|cost] ...``: a gradient watch, held to what it says.

- named: in five trainings with steps of some milliseconds an op gets a wrong vjp at step 500, by
  being defined anew; how many steps later is it named? And where its rule is wrong for some values
  only, which come at step 500, so that nothing tells the watch: how many turns later?
- healthy: twenty trainings of many kinds, none of which may give alarm.
- cost: the same steps with and without, in turn, by the clock and by the processor's time.

Prints a table for each, and fails where an op is not named within 50 steps, for an alarm without a
cause, and where more than the budget was spent.
"""

from __future__ import annotations

import os
import sys
import time
import warnings

for _pool in ("OPENBLAS", "MKL", "OMP"):  # before numpy is imported
    os.environ.setdefault(f"{_pool}_NUM_THREADS", "1")

import numpy as np  # noqa: E402

import gradwright as gw  # noqa: E402
from tests.support.watched import HEALTHY, LARGE, bend  # noqa: E402

SWITCH, WITHIN, LONGEST = 500, 50, 1500
BUDGET = 0.02


class Switch(gw.Callback):
    """Makes a rule wrong after a step, and counts the steps until it is named."""

    def __init__(self, watch: gw.GradientWatch, by_value: bool) -> None:
        self.watch, self.by_value = watch, by_value
        self.late = np.zeros((), "f4")

    def on_step_end(self, trainer: gw.Trainer, record: gw.train.Record) -> None:
        if record.step == SWITCH:
            if self.by_value:
                self.late[...] = 0.5
            else:
                bend(factor=0.5)
        elif self.watch.alarm is not None or record.step >= SWITCH + LONGEST:
            trainer.stop()


def named() -> list[str]:
    """Return what was not named in time."""
    wrong = []
    print(f"\n{'named':14}{'ms a step':>10}{'defined anew':>26}{'wrong by value':>26}")
    for name, make in LARGE.items():
        cells = []
        for by_value in (False, True):
            op = bend()
            model = make(lambda h, op=op: op(h, h.graph.placeholder("late", ())))
            watch = gw.GradientWatch(BUDGET, on_alarm=lambda alarm: None)
            switch = Switch(watch, by_value)
            late = next(t.name for t in model.loss.graph.placeholders if t.name.endswith("late"))
            batches = [{**b, late: switch.late} for b in model.batches()]
            trainer = model.trainer(watch, switch)
            began = time.perf_counter()
            trainer.fit(batches, epochs=10**6, progress=False)
            each = 1e3 * (time.perf_counter() - began) / trainer.steps_done
            alarm = watch.alarm
            took = trainer.steps_done - SWITCH
            right = alarm is not None and alarm.op == "watching/bend" and took > 0
            cells.append(f"{took} steps" if right else f"{(alarm and alarm.text) or 'not named'}")
            if not (right and (by_value or took <= WITHIN)):
                wrong.append(f"{name}: {cells[-1]}")
        print(f"{name:14}{each:10.2f}{cells[0]:>26}{cells[1]:>26}", flush=True)
    return wrong


def healthy(steps: int = 1500) -> list[str]:
    """Return the alarms of trainings in which nothing is wrong."""
    wrong = []
    print(f"\n{'healthy':34}{'nodes':>8}{'elements':>10}{'turns':>7}{'unclear':>9}{'largest':>10}")
    for name, make in HEALTHY.items():
        model = make()
        watch = gw.GradientWatch(BUDGET, every=1)
        trainer = model.trainer(watch)
        trainer.fit(model.batches(), epochs=10**6, steps=steps, progress=False)
        cost = watch.cost
        unclear = sum(p.verdict == "unclear" for p in watch.points)
        print(
            f"{name:34}{cost.nodes:8}{cost.elements:10}{cost.rounds:7}{unclear:9}"
            f"{1e3 * cost.largest:8.1f}ms",
            flush=True,
        )
        wrong += [f"{name}: {alarm.text}" for alarm in watch.alarms]
    return wrong


def cost(blocks: int = 16, seconds: float = 0.5) -> list[str]:
    """Return where more was spent than the budget, measured in blocks of steps with and without.

    Both are those of one trainer: two have plans that differ by some per cent, by where arrays lie.
    """
    wrong = []
    head = f"{'ms a step':>10}{'by itself':>11}{'clock':>8}{'processor':>11}{'largest':>10}"
    print(f"\n{'cost':14}{head}{'turns':>7}")
    for name, make in {**LARGE, "mlp, small": lambda act: HEALTHY["mlp"]()}.items():
        watch, model = gw.GradientWatch(BUDGET), make(gw.nn.relu)
        trainer, batches = model.trainer(), model.batches()
        trainer.fit(batches, epochs=4, progress=False)
        trainer.session.wait_for_kernels()
        began = time.perf_counter()
        trainer.fit(batches, epochs=4, progress=False)
        each = (time.perf_counter() - began) / (4 * len(batches))
        epochs = max(1, round(seconds / each / len(batches)))
        times = np.zeros((blocks, 2, 2))
        for block in range(blocks):
            for k in (0, 1) if block % 2 else (1, 0):
                if k:
                    trainer.add_callback(watch)
                began = time.perf_counter(), time.process_time()
                trainer.fit(batches, epochs=epochs, progress=False)
                ended = time.perf_counter(), time.process_time()
                times[block, k] = np.subtract(ended, began)
                if k:
                    trainer.remove_callback(watch)
        ratio = np.median(times[:, 1] / times[:, 0], axis=0) - 1
        own = watch.cost
        print(
            f"{name:14}{1e3 * each:10.3f}{100 * own.share:10.2f}%{100 * ratio[0]:7.1f}%"
            f"{100 * ratio[1]:10.1f}%{1e3 * own.largest:8.1f}ms{own.rounds:7}",
            flush=True,
        )
        if own.share > BUDGET * 1.01 + own.largest / (blocks * seconds):
            wrong.append(f"{name}: {100 * own.share:.2f} % of the time")
    return wrong


PARTS = {"named": named, "healthy": healthy, "cost": cost}

if __name__ == "__main__":
    warnings.simplefilter("error")
    failed = [text for part in sys.argv[1:] or PARTS for text in PARTS[part]()]
    print("\n".join(["", *failed]) if failed else "\nall as said")
    sys.exit(bool(failed))

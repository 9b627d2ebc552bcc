"""``python -m tests.learning.adapters [method ...]``: what each method learns of another domain.

The base (``base.py``) knows the reference of Python, and is frozen; a hundred steps of 16 rows of
96 characters show it Python's source, ten of them warm-up, then a straight line to nothing; other
modules judge. With ``--domain licences`` it is licences. Each method begins with its own learning
rate, three times, with other rows and first values.

The table ends with what must be so: each seed within 0.03 nats of the reference's loss, the big
gaps in their order, and no gain where the adapter's second factor is frozen at zero. What has been
trained is kept in ``build/learning`` and read again; ``--again`` trains anew.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradwright as gw
from gradwright import adapters
from gradwright.models import Decoder
from tests.learning import texts
from tests.learning.base import FOLDER, LARGE, Base
from tests.learning.base import trained as trained_base

STEPS, ROWS, WARMUP = 100, 16, 10
SEEDS = 0, 1, 2
SLACK = 0.03
"""Nats a character by which a loss may miss the reference's: rates there were not swept."""
DOMAINS = {"source": texts.source, "licences": texts.licences}


@dataclass(frozen=True)
class Method:
    """How a method is begun, and how far it came in the reference."""

    rate: float
    reached: float | None
    """Nats a character on Python's source after 100 steps in the reference, if it was tried."""
    begin: Callable[[], Any] | None = None
    """Makes the method; None: all weights are trained."""
    where: str | None = None
    parameters: str | None = None
    """Pattern of what is trained of it; None: all."""


ATTENTION = "q|k|v|o"
LINEAR = "all-linear"
METHODS: dict[str, Method] = {
    "full": Method(1e-3, 1.555),
    "DoRA": Method(5e-3, 1.617, lambda: adapters.DoRA(r=8, alpha=16), LINEAR),
    "LoRA": Method(5e-3, 1.621, lambda: adapters.LoRA(r=8, alpha=16), LINEAR),
    "AdaLoRA": Method(
        1e-2,
        1.639,
        lambda: adapters.AdaLoRA(
            **{"init_r": 12, "target_r": 8, "alpha": 24, "orth_reg_weight": 0.1},
            **{"tinit": 20, "tfinal": 30, "delta_t": 5, "total_step": STEPS},
        ),
        LINEAR,
    ),
    "LoRA attention": Method(5e-3, 1.704, lambda: adapters.LoRA(r=8, alpha=16), ATTENTION),
    "IA3": Method(2e-2, 1.823, lambda: adapters.IA3(feedforward="down"), "k|v|down"),
    "prompt": Method(3e-2, 1.953, lambda: adapters.Prompt(16)),
    "prefix": Method(1e-2, 1.964, lambda: adapters.Prefix(16)),
    "DyLoRA": Method(5e-3, None, lambda: adapters.DyLoRA(r=8, alpha=16), LINEAR),
    "LoHa": Method(5e-3, None, lambda: adapters.LoHa(r=8, alpha=16), LINEAR),
    "LoKr": Method(1e-2, None, lambda: adapters.LoKr(r=8, alpha=16), LINEAR),
    "VeRA": Method(2e-2, None, lambda: adapters.VeRA(r=64), LINEAR),
    "P-tuning": Method(1e-2, None, lambda: adapters.PTuning(16)),
    "bottleneck": Method(2e-3, None, lambda: adapters.Bottleneck("parallel")),
    "frozen": Method(
        5e-3, None, lambda: adapters.LoRA(r=8, alpha=16), LINEAR, parameters="*/lora_A"
    ),
}
GAPS = (
    *(("full", "LoRA", 0.03), ("LoRA", "IA3", 0.15), ("IA3", "base", 0.15)),
    *((name, "base", 0.05) for name in METHODS if name not in ("full", "LoRA", "IA3", "frozen")),
)
"""Better, worse, and by how many nats a character at the least."""


def trained(name: str, seed: int, domain: str = "source", again: bool = False) -> dict[str, Any]:
    """Return what a method came to with a seed, read if it has been trained before."""
    path = FOLDER / f"{domain}-{name.replace(' ', '-')}-{seed}.json"
    if again or not path.is_file():
        found = train(METHODS[name], seed, domain)
        FOLDER.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found))
    held: dict[str, Any] = json.loads(path.read_text())
    return held


def train(
    method: Method,
    seed: int,
    domain: str = "source",
    base: Base = LARGE,
    values: Mapping[str, Any] | None = None,
    told: Sequence[int] = (25, 50, STEPS),
) -> dict[str, Any]:
    """Train a method on a domain; return its losses by steps, and what else the table tells."""
    learned, unseen = DOMAINS[domain]()
    model = Decoder(base.config, values=trained_base() if values is None else values)
    adapted = None
    if method.begin is not None:
        adapted = adapters.add(model, method.begin(), method.where, seed=1000 * (seed + 1))
    rates = gw.schedules.Linear(method.rate, steps=STEPS, warmup=WARMUP)
    trainer = gw.Trainer(
        model.graph,
        model.loss,
        gw.optim.AdamW(rates, beta2=0.95, weight_decay=0.1),
        parameters=method.parameters,
        clip_norm=1.0,
    )
    found: dict[str, Any] = {}
    start = time.process_time()
    for step in range(1, told[-1] + 1):
        trainer.step(base.examples(learned, ROWS, 1_000_000 * (1 + seed) + step))
        if step in told:
            found["seconds"] = time.process_time() - start
            found[str(step)] = base.loss(trainer, unseen)
    found["trainable"] = sum(math.prod(map(int, v.shape)) for v in model.graph.trainable)
    found["docs"] = base.loss(trainer, texts.reference()[1])
    if adapted is not None:
        with adapted.disabled():
            found["disabled"] = base.loss(trainer, unseen)
    return found


def before(
    domain: str, base: Base = LARGE, values: Mapping[str, Any] | None = None
) -> dict[str, float]:
    """Return what the base tells of a domain, and of what it was trained on."""
    model = Decoder(base.config, values=trained_base() if values is None else values)
    trainer = gw.Trainer(model.graph, model.loss)
    unseen, docs = DOMAINS[domain]()[1], texts.reference()[1]
    return {"100": base.loss(trainer, unseen), "docs": base.loss(trainer, docs)}


# -- the table -------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.learning.adapters", description=__doc__)
    parser.add_argument("methods", nargs="*", help=f"of {', '.join(METHODS)}: all")
    parser.add_argument("--domain", choices=DOMAINS, default="source")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--again", action="store_true", help="train what has been trained")
    chosen = parser.parse_args()
    if unknown := set(chosen.methods) - METHODS.keys():
        parser.error(f"no method {', '.join(sorted(unknown))}; there are {', '.join(METHODS)}")
    first = before(chosen.domain)
    print(f"before: {first['100']:.3f} nats/char on {chosen.domain}, {first['docs']:.3f} on docs")
    print(f"{'method':<16}{'trained':>9}{'rate':>8}{'25':>8}{'50':>8}{'100':>8}"
          f"{'seeds':>15}{'docs':>8}{'CPU s':>7}{'reference':>11}")  # fmt: skip
    results: dict[str, list[dict[str, Any]]] = {}
    for name in chosen.methods or METHODS:
        runs = [trained(name, seed, chosen.domain, chosen.again) for seed in chosen.seeds]
        results[name] = runs
        print(line(name, runs, chosen.domain), flush=True)
    wrong = problems(results, first["100"], chosen.domain)
    print("\n".join(wrong) if wrong else "all as it must be")
    sys.exit(bool(wrong))


def line(name: str, runs: Sequence[Mapping[str, Any]], domain: str) -> str:
    """Return a row of the table: means over seeds, and the range of the last losses."""
    method, last = METHODS[name], [run["100"] for run in runs]
    means = [statistics.fmean(run[k] for run in runs) for k in ("25", "50", "100", "docs")]
    losses = "".join(f"{mean:>8.3f}" for mean in means)
    seconds = statistics.fmean(run["seconds"] for run in runs)
    known = method.reached is not None and domain == "source"
    reached = f"{method.reached:.3f}" if known else ""
    return (
        f"{name:<16}{runs[0]['trainable']:>9,}{method.rate:>8}{losses}"
        f"{min(last):>9.3f}-{max(last):.3f}{seconds:>7.0f}{reached:>11}"
    )


def problems(
    results: Mapping[str, Sequence[Mapping[str, Any]]], first: float, domain: str
) -> list[str]:
    """Return what is not as it must be: one sentence each."""
    found = []
    for name, runs in results.items():
        wanted = METHODS[name].reached if domain == "source" else None
        for run in runs:
            if wanted is not None and run["100"] > wanted + SLACK:
                found.append(f"{name} came to {run['100']:.3f}, not to {wanted} + {SLACK}")
            if abs(run.get("disabled", first) - first) > 1e-6:
                found.append(f"{name}, disabled, is {run['disabled']!r}, the base {first!r}")
    for better, worse, gap in GAPS:
        for i, run in enumerate(results.get(better, ())):
            other = first if worse == "base" else _at(results.get(worse, ()), i)
            if other is not None and run["100"] > other - gap:
                found.append(f"{better}, {run['100']:.3f}, is not {gap} below {worse}, {other:.3f}")
    found += [
        f"frozen it learned, from {first:.3f} to {run['100']:.3f}"
        for run in results.get("frozen", ())
        if run["100"] < first - 1e-6
    ]
    return found


def _at(runs: Sequence[Mapping[str, Any]], i: int) -> float | None:
    return runs[i]["100"] if i < len(runs) else None


if __name__ == "__main__":
    main()

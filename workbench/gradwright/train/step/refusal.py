"""Why a step was refused: bad data, a ruined parameter, the loss, or a gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...data import Feeds
from ...errors import IdError, TrainingError
from ...graph import Graph, Values
from ...session import Session
from ...session.feeds import example
from ...spec import is_floating
from .graph import StepGraph


def refusal(
    session: Session,
    step: StepGraph,
    feeds: Feeds,
    given: Feeds,
    number: int,
    batch: int,
    origin: Callable[[int], str],
) -> TrainingError:
    """Return the error of step ``number``, counted from 0, whose loss or gradient is not finite.

    Nothing was committed, so the step can be run again to look at its gradients: with ``given``,
    its feeds and what is fed beside them, and the random key of ``batch``. ``origin`` says where a
    row of the batch comes from.
    """
    what = f"step {number + 1}"
    bad_data = _bad_data(what, feeds, origin)
    if bad_data is not None:
        return bad_data
    bad_count = _bad_count(what, session, step, given)
    if bad_count is not None:
        return bad_count
    with np.errstate(all="ignore"):
        loss, *grads = session.run(
            [step.value, *step.grads.values()], given, training=True, step=batch
        )
    rate = float(given[step.rate])
    facts = [f"loss = {float(loss):.6g}, learning rate = {rate:.6g}"]
    facts += _ruined(session.values, step)
    named = zip(step.params, grads, strict=True)
    counts = {p.name: (int((~np.isfinite(g)).sum()), g.size) for p, g in named}
    bad = {name: of for name, of in counts.items() if of[0]}
    facts += [
        f"gradient of {name!r}: {n} of {size} elements are not finite"
        for name, (n, size) in list(bad.items())[:5]
    ]
    culprit = "the gradient" if np.isfinite(loss) else f"the loss {step.loss.name!r}"
    return TrainingError(
        f"{what}: {culprit} is not finite; nothing was changed",
        facts=facts,
        hint="a smaller learning rate, clip_norm=1.0, or to see where it begins "
        "gw.Stepper(g, [loss, *gw.gradients(loss, trainer.parameters)], trainer.last_feeds, "
        "training=True).find_nonfinite()",
    )


def found_in(error: IdError, feeds: Feeds, origin: Callable[[int], str]) -> list[str]:
    """Return where an id comes from that was fed as it stands, or shifted within its row."""
    if not error.at:
        return []
    row = error.at[0]
    for t, value in feeds.items():
        array = np.asarray(value)
        if array.ndim and row < len(array) and (array[row] == error.id).any():
            return [f"{error.id} in {t.name!r} is of {origin(row)}"]
    return []


def misplaced(graph: Graph, unnamed: Sequence[object]) -> TrainingError:
    """Return the error of data that is given as several arguments, to a trainer without names."""
    names = [t.name for t in graph.placeholders]
    *features, labels = names if len(names) > 1 else ["x", "t"]
    first = features[0] if len(features) == 1 else tuple(features)
    told = f"features={first!r}, labels={labels!r}"
    return TrainingError(
        f"fit takes one argument of data, not {1 + len(unnamed)}",
        need="a dict of arrays by placeholder, or an iterable of such dicts",
        hint=f"trainer.fit({example(graph)}), or gw.Trainer(..., {told}), which names them once",
    )


def _bad_data(what: str, feeds: Feeds, origin: Callable[[int], str]) -> TrainingError | None:
    for t, value in feeds.items():
        if not is_floating(t.dtype):
            continue
        with np.errstate(over="ignore"):
            bad = ~np.isfinite(np.asarray(value).astype(t.dtype, copy=False))
        if bad.any():
            at = [int(i) for i in np.argwhere(bad)[0]]
            facts = [f"{int(bad.sum())} of {bad.size} elements, the first at {at} of the batch"]
            return TrainingError(
                f"{what}: the data of placeholder {t.name!r} is not finite",
                facts=facts + ([origin(at[0])] if at else []),
                hint="np.isfinite(data) finds the rows",
            )
    return None


def _bad_count(what: str, session: Session, step: StepGraph, given: Feeds) -> TrainingError | None:
    rule = step.config.accumulation
    if rule is None or rule.tokens is None:
        return None
    count = float(np.sum(session.run(session.graph[rule.tokens], given, training=True)))
    if count >= 0:
        return None
    return TrainingError(
        f"{what}: {rule.tokens!r} counts {count:g} tokens",
        need="a mask or a number, which add up to 0 or more",
        hint="gw.Accumulation(..., tokens=...) with a tensor such as labels != -100",
    )


def _ruined(values: Values, step: StepGraph) -> list[str]:
    names = [t.name for t in step.params if not np.isfinite(values.array(t.name)).all()]
    return [f"before the step, parameter {name!r} was not finite" for name in names[:5]]

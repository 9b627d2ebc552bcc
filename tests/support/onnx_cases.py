"""The node cases of ONNX's backend suite: loading them once, and running one through a session."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import gradwright as gw

FOREIGN = ("onnx.reference", "torch", "scipy")
"""What would know the answers; none of it can be imported while a case runs."""
NEWEST = 28
"""Opset in which cases are written again."""


class _NoForeign:
    """An import hook that refuses the foreign libraries."""

    def find_spec(self, name: str, *where: Any) -> None:
        if name.startswith(FOREIGN):
            raise AssertionError(f"running a case imports {name}")


@functools.cache
def cases() -> dict[str, Any]:
    """Return all cases by name, and from then on refuse the foreign libraries.

    The suite computes its expected outputs with them, and numpy warns meanwhile.
    """
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = {case.name: case for case in load_model_tests(kind="node")}
    for name in _foreign():
        del sys.modules[name]
    sys.meta_path.insert(0, _NoForeign())
    return found


def _foreign() -> list[str]:
    """Return the foreign libraries that are loaded; the compiler's thread may import meanwhile."""
    return [name for name in list(sys.modules) if name.startswith(FOREIGN)]


def is_expanded(name: str) -> bool:
    return "_expanded" in name


def operator(case: Any) -> str:
    """Return the operator that a case is about; those of a function's body start with its name."""
    node = case.model.graph.node[0]
    return node.name.partition("_test_")[0] if is_expanded(case.name) else str(node.op_type)


def run_case(case: Any) -> gw.Graph:
    """Build the graph of a case, run a session on its data, and compare; raises what is wrong."""
    graph = gw.onnx.load(case.model)
    _run(case, graph, [info.name for info in case.model.graph.output])
    return graph


def run_again(case: Any, graph: gw.Graph) -> Any:
    """Write the graph of a case, let the checker see it, read it and run it; return the model."""
    import onnx

    results = [graph[info.name] for info in case.model.graph.output]
    model = gw.onnx.to_model(graph, results, opset=NEWEST)
    onnx.checker.check_model(model, full_check=True)
    names = dict(zip(dict.fromkeys(results), (o.name for o in model.graph.output), strict=True))
    _run(case, gw.onnx.load(model), [names[t] for t in results])
    return model


def _run(case: Any, graph: gw.Graph, results: list[str]) -> None:
    names = [info.name for info in case.model.graph.input]
    with gw.Session(graph) as session:
        for given, expected in case.data_sets:
            feeds = dict(zip(names, map(as_given, given), strict=False))
            feeds = {k: v for k, v in feeds.items() if k in graph}
            found = session.run([graph[name] for name in results], feeds)
            for name, ours, theirs in zip(results, found, expected, strict=True):
                if case.name.startswith(RANDOM):
                    compare_random(name, ours, as_given(theirs), as_given(given[0]))
                else:
                    compare(name, ours, as_given(theirs), case.rtol, case.atol)
    assert not _foreign()


def op_types(graph: Any) -> set[str]:
    """Return the operators that a graph and its sub-graphs use, with their domains."""
    found = set()
    for node in graph.node:
        found.add(f"{node.domain}:{node.op_type}")
        for attribute in node.attribute:
            found |= op_types(attribute.g)
    return found


def as_given(value: Any) -> Any:
    """Return a value of a case as a session takes it: text as text, protobufs as arrays."""
    if isinstance(value, list):
        return [as_given(v) for v in value]
    if hasattr(value, "SerializeToString"):
        from onnx import numpy_helper

        value = numpy_helper.to_array(value)
    if isinstance(value, np.ndarray) and value.dtype == object:
        text = [v.decode() if isinstance(v, bytes) else v for v in value.flat]
        return np.array(text, np.dtypes.StringDType()).reshape(value.shape)
    if isinstance(value, np.ndarray) and value.dtype.kind in "SU":
        return value.astype(np.dtypes.StringDType())
    return value


def compare(name: str, ours: Any, theirs: Any, rtol: float, atol: float) -> None:
    """Hold a result against what is expected: dtype, shape, and values as the suite does."""
    if theirs is None or ours is None:
        assert ours is theirs, f"{name}: {ours!r} is not {theirs!r}"
        return
    if isinstance(theirs, list):
        assert isinstance(ours, list), f"{name} is no sequence: {ours!r}"
        assert len(ours) == len(theirs), f"{name}: {len(ours)} items, not {len(theirs)}"
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            compare(f"{name}[{i}]", a, b, rtol, atol)
        return
    theirs = np.asarray(theirs)
    assert ours.dtype == theirs.dtype, f"{name} is {ours.dtype}, not {theirs.dtype}"
    assert ours.shape == theirs.shape, f"{name} is {ours.shape}, not {theirs.shape}"
    name_of = theirs.dtype.name
    if theirs.dtype.isbuiltin == 2 and theirs.dtype.kind != "T":  # of ml_dtypes
        wide = np.int64 if "int" in theirs.dtype.name else np.float32
        ours, theirs = ours.astype(wide), theirs.astype(wide)
        if name_of == "bfloat16":  # two of its last places, as the suite's own runner has it
            rtol = max(rtol, 2**-6)
    if theirs.dtype.kind in "TOUSb":
        np.testing.assert_array_equal(ours, theirs, err_msg=name)
    else:
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol, err_msg=name)


RANDOM = ("test_bernoulli", "test_training_dropout")
"""Cases whose numbers are those of numpy's generator: the suite calls them informational."""


def compare_random(name: str, ours: Any, theirs: Any, x: Any) -> None:
    """Hold a random result against what can be said of it: zeros, and what else there may be.

    A Bernoulli variable is 1 otherwise, a mask true, and what dropout keeps one multiple of x.
    """
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), name
    kept = ours.astype(np.float64) != 0
    assert 0 < kept.mean() <= 1, name
    if ours.dtype == bool or set(np.unique(theirs.astype(np.float64))) <= {0.0, 1.0}:
        assert set(np.unique(ours.astype(np.float64))) <= {0.0, 1.0}, name
        return
    scales = (theirs / x)[theirs != 0]
    np.testing.assert_allclose(ours[kept], (x * scales[0])[kept], rtol=1e-5, err_msg=name)


@dataclass(frozen=True)
class Outcome:
    """What becomes of a case: the errors of reading and of writing, "" for none, and operators."""

    error: str
    again: str = ""
    lost: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def outcome(case: Any) -> Outcome:
    """Run a case, then write it and run it again; errors are told in one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            graph = run_case(case)
        except Exception as error:  # whatever it is belongs into the table
            return Outcome(_line(error))
        given = op_types(case.model.graph)
        try:
            written = op_types(run_again(case, graph).graph)
        except Exception as error:
            return Outcome("", _line(error), tuple(sorted(given)))
    return Outcome("", "", tuple(sorted(given - written)), tuple(sorted(given & written)))


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: " + " | ".join(str(error).strip().splitlines()[:6])


def chosen(patterns: Sequence[str]) -> dict[str, Any]:
    """Return the cases whose names contain one of the patterns; all without patterns."""
    return {
        name: case
        for name, case in cases().items()
        if not patterns or any(p in name for p in patterns)
    }

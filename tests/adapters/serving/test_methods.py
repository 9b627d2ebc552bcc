"""Which methods rows can differ in, each as it is alone; the others are refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.adapters import (
    IA3,
    METHODS,
    AdaLoRA,
    DoRA,
    DyLoRA,
    HeadLoRA,
    LoHa,
    LoRA,
    VeRA,
    serve,
)
from gradwright.errors import FeedError, GraphError

Array = np.ndarray[Any, Any]
SIZES = {"w": (12, 16), "v": (9, 16)}


def network() -> gw.Graph:
    """Return two layers, one with a bias inside and one with a bias behind it."""
    g, rng = gw.Graph(), np.random.default_rng(5)
    x = g.placeholder("x", ("B", 12))
    w, v = (g.variable(n, s, init=rng.standard_normal(s)) for n, s in SIZES.items())
    b, c = (g.variable(n, (k,), init=rng.standard_normal(k)) for n, k in (("b", 16), ("c", 9)))
    gw.identity(gw.tanh(gw.nn.linear(x, w, b)) @ v.mT + c, name="y")
    return g


def tried(method: Any, seed: int) -> tuple[Any, dict[str, Array], Array]:
    """Return a method, its state after some training, and what it gives alone."""
    g, rng = network(), np.random.default_rng(seed)
    adapted = gw.adapters.add(g, method, "w|v")
    state = adapted.state()
    for key, array in state.items():
        if array.dtype.kind == "f" and "vera_A" not in key and "vera_B" not in key:
            state[key] = (array + 0.3 * rng.standard_normal(array.shape)).astype("f4")
    if isinstance(method, AdaLoRA):  # a rank that is off
        state["w/lora_E"][1] = 0.0
    adapted.load_state(state)
    return method, state, g.output({"x": X}, "y")["y"]


X = np.random.default_rng(1).standard_normal((4, 12)).astype("f4")
BY_ROW: dict[str, Any] = {
    "lora": LoRA(r=3, alpha=5),
    "dora": DoRA(r=4, alpha=6),
    "ia3": IA3(),
    "ahead": IA3(feedforward="v"),
    "vera": VeRA(r=30),  # above the sizes of the weights
    "heads": HeadLoRA(r=2, heads=1),
    "dylora": DyLoRA(r=4, block=2, active=1),
    "adalora": AdaLoRA(init_r=4, target_r=2, total_step=10),
}


def test_rows_of_different_methods_are_as_they_are_alone() -> None:
    tries = {name: tried(method, i) for i, (name, method) in enumerate(BY_ROW.items())}
    served = serve(network(), {n: (m, state) for n, (m, state, _) in tries.items()})
    assert served.method.gains and served.method.inputs == ("v",)
    base = network().output({"x": X}, "y")["y"]
    names = [*tries, None]
    for i in range(len(names)):
        rows = [names[(i + j) % len(names)] for j in range(4)]
        found = served.output({"x": X}, "y", rows=rows)["y"]
        for j, name in enumerate(rows):
            wanted = base[j] if name is None else tries[name][2][j]
            np.testing.assert_allclose(found[j], wanted, rtol=2e-6, atol=2e-6 * abs(wanted).max())
            assert name is None or np.abs(found[j] - base[j]).max() > 0.05


def test_a_product_is_no_sum_and_has_no_weight() -> None:
    tries = {name: tried(BY_ROW[name], 0)[:2] for name in ("lora", "dora", "ia3")}
    served = serve(network(), tries, per_row=2)
    served.output({"x": X[:2]}, "y", rows=["dora", {"lora": 0.5}])
    for row in ({"ia3": 0.5}, ["lora", "dora"]):
        with pytest.raises(FeedError, match=r"row 1 weighs '(ia3|dora)', which multiplies"):
            served.output({"x": X[:2]}, "y", rows=[None, row])
    sums = serve(network(), {"lora": tries["lora"]}, r=4)
    sums.add("dora", tries["dora"])
    with pytest.raises(GraphError, match="'dora': it multiplies what 'w' gives, and slots do not"):
        sums.output({"x": X[:1]}, "y", rows=["dora"])


def test_other_methods_are_refused_by_name() -> None:
    """Every method there is can be chosen by rows, or says that it cannot."""
    known = {type(method) for method in BY_ROW.values()}
    others = {name for name, method in METHODS.items() if method not in known}
    assert all(not METHODS[name].by_row for name in others)
    served = serve(network(), where="w|v", r=2)
    served.add("loha", tried(LoHa(r=2), 0)[:2])
    with pytest.raises(GraphError, match="'loha' is LoHa, and rows cannot differ in that"):
        served.output({"x": X}, "y", rows="loha")
    served.add("biased", tried(LoRA(r=2, lora_bias=True), 0)[:2])
    with pytest.raises(GraphError, match="B has a bias, in which rows do not differ"):
        served.output({"x": X}, "y", rows="biased")


@pytest.mark.parametrize(
    "method", [LoRA(r=3), DoRA(r=2), IA3(), LoHa(r=2), VeRA(r=4)], ids=lambda m: type(m).__name__
)
def test_any_adapter_alone_is_swapped_without_a_new_plan(method: Any) -> None:
    tries = [tried(method, seed) for seed in range(3)]
    g = network()
    adapted = gw.adapters.add(g, method, "w|v")
    with gw.Session(g, kernels="off") as session:
        plans, revision = set(), g.revision
        for _, state, wanted in tries * 2:
            adapted.load_state(state)
            np.testing.assert_allclose(session.run("y", {"x": X}), wanted, rtol=1e-6, atol=1e-6)
            plans |= {id(plan) for plan in session.plan_cache.values()}
        assert (len(plans), g.revision) == (1, revision)

"""Rewrites: each rule fires on its own example, can be left out, and changes no value."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradwrightError
from gradwright.rewrite import RULES, rewrite, verify_rewrites
from gradwright.rewrite.examples import example
from gradwright.rewrite.verify import difference
from tests.support.graph_programs import feeds_for, program_of, run

NAMES = list(RULES)
SPECIALS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.5, -3.5, 0.5, 7.0, -1e-3]
EXTREMES = [1e30, -1e30, 1e-30, -1e-30, 1e-42, 3e38, 88.0, -104.0]


def only(name):
    """Return the names of all rules but one."""
    return [n for n in NAMES if n != name]


def fired(program):
    return set(program.log.counts)


# -- every rule ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_fires_on_its_example_and_can_be_left_out(name):
    rule = RULES[name]
    y = example(rule)
    assert name in fired(verify_rewrites(program_of(y, lowers=rule.lowers)))
    program = program_of(y, lowers=rule.lowers)
    if name != "dead":  # which always goes
        assert name not in fired(rewrite(program, [name]))
    assert rule.doc.endswith(".")
    assert rule.before
    assert rule.after


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", NAMES)
def test_values_agree_with_the_rule_left_out(name, dtype):
    rule = RULES[name]
    try:
        y = example(rule, dtype)
    except GradwrightError:
        pytest.skip(f"the example has no {dtype}")
    for size in (0, 1, 2, 5):
        plain = rewrite(program_of(y, sizes={"B": size}, lowers=rule.lowers), NAMES)
        mine = rewrite(program_of(y, sizes={"B": size}, lowers=rule.lowers), only(name))
        every = rewrite(program_of(y, sizes={"B": size}, lowers=rule.lowers))
        for pool in (None, SPECIALS, SPECIALS + EXTREMES):
            feeds = feeds_for(y.graph.placeholders, size, pool)
            (want,) = run(plain, feeds)
            exact = rule.exact
            for found in (*run(mine, feeds), *run(every, feeds)):
                # What rounds or saves the plain form may differ where that is not finite.
                if name == "softmax":  # a row that holds infinity has none
                    found = np.where(np.isnan(want).any(-1, keepdims=True), want, found)
                if name.startswith("inverse_"):  # one over squares that overflow
                    found = np.where(want == 0, want, found)
                assert not difference(want, found, exact=exact)
                exact = exact and all(RULES[r].exact for r in fired(every))


def test_no_rule_is_exact_by_name_alone():
    """A rule that changes a sign of zero, or a NaN, does not pass for exact."""
    zero = np.array([0.0, -0.0], np.float32)
    assert difference(zero, zero + 0.0, exact=True)
    assert not difference(zero, zero + 0.0, exact=False)
    assert difference(np.array([np.nan]), np.array([1.0]), exact=True)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_left_to_rewrite(name):
    program = rewrite(program_of(example(RULES[name]), lowers=RULES[name].lowers))
    held = [str(instr) for instr in program.instrs]
    program.log.entries.clear()
    rewrite(program)
    assert not program.log.entries
    assert [str(instr) for instr in program.instrs] == held


# -- what stays ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [
        lambda x, y: x * 0.0,
        lambda x, y: x + 0.0,
        lambda x, y: x - (-0.0),
        lambda x, y: 0.0 - x,
        lambda x, y: x - x,
        lambda x, y: x / x,
        lambda x, y: gw.exp(gw.log(x)),
        lambda x, y: gw.sqrt(x) ** 2.0,
        lambda x, y: x**0.5,
        lambda x, y: (x + 12582912.0) - 12582912.0,
        lambda x, y: (x + 1e8) + (-1e8),
        lambda x, y: (x * 1e30) * 1e30,
        lambda x, y: (x * 1e-30) * 1e-30,
        lambda x, y: gw.logical_not(x < y),
        lambda x, y: -(x - y),
        lambda x, y: gw.where(x > y, x, y),
    ],
)
def test_what_would_change_values_stays(build):
    g = gw.Graph()
    x, y = (g.placeholder(name, ("B", 4)) for name in "xy")
    z = build(x, y)
    feeds = feeds_for([x, y], 64, SPECIALS + EXTREMES)
    sizes = {"B": 64}
    (want,) = run(rewrite(program_of(z, sizes=sizes), NAMES), feeds)
    (found,) = run(rewrite(program_of(z, sizes=sizes)), feeds)
    assert not difference(want, found, exact=True)


def test_what_broadcasts_or_promotes_stays():
    g = gw.Graph()
    x = g.placeholder("x", (4,))
    wide = x * g.constant(np.ones((3, 1), np.float32))
    promoted = x * g.constant(np.ones((), np.float64))
    zeros = g.placeholder("i", (4,), "int32") + g.constant(np.zeros((), np.int64))
    program = rewrite(program_of(wide, promoted, zeros))
    assert [i.op.name for i in program.instrs] == ["mul", "mul", "add"]


def test_inner_values_that_are_needed_elsewhere_keep_their_ops():
    g = gw.Graph()
    x = g.placeholder("x", ("B", 4))
    scaled = x * 3.0
    twice = rewrite(program_of(scaled, scaled * 5.0))
    assert [i.op.name for i in twice.instrs] == ["mul", "mul"]


def test_random_ops_are_one_only_with_one_stream():
    g = gw.Graph()
    x = g.placeholder("x", (64,))
    y = gw.nn.dropout(x, p=0.5) + gw.nn.dropout(x, p=0.5)
    program = rewrite(program_of(y, training=True))
    assert [i.op.name for i in program.instrs] == ["dropout", "dropout", "add"]
    evaluated = rewrite(program_of(y, training=False))
    assert [i.op.name for i in evaluated.instrs].count("dropout") == 2


def test_copies_that_run_again_are_not_merged():
    g = gw.Graph()
    x = g.placeholder("x", (4,))
    program = program_of(gw.exp(x) + gw.exp(x))
    program.instrs[1].recompute = 1
    assert [i.op.name for i in rewrite(program).instrs] == ["exp", "exp", "add"]
    program = program_of(x.neg().neg())
    program.instrs[1].recompute = 1  # it must not reach back for what was to be let go
    assert len(rewrite(program).instrs) == 2

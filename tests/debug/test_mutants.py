"""A few of the mutants that ``python -m tests.mutants`` draws by the hundred; all are named."""

from __future__ import annotations

import dataclasses

import pytest

from gradwright.debug.address import Address
from tests.mutants.campaign import alarms, check, judged, mutants, verdict_of
from tests.mutants.faults import FAULTS, SLIPS, half_more, one_element_slightly, planted
from tests.mutants.looped import LOOPED
from tests.mutants.planting import (
    Mutant,
    gradients_of,
    grown,
    healthy,
    met,
    shows,
    where_is,
)
from tests.mutants.straight import STRAIGHT, ppo


@pytest.mark.parametrize("seed", range(2))
def test_the_wrong_op_is_named_and_no_other(seed):
    """The eighth mutant of each seed is wrong in one turn only."""
    for mutant in mutants(8, seed):
        outcome = judged(mutant, max_per_param=1)
        assert outcome.verdict == "named", outcome


@pytest.mark.parametrize("method", ["auto", "differences"])
def test_one_element_that_a_direction_misses_is_found_along_others(method):
    """Nothing is known of the dependence, so no measured slope shows it either."""
    mutant = Mutant(ppo, 325, 4, one_element_slightly, 0, opaque=True)
    outcome = judged(mutant, method=method)
    assert outcome.verdict == "named", outcome


def test_no_healthy_network_is_blamed():
    assert list(alarms(len(STRAIGHT) + len(LOOPED), 0)) == []


def test_every_network_can_be_wrong_in_many_places():
    for make in (*STRAIGHT, *LOOPED):
        net, ops = healthy(make, 0)
        assert len(ops) >= 4, make.__name__
        assert not where_is(net.graph)


def test_a_mutant_is_made_again_from_what_it_is_known_by():
    mutant = Mutant(LOOPED[0], 3, 2, half_more, 0)
    first, second = gradients_of(grown(mutant)), gradients_of(grown(mutant))
    assert all((a == b).all() for a, b in zip(first, second, strict=True))
    right = gradients_of(healthy(mutant.make, mutant.seed)[0])
    assert shows(first, right) and not shows(right, right)
    (place,) = where_is(grown(mutant).graph)
    assert place.levels and place.node == "add"


def test_a_report_is_judged_by_what_it_names():
    mutant = Mutant(LOOPED[0], 3, 2, half_more, 0)
    report = check(grown(mutant), max_per_param=0)
    at = report.faults[0].address
    assert str(at) == "scan:0:add"
    assert verdict_of(report, at.anywhere) == verdict_of(report, at) == "named"
    assert verdict_of(report, Address.parse("scan:3:add")) == "turn"
    assert verdict_of(report, Address.parse("scan::mul")) == "other"
    assert verdict_of(report, Address.parse("scan::add::mul")) == "outer"
    assert verdict_of(check(healthy(LOOPED[0], 3)[0]), at) == "missed"
    silent = dataclasses.replace(report, nodes=[], stopped=True)
    assert verdict_of(silent, at) == "silent"


def test_a_faulty_copy_differs_in_its_vjp_alone():
    _, ops = healthy(STRAIGHT[0], 0)
    for op in ops:
        wrong = planted(type(op), half_more, 0)(**op.attributes())
        assert wrong.attributes() == op.attributes()
        assert type(wrong).forward is type(op).forward
        assert wrong.current() is wrong and wrong.name == op.name


def test_turns_are_met_in_order():
    turns = [m.address.turn for m in met(healthy(LOOPED[0], 0)[0]) if m.node.name == "tanh"]
    assert turns == [0, 1, 2, 3, 4]


def test_faults_have_words_and_slips_belong_to_ops():
    assert all(f.__doc__ for f in FAULTS)
    used = {op.name for make in (*STRAIGHT, *LOOPED) for op in healthy(make, 0)[1]}
    assert set(SLIPS) <= used

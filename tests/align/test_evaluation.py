"""Evaluation on held-out prompts: numbers beside scipy's, what is right and what is well-formed."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import gradwright as gw
from gradwright.align import Prompt, compare, evaluate
from gradwright.align.evaluation.held_out import Answers, HeldOut
from gradwright.align.evaluation.statistics import mcnemar, pass_at, wilson
from gradwright.errors import TrainingError
from gradwright.models import CharTokenizer, Decoder, DecoderConfig
from gradwright.words.jsonable import from_json, to_json

CODEC = CharTokenizer("abc.")
END = 3

# -- statistics ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 7, 1000])
def test_intervals_and_exact_tests_are_those_of_scipy(n: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    for right in {0, 1, n // 3, n - 1, n}:
        test = stats.binomtest(right, n)
        assert np.allclose(wilson(right, n), test.proportion_ci(method="wilson"), atol=1e-12)
        change = mcnemar(right, n - right)
        assert change.p == pytest.approx(test.pvalue, rel=1e-9)
        assert change.z**2 == pytest.approx((2 * right - n) ** 2 / n)


def test_of_nothing_nothing_is_told() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    assert mcnemar(0, 0) == (0, 0, 0.0, 1.0)
    with pytest.raises(TrainingError, match="11 of 10 answers cannot be right"):
        wilson(11, 10)


def test_pass_at_k_is_the_share_of_subsets_that_hold_a_right_answer() -> None:
    for n, right, k in itertools.product(range(1, 7), range(7), range(1, 7)):
        if right <= n and k <= n:
            found = [any(i < right for i in s) for s in itertools.combinations(range(n), k)]
            assert pass_at(k, right, n) == pytest.approx(np.mean(found))
    with pytest.raises(TrainingError, match="4 answers a prompt tell nothing of 5"):
        pass_at(5, 1, 4)


# -- a model whose answers are known ---------------------------------------------------------------


def follower(after: dict[str, str], sure: float = 30.0) -> Decoder:
    """Return a model that says, after each character, another one; ``sure`` in nats."""
    config = DecoderConfig(vocabulary=4, width=4, layers=1, heads=1, context=8)
    model = Decoder(config, tokenizer=CODEC, eos=END)
    for name in ("layer0/o", "layer0/down"):  # what is left is the embedding, normed
        model.graph.values[name] = np.zeros_like(model.graph.values[name])
    head = np.zeros((4, 4), np.float32)
    for first, second in after.items():
        head[CODEC.encode(second)[0], CODEC.encode(first)[0]] = sure / 2
    model.graph.values["embed"], model.graph.values["head"] = np.eye(4, dtype=np.float32), head
    return model


def prompts() -> list[Prompt]:
    wanted = {"a": "b", "b": "", "ca": "b", "c": "b"}
    return [
        Prompt(CODEC.encode(text), text, {"answer": answer, "long": len(text) > 1})
        for text, answer in wanted.items()
    ]


def exact(prompts, completions, answer, **columns):
    return [float(c == a) for c, a in zip(completions, answer, strict=True)]


def test_an_answer_is_right_where_it_is_what_is_asked_and_ends() -> None:
    model = follower({"a": "b", "b": ".", "c": "c"})  # a: "b.", b: ".", c: "ccc…"
    seen = evaluate(model, prompts(), exact, max_new_tokens=3, slices=["long"], form="b?")
    assert seen.answers().texts == (("b",), ("",), ("b",), ("ccc",))
    assert seen.right()[:, 0].tolist() == [True, True, True, False]
    assert seen.answers().formed == ((True,), (True,), (True,), (False,))
    assert seen.answers().lengths == ((2,), (1,), (2,), (3,))
    assert seen.rate() == 0.75 and seen.format_rate() == 0.75
    long = seen.groups()["long=True"]
    assert seen.rate(among=long) == 1 and seen.interval(among=long) == wilson(1, 1)
    assert "long=True" in str(seen) and seen.plot().data[0].y[0] == 0.75


def test_one_that_was_cut_is_wrong_whatever_it_says() -> None:
    model, asked = follower({"a": "b", "b": "c"}), prompts()[:1]
    cut = evaluate(model, asked, exact, max_new_tokens=1, samples=0)
    assert cut.answers().texts == (("b",),) and cut.rate() == 0 and cut.format_rate() == 0
    assert evaluate(model, asked, exact, max_new_tokens=1, must_end=False).rate() == 1


def test_what_the_verifier_says_nothing_of_is_not_right() -> None:
    seen = evaluate(follower({"a": "."}), prompts()[:1], lambda **_: [np.nan], max_new_tokens=2)
    assert seen.rate() == 0 and seen.format_rate() == 1


def test_samples_tell_how_often_one_of_several_is_right() -> None:
    model = follower({"a": "b", "b": "."}, sure=2.0)
    seen = evaluate(model, prompts(), exact, samples=8, max_new_tokens=3, seed=3)
    right = seen.right("sampled")
    assert right.shape == (4, 8) and 0 < right.mean() < 1
    assert seen.pass_at(1) == pytest.approx(seen.rate("sampled")) == pytest.approx(right.mean())
    assert seen.pass_at(8) == right.any(1).mean()
    assert seen.interval("sampled") == wilson(right.mean() * 4, 4), "each prompt counts once"
    again = evaluate(model, prompts(), exact, samples=8, max_new_tokens=3, seed=3)
    assert again == seen and from_json(json.loads(json.dumps(to_json(seen)))) == seen


# -- before and after ------------------------------------------------------------------------------


def test_a_comparison_lists_what_was_gained_and_what_was_lost() -> None:
    first = evaluate(follower({"a": "b", "b": "c", "c": "."}), prompts(), exact, max_new_tokens=3)
    then = evaluate(follower({"a": "b", "b": "."}), prompts(), exact, max_new_tokens=3)
    change = compare(first, then)
    assert [(c.row, c.prompt, c.before, c.after) for c in change.gained()] == [
        (0, "a", "bc", "b"),
        (1, "b", "c", ""),
        (2, "ca", "bc", "b"),
    ]
    assert change.lost() == [] and change.mcnemar() == mcnemar(3, 0)
    assert compare(then, first).mcnemar() == mcnemar(0, 3)
    assert "greedy: 0 lost, 3 gained" in str(change.cases())
    figure = change.plot()
    assert figure.data[0].y[0] == 0 and figure.data[1].y[0] == 0.75


def test_texts_of_a_model_are_never_html() -> None:
    said = Answers((("<script>x</script>",),), ((True,),), ((True,),), ((1,),))
    wrong = Answers((("<b>",),), ((False,),), ((True,),), ((1,),))
    slices = {"<i>": ("<u>",)}
    seen = [HeldOut(("<img src=x>",), {"greedy": a}, slices) for a in (said, wrong)]
    change = compare(*seen)
    for page in (change._repr_html_(), change.cases()._repr_html_(), seen[0]._repr_html_()):
        assert not any(tag in page for tag in ("<script", "<img", "<b>", "<i>", "<u>"))
    assert "<i>" not in change.plot().to_json()


def test_other_prompts_and_what_is_missing_are_refused() -> None:
    model = follower({"a": "."})
    seen = evaluate(model, prompts()[:2], exact, samples=0, max_new_tokens=2)
    other = evaluate(model, prompts()[1:3], exact, samples=0, max_new_tokens=2)
    with pytest.raises(TrainingError, match="of other prompts"):
        compare(seen, other)
    with pytest.raises(TrainingError, match="no answers were drawn 'sampled'"):
        seen.rate("sampled")
    with pytest.raises(TrainingError, match="prompt 0 has no column 'kind'"):
        evaluate(model, prompts(), exact, slices=["kind"])
    with pytest.raises(TrainingError, match="there is no prompt to evaluate on"):
        evaluate(model, [], exact)
    with pytest.raises(TrainingError, match="values of 'x' of 1 prompts"):
        HeldOut(seen.prompts, seen.ways, {"x": (1,)})


def test_evaluating_leaves_the_model_as_it_is() -> None:
    model = follower({"a": "b", "b": "."})
    before = {v.name: model.graph.values[v.name].tobytes() for v in model.graph.variables}
    nodes = len(model.graph.nodes)
    evaluate(model, prompts(), exact, max_new_tokens=3)
    assert len(model.graph.nodes) == nodes
    assert before == {v.name: model.graph.values[v.name].tobytes() for v in model.graph.variables}
    assert gw.align.evaluate is evaluate

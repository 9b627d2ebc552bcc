"""Docstrings of the house as reStructuredText: formulas, examples and names come out as meant."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("sphinx", reason="pip install -e '.[test]'")
SITE = Path(__file__).parents[2] / "notebooks/site"


@pytest.fixture
def docstrings(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SITE))
    return pytest.importorskip("docstrings")


def text_of(rst: str) -> str:
    """Return what a reader sees, and fail where docutils finds anything to say."""
    from docutils.core import publish_doctree

    return publish_doctree(rst, settings_overrides={"halt_level": 1, "report_level": 1}).astext()


FORMULAS = [
    "yᵢ = exp(xᵢ − max x) / Σⱼ exp(xⱼ − max x)",
    "y[h, i, j] = scores[h, i, j] − mₕ·|i + S − T − j|",
    "y[n, o, p·stride + i·dilation] += weight[c, o, i]·x[n, c, p]",
    "i, o, f = σ(x wᵀ + h rᵀ + b_w)",
    "m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²\np ← p − lr · m / (√v + ε)",
    "y ~ N(mean, std²)",
]


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula_stays_as_it_is(docstrings: ModuleType, formula: str) -> None:
    rst = docstrings.as_rst(f"What it is.\n\n{formula}\n\nMore of it.")
    assert ":class: formula" in rst and formula in text_of(rst)


def test_sentences_behind_a_formula_are_text(docstrings: ModuleType) -> None:
    rst = docstrings.as_rst(
        "What it is.\n\ny = a·x, for all\na. Channels lie along\nthe last axis."
    )
    assert "   y = a·x, for all a" in rst
    assert "\nChannels lie along the last axis." in rst


@pytest.mark.parametrize(
    "prose", ["torch takes the lower of two: it is not this.", "With one number, it is ``stop``."]
)
def test_prose_is_no_formula(docstrings: ModuleType, prose: str) -> None:
    assert "formula" not in docstrings.as_rst(f"What it is.\n\n{prose}")


@pytest.mark.parametrize(
    "awkward",
    [
        "a * b * c, |x| and |y|, x_ and __init__, back\\slash, `one` and *two",
        "a ``Metric``s or ``code over\ntwo lines`` and a :class:`~gradwright.Graph`",
        "bounds: *args and **kwargs_",
    ],
)
def test_text_stays_text(docstrings: ModuleType, awkward: str) -> None:
    seen = text_of(docstrings.as_rst(awkward))
    plain = awkward.replace("``", "").replace(":class:`~gradwright.Graph`", "gw.Graph")
    assert seen == plain.replace("`one`", "one")


def test_sections_and_examples(docstrings: ModuleType) -> None:
    rst = docstrings.as_rst(
        "What it is.\n\nArgs:\n    axis: where *it* is, or ``None``\n        for all.\n\n"
        ">>> 1 + 1\n2\n\nLike this::\n\n    |--|\n"
    )
    assert ":param axis: where \\*it\\* is, or ``None``" in rst
    assert "\n>>> 1 + 1\n2\n" in rst and "|--|" in text_of(rst.replace(":param axis:", "axis"))

"""The words of others: each works with torch's numbers, or its message names a call that does."""

from __future__ import annotations

import ast
import contextlib
import linecache
import re

import numpy as np
import pytest

import gradwright as gw
from tests.words.words_of_others import FUNCTIONS, LOSSES, TENSORS

torch = pytest.importorskip("torch")


def values():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.full(4, 9.0), (2, 3)).astype(np.float32)
    normal = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    x = normal(3, 4)
    return {
        "x": x,
        "y": normal(3, 4),
        "z": normal(2, 3, 4),
        "p": p,
        "q": q,
        "s": np.sign(normal(3, 4)),
        "signs": np.array([1, -1, 1], np.float32),
        "bits": (x > 0).astype(np.float32),
        "i": rng.integers(0, 4, (3, 2)),
        "k": np.array([[[0, 2]] * 3, [[3, 1]] * 3]),
        "rows": np.array([1, 0]),
        "c": np.array([2, 0, 3]),
        "m": x > 0.3,
        "row": normal(4),
        "square": normal(4, 4),
        "square4": normal(2, 4, 4),
        "stack": normal(5, 4, 4),
        "image": normal(2, 4, 4, 6),
        "grid": rng.uniform(-0.9, 0.9, (2, 3, 5, 2)).astype(np.float32),
        "kernel": normal(5, 3, 2),
    }


def names_here():
    g = gw.Graph()
    held = values()
    names = {
        name: g.placeholder(name, ("B", 4) if name in ("x", "y") else v.shape, v.dtype)
        for name, v in held.items()
    }
    names["w"] = g.variable("w", init=np.arange(3, dtype=np.float32))
    return {**names, "gw": gw, "g": g, "np": np, "feeds": held}


def run(source, names):
    """Evaluate a line that a user types."""
    file = f"<typed {source}>"
    linecache.cache[file] = (len(source), None, [source + "\n"], file)
    return eval(compile(source, file, "eval"), dict(names))  # noqa: S307


def arrays(found, names):
    if isinstance(found, tuple | list) and any(isinstance(t, gw.Tensor) for t in found):
        return [arrays(t, names) for t in found]
    if isinstance(found, gw.Tensor):
        (value,) = names["g"].output(names["feeds"], found).values()
        return value
    return np.asarray(found)


def advised(message):
    """Return the call that a message names."""
    found = re.search(r"did you mean (.*)|try:  (.*)", message)
    assert found, message
    text = (found[1] or found[2]).removeprefix("with g: ")
    for end in [len(text), *(m.start() for m in re.finditer(r"\?? \(|\?$", text))][::-1]:
        with contextlib.suppress(SyntaxError):  # the difference follows in parentheses
            ast.parse(text[:end], mode="eval")
            return text[:end]
    raise AssertionError(message)


CASES = [
    tuple(part.strip() for part in line.split("=>"))
    for text in (TENSORS, FUNCTIONS, LOSSES)
    for line in text.strip().splitlines()
]


@pytest.mark.parametrize(("typed", "theirs"), CASES, ids=[typed for typed, _ in CASES])
def test_a_word_of_others_works_or_its_message_names_the_call(typed, theirs):
    names = names_here()
    try:
        found = run(typed, names)
    except (AttributeError, TypeError, gw.errors.GradwrightError) as error:
        call = advised(str(error))
        with names["g"]:
            found = run(call, names)
    space = {k: torch.from_numpy(np.array(v)) for k, v in values().items()}
    space |= {"torch": torch, "F": torch.nn.functional, "np": np, "w": torch.arange(3.0)}
    wanted = eval(theirs, space)  # noqa: S307
    ours, wanted = arrays(found, names), wanted
    if isinstance(wanted, tuple | list) and isinstance(ours, list):
        pairs = list(zip(ours, wanted, strict=True))
    else:
        pairs = [(ours, wanted)]
    for a, b in pairs:
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("typed", "theirs"),
    [
        ("gw.randn_like(share)", "torch.randn_like(share)"),
        ("gw.rand_like(share)", "torch.rand_like(share)"),
        ("gw.randn(200, 300)", "torch.randn(200, 300)"),
        ("gw.rand(200, 300)", "torch.rand(200, 300)"),
        ("gw.randint(0, 5, (200, 300))", "torch.randint(0, 5, (200, 300))"),
        ("gw.normal(1.0, 2.0, (200, 300))", "torch.normal(1.0, 2.0, (200, 300))"),
        ("gw.bernoulli(share)", "torch.bernoulli(share)"),
        ("share.uniform_(-1, 2)", "share.clone().uniform_(-1, 2)"),
        ("gw.randperm(500)", "torch.randperm(500)"),
    ],
)
def test_a_draw_that_is_named_has_the_moments_of_torch(typed, theirs):
    g, share = gw.Graph(), np.full((200, 300), 0.3, np.float32)
    names = {"gw": gw, "share": g.constant(share)}
    with pytest.raises((AttributeError, TypeError, gw.errors.GradwrightError)) as caught:
        run(typed, names)
    with g:
        y = run(advised(str(caught.value)), names)
    torch.manual_seed(0)
    wanted = eval(theirs, {"torch": torch, "share": torch.from_numpy(share)}).numpy()  # noqa: S307
    found = gw.Session(g, seed=0).run(y)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    assert found.mean() == pytest.approx(wanted.mean(), abs=0.03)
    assert found.std() == pytest.approx(wanted.std(), rel=0.02)

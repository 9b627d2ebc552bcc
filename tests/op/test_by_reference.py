"""Text, sequences and optionals: graph values that live outside the arena of a plan."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright import OptionalSpec, SequenceSpec, TensorSpec
from gradwright.errors import ArchiveError, DTypeError, FeedError, ShapeError
from gradwright.formats.archive import texts
from gradwright.spec.containers import join

WORDS = ["a", "", "ü" * 20, "nul\0 inside", "a"]


@pytest.fixture(params=["cpu", "guard"])
def session_of(request):
    return lambda g: gw.Session(g, request.param, check="replay")


# -- text ----------------------------------------------------------------------------------------


def test_text_is_fed_moved_chosen_and_compared(session_of):
    g = gw.Graph()
    s = g.placeholder("s", ("N",), "str")
    c = g.constant([["x", "y"]], name="c")
    both = gw.concat([s, c.reshape(-1)])
    only_a = gw.where(both == g.constant("a"), both, "other")
    fetches = [s, c, both, only_a, only_a[::-1], gw.gather(both, [1, 1]), gw.stack([both, both])]
    with session_of(g) as session:
        found = session.run(fetches, {"s": WORDS})
    assert str(s.spec) == "str[N]" and str(c.spec) == "str[1, 2]"
    expected = [*WORDS, "x", "y"]
    assert [found[0].tolist(), found[1].tolist()] == [WORDS, [["x", "y"]]]
    assert found[2].tolist() == expected
    chosen = [w if w == "a" else "other" for w in expected]
    assert found[3].tolist() == chosen and found[4].tolist() == chosen[::-1]
    assert found[5].tolist() == ["", ""] and found[6].tolist() == [expected, expected]


def test_one_text_of_many_is_text(session_of):
    g = gw.Graph()
    s, i = g.placeholder("s", ("N",), "str"), g.placeholder("i", (), "int64")
    fetches = [gw.gather(s, 0), s[i], gw.gather(s, i)]
    feeds = {"s": ["ab", "ünï"], "i": 1}
    stepper = gw.Stepper(g, fetches, feeds)
    stepper.run()
    with session_of(g) as session:
        for found in (session.run(fetches, feeds), stepper.results()):
            assert [str(text) for text in found] == ["ab", "ünï", "ünï"]
            assert {text.dtype for text in found} == {s.dtype}


def test_equal_text_is_shared_only_where_it_is_equal():
    # Long text lies elsewhere: the arrays themselves hold addresses, which may agree by chance.
    g = gw.Graph()
    words = [g.constant([f"{i}" * 40]) for i in range(6)]
    found = list(g.output({}, *(gw.concat([w, w]) for w in words)).values())
    assert [f.tolist() for f in found] == [[f"{i}" * 40] * 2 for i in range(6)]


def test_results_of_text_are_arrays_of_their_own():
    g = gw.Graph()
    c = g.constant(WORDS, name="c")
    flat = gw.identity(c)
    with gw.Session(g) as session:
        first = session.run(flat)
        first[:] = "spoilt"
        assert session.run(flat).tolist() == WORDS == g.values["c"].tolist()


@pytest.mark.parametrize("value", [[1, 2], [b"a"], np.array(["a", None], object), np.array([1.5])])
def test_what_is_no_text_is_refused(value):
    g = gw.Graph()
    s = g.placeholder("s", (None,), "str")
    with pytest.raises(FeedError, match="'s' cannot hold"):
        gw.Session(g).run(gw.identity(s), {"s": value})


@pytest.mark.parametrize(
    "build", [lambda s: s - s, gw.exp, gw.sum, gw.nn.softmax, lambda s: s * 2, lambda s: s.max()]
)
def test_ops_on_numbers_refuse_text(build):
    g = gw.Graph()
    s = g.placeholder("s", (3,), "str")
    with pytest.raises(DTypeError, match=r"takes no text, got str\[3\]") as caught:
        build(s)
    assert "'s'" in str(caught.value)


def test_text_and_numbers_do_not_promote():
    g = gw.Graph()
    with pytest.raises(DTypeError, match="no common dtype"):
        gw.concat([g.constant(["a"]), g.constant([1.0])])


@pytest.mark.parametrize("mapped", [False, True])
def test_text_comes_back_from_an_archive(tmp_path, mapped):
    g = gw.Graph()
    g.constant(WORDS, name="words")
    g.constant(np.array(WORDS[:4], object).reshape(2, 2), name="square")
    g.variable("none", (0, 3), dtype="str")
    g.variable("one", init=np.array("0-d"), dtype=str)
    g.save(
        tmp_path / "g.gw",
        state={"more": {"numbers": [1.0], "words": np.array(WORDS)[::-1].astype(g["words"].dtype)}},
    )
    found = gw.load(tmp_path / "g.gw", mmap=mapped)
    for name in ("words", "square", "none", "one"):
        assert found.values[name].tolist() == g.values[name].tolist()
        assert found.values[name].shape == g.values[name].shape
    assert gw.load_state(tmp_path / "g.gw", "more")["words"].tolist() == WORDS[::-1]
    found.save(tmp_path / "again.gw")
    assert (
        gw.inspect(tmp_path / "again.gw").dtypes
        == gw.inspect(tmp_path / "g.gw").dtypes | {"float64": 0}
        or "str" in gw.inspect(tmp_path / "again.gw").dtypes
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda b: b[:9], "texts in"),
        (lambda b: np.append(b, b[-1:]), "do not fill"),
        (lambda b: np.concatenate([b[8:16], b[:8], b[16:]]), "do not fill"),
        (lambda b: np.append(b[:-1], np.uint8(0xFF)), "decode"),
    ],
)
def test_damaged_text_is_refused(change, says):
    packed = texts.pack(np.array(["abc", "de"]))
    with pytest.raises(ArchiveError, match=says):
        texts.unpack(change(packed), (2,), "here")


def test_updates_of_text_variables():
    g = gw.Graph()
    last = g.variable("last", (2,), dtype="str")
    s = g.placeholder("s", (2,), "str")
    with gw.Session(g) as session:
        assert session.run(last, {"s": ["a", "b"]}, updates={last: s}).tolist() == ["", ""]
    assert g.values["last"].tolist() == ["a", "b"]


# -- sequences and optionals ---------------------------------------------------------------------


def test_specs_of_containers():
    q = SequenceSpec((None, 3))
    assert str(q) == "seq(f32[?, 3])" and q == SequenceSpec((None, 3)) != SequenceSpec((None, 4))
    assert str(OptionalSpec(q)) == "opt(seq(f32[?, 3]))"
    assert str(SequenceSpec(("B",), "int64")) == "seq(i64[B])"
    assert len({q, SequenceSpec((None, 3)), OptionalSpec(q)}) == 2
    assert (
        join(SequenceSpec(None), q) == q and str(join(q, SequenceSpec((2, 4)))) == "seq(f32[?, ?])"
    )
    assert q.differentiable and not OptionalSpec(TensorSpec((), "int64")).differentiable
    assert join(q, SequenceSpec((3,))) == SequenceSpec(None)  # items of several ranks
    with pytest.raises(ShapeError, match="one place"):
        join(q, SequenceSpec((3,), "int64"))
    with pytest.raises(ShapeError, match="nothing is known"):
        _ = SequenceSpec(None).item
    with pytest.raises(DTypeError, match="cannot hold"):
        OptionalSpec(OptionalSpec(TensorSpec(())))


def test_lists_and_optionals_are_fed_and_fetched(session_of):
    g = gw.Graph()
    q = g.placeholder("q", SequenceSpec((None, 2)))
    o = g.placeholder("o", OptionalSpec(TensorSpec((2,), "int64")))
    s = g.placeholder("s", OptionalSpec(SequenceSpec((None,), "str")))
    same = gw.identity(q)
    fed = [np.ones((2, 2), np.float32), [[1.0, 2.0]]]
    with session_of(g) as session:
        a, b, c, d = session.run([q, same, o, s], {"q": fed, "o": None, "s": [["a"], []]})
        assert [x.tolist() for x in a] == [x.tolist() for x in b] == [[[1, 1], [1, 1]], [[1, 2]]]
        assert a[0] is not fed[0] and c is None and [x.tolist() for x in d] == [["a"], []]
        a[0][:] = 7.0  # nobody else's
        assert fed[0].max() == 1.0 and session.run(o, {"o": [3, 4]}).tolist() == [3, 4]
        assert session.run(same, {"q": []}) == []


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("q", 3, "'q' is no list"),
        ("q", np.ones((2, 2)), "'q' is no list"),
        ("q", [np.ones(2)], "item 0 of placeholder 'q' has another shape"),
        ("q", [np.ones((1, 2)), np.ones((1, 3))], "item 1 of"),
        ("q", [np.ones((1, 2), complex)], "cannot take complex128"),
        ("o", [1], "another shape"),
    ],
)
def test_bad_feeds_of_containers_are_named(name, value, says):
    g = gw.Graph()
    g.placeholder("q", SequenceSpec((None, 2)))
    g.placeholder("o", OptionalSpec(TensorSpec((2,))))
    with pytest.raises(FeedError, match=says):
        gw.Session(g).run(gw.identity(g[name]), {name: value})


def test_ops_on_tensors_refuse_containers():
    g = gw.Graph()
    q = g.placeholder("q", SequenceSpec((None, 2)))
    with pytest.raises(DTypeError, match=r"add takes a tensor, got seq\(f32\[\?, 2\]\)"):
        q + 1
    with pytest.raises(DTypeError, match="takes a tensor"):
        gw.concat([q, q])


def test_specs_of_containers_come_back_from_an_archive(tmp_path):
    g = gw.Graph()
    q = g.placeholder("q", SequenceSpec((None, "B"), "float16"))
    g.placeholder("e", SequenceSpec(None, "int64"))
    g.placeholder("o", OptionalSpec(q.spec))
    gw.identity(q, name="same")
    g.save(tmp_path / "g.gw")
    found = gw.load(tmp_path / "g.gw")
    assert all(found[n].spec == g[n].spec for n in ("q", "e", "o", "same"))

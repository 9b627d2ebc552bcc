"""Archives with ops of other installations: drawn, saved again, refused when run."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import UnsupportedOpError
from gradwright.formats.archive import UnknownOp
from gradwright.op import OPS, Op
from tests.formats import archives
from tests.formats.archives import Halves, Mode, Noise, refused

path = pytest.fixture(archives.small)


@pytest.fixture
def foreign(tmp_path):
    """Return an archive whose ops this installation does not know, and its graph."""

    class Outer(Op):
        """Holds another op."""

        inner: Op = gw.attr(doc="Another op.")

        def infer(self, x):
            return self.inner.infer(x)

    gw.register("foreign/outer")(Outer)
    gw.register("foreign/halves")(type("ForeignHalves", (Halves,), {"version": 3}))
    gw.register("foreign/noise")(type("ForeignNoise", (Noise,), {}))
    g = gw.Graph()
    x = g.placeholder("x", ("B", 2))
    a, b = OPS["foreign/halves"]()(x, name="scope/halves")
    n = OPS["foreign/noise"](stream=3, mode=Mode.EXACT)(a, name="noise")
    Outer(inner=OPS["foreign/noise"](stream=1))(n, name="outer")
    y = b * n
    gw.gradients(y.sum(), [x])
    path = tmp_path / "foreign.gw"
    g.save(path)
    known = {name: OPS.pop(name) for name in list(OPS) if name.startswith("foreign/")}
    yield path, g, known
    for name in known:
        OPS.pop(name, None)


def test_unknown_ops_are_drawn_and_saved_again(foreign, tmp_path):
    path, g, _ = foreign
    found = gw.load(path)
    noise = found["noise"].node
    assert isinstance(noise.op, UnknownOp) and noise.op.name == "foreign/noise"
    assert noise.op.attributes()["stream"] == 3 and noise.public == noise.outputs[:1]
    assert "foreign/noise(stream=3, mode=Mode.EXACT)" in repr(noise)
    assert found["scope/halves"].op.version == 3
    assert [t.spec.key() for n in found.nodes for t in n.outputs] == [
        t.spec.key() for n in g.nodes for t in n.outputs
    ]
    assert "foreign/halves" in found.summary()
    again = tmp_path / "again.gw"
    found.save(again)
    assert again.read_bytes() == path.read_bytes()
    info = gw.inspect(path)
    assert info.unknown_ops.keys() == {"foreign/halves", "foreign/noise", "foreign/outer"}
    assert "is not registered" in repr(info)


def test_running_unknown_ops_names_all_of_them(foreign):
    found = gw.load(foreign[0])
    message = r"'foreign/halves' is not registered[\s\S]*'foreign/noise'[\s\S]*'foreign/outer'"
    for act in (
        lambda: found.output({"x": np.ones((2, 2))}, "noise"),
        lambda: gw.gradients(found["noise"].sum(), [found["x"]]),
        lambda: found["noise"].op(found["x"]),
    ):
        with pytest.raises(UnsupportedOpError, match=message):
            act()
    assert found.output({"x": np.ones((2, 2))}, found["x"] * 2.0)


def test_a_known_op_that_holds_an_unknown_one_is_kept(foreign):
    path, g, known = foreign
    OPS["foreign/outer"] = known["foreign/outer"]
    found = gw.load(path)
    assert type(found["outer"].op) is known["foreign/outer"]
    assert isinstance(found["outer"].op.inner, UnknownOp)
    assert found["outer"].spec == g["outer"].spec


def test_once_defined_the_ops_run(foreign):
    path, g, known = foreign
    OPS.update(known)
    found = gw.load(path)
    assert_same_numbers(g, found)


def assert_same_numbers(a: gw.Graph, b: gw.Graph) -> None:
    feeds = {"x": np.ones((2, 2), "float32")}
    names = [n.name for n in b.nodes if n.kind == "array" and n.name != "outer"]
    first, second = a.output(feeds, *names), b.output(feeds, *names)
    assert all(np.array_equal(first[n], second[n]) for n in names)


def test_a_newer_op_is_drawn_and_says_which_version_it_needs(foreign):
    path, _, known = foreign
    OPS.update(known)
    older = OPS["foreign/halves"] = type("Older", (Halves,), {"version": 2})
    older.name = "foreign/halves"
    found = gw.load(path)
    with pytest.raises(
        UnsupportedOpError, match="'foreign/halves' has version 3 in the archive, 2"
    ):
        found.output({"x": np.ones((2, 2))}, "scope/halves")


class TestUpgrade:
    """An op whose attribute was called ``scale`` in version 1, and which had no residual then."""

    @pytest.fixture
    def path(self, tmp_path):
        @gw.register("archive/scaled")
        class Scaled(Op):
            """The input times a number."""

            scale: float = gw.attr(1.0, doc="Factor.")

            def infer(self, x):
                return x.with_shape(x.shape)

        g = gw.Graph()
        Scaled(scale=3.0)(g.placeholder("x", (2,)), name="y")
        g.save(tmp_path / "old.gw")
        yield tmp_path / "old.gw"
        del OPS["archive/scaled"]

    @staticmethod
    def redefine(upgrade, dtype="float32"):
        @gw.register("archive/scaled")
        class Scaled(Op):
            """The input times a number, and the number."""

            version, n_public = 2, 1
            factor: float = gw.attr(1.0, doc="Factor.")

            def infer(self, x):
                return x.with_dtype(dtype), gw.TensorSpec(())

            def forward(self, x):
                return x * np.float32(self.factor), np.float32(self.factor)

        Scaled.upgrade = classmethod(upgrade)

    def test_attributes_are_converted(self, path):
        seen = []

        def upgrade(cls, attrs, from_version):
            seen.append((dict(attrs), from_version))
            return {"factor": attrs["scale"]}

        self.redefine(upgrade)
        found = gw.load(path)
        assert seen == [({"scale": 3.0}, 1)]
        assert found.output({"x": [1.0, 2.0]}, "y")["y"].tolist() == [3.0, 6.0]
        assert [str(t.spec) for t in found["y"].node.outputs] == ["f32[2]", "f32[]"]

    def test_an_upgrade_that_fails_is_an_error_of_the_archive(self, path):
        self.redefine(lambda cls, attrs, from_version: {"factor": attrs["gone"]})
        refused(path, "'y': archive/scaled refuses its attributes: 'gone'")

    def test_visible_outputs_must_stay_what_they_were(self, path):
        self.redefine(lambda cls, attrs, from_version: {"factor": 1.0}, "int64")
        refused(path, r"'y': archive/scaled infers other specs[\s\S]*got i64\[2\]")


def test_an_op_redefined_without_a_new_version_says_what_to_do(path):
    held = OPS["archive/halves"]

    class Other(Halves):
        def infer(self, x):
            return x.with_shape((7,)), x.with_shape((7,))

    Other.name = "archive/halves"
    OPS["archive/halves"] = Other
    try:
        refused(path, r"'halves': archive/halves infers other specs[\s\S]*raise its version")
    finally:
        OPS["archive/halves"] = held

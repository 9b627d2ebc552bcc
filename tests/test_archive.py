"""The graph archive: what is saved comes back to the bit, and is mapped where it lies."""

from __future__ import annotations

import json
import math
import os
import struct
import sys
import zipfile
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import safetensors as safetensors_library

import gradwright as gw
from gradwright.catalogue import load as load_catalogue
from gradwright.errors import DTypeError, GraphError
from gradwright.gradient import Pullback
from gradwright.graph import Source
from gradwright.op import OPS, Op
from gradwright.spec import BOXED, FLOATS, Dim, dtype, dtype_name, is_floating, spec_of
from gradwright.testing import samples
from tests.archives import Halves, Holder, Mode, assert_same, forge_document, members, rich, run

DTYPES = [
    *FLOATS,
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("int4", "uint4", "int2", "uint2", "complex64", "complex128", "bool"),
]
BITS = {name: int(name[-1]) for name in DTYPES if name[-4:] in ("int2", "int4")}
BITS |= {"float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6}
SHAPES = [(), (0,), (3, 0, 2), (1,), (5, 7)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "graph.gw"


def random_bits(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array of any bit patterns: NaN payloads, subnormals, negative zeros."""
    if name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    kind = dtype(name)
    data = np.frombuffer(rng.bytes(math.prod(shape) * kind.itemsize), np.uint8)
    return (data & (1 << BITS.get(name, 8)) - 1).view(kind).reshape(shape)


# -- round trips -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mapped", [False, True])
def test_a_rich_graph_comes_back_to_the_bit(path, rng, mapped):
    g = rich(rng)
    g.save(path)
    found = gw.load(path, mmap=mapped)
    assert_same(g, found)
    expected, got = run(g), run(found)
    assert len(got) > 10 and all(np.array_equal(expected[k], got[k]) for k in got)


def test_saving_again_gives_the_same_bytes(path, tmp_path, rng):
    g = rich(rng)
    state = {"optimizer": {"m": rng.standard_normal(3), "step": np.int64(4)}, "ema": {}}
    gw.save(g, path, state=state, max_shard_bytes=64)
    again = tmp_path / "again.gw"
    gw.save(g, again, state=state, max_shard_bytes=64)
    assert again.read_bytes() == path.read_bytes()
    state = {name: gw.load_state(path, name) for name in gw.inspect(path).states}
    gw.save(gw.load(path, mmap=True), path, state=state, max_shard_bytes=64)  # over what is mapped
    assert again.read_bytes() == path.read_bytes()


def test_work_goes_on_after_loading(path, rng):
    g = rich(rng)
    g.save(path)
    found = gw.load(path)
    assert found.next_stream() == g.next_stream() == 1
    with found.scope("deep"):
        assert (found["x"] * 2.0).name == "deep/mul"
    assert found.freeze("deep/*") == ["deep/er/w", "deep/er/frozen"]
    before = [gw.gradients(h["top"].sum(), [h["deep/er/w"]])[0] for h in (g, found)]
    twice = [gw.gradients(d.sum(), [d.graph["x"]])[0].name for d in before]
    values = [run(h)[n] for h, n in zip((g, found), twice, strict=True)]
    assert np.array_equal(*values) and values[0].any()


def test_sessions_run_and_train_a_loaded_graph(path, rng):
    g = rich(rng)
    g.save(path)
    results = []
    for graph in (g, gw.load(path), gw.load(path, mmap=True)):
        feeds = {"x": rng.standard_normal((3, 4)) * 0 + 0.5, "flag": True}
        with gw.Session(graph, seed=3) as session:
            session.run(["top"], feeds, updates=graph.updates)
            results.append((session.run(["top"], feeds), graph.values["steps"]))
    assert results[0][1] == 8
    for fetched, steps in results[1:]:
        assert np.array_equal(fetched, results[0][0]) and steps == 8


def test_an_edited_and_renamed_graph_keeps_its_order(path):
    g = gw.Graph()
    x = g.placeholder("x", (3,))
    y = gw.exp(x, name="y")
    with g.edit() as e:
        e.insert_after(x, lambda t: t * 2.0)  # y now reads a node made after it
    y.rename("first/why")
    g.save(path)
    found = gw.load(path)
    assert [n.name for n in found.nodes] == ["x", "first/why", "constant", "mul"]
    assert_same(g, found)


@pytest.mark.parametrize("name", ["__metadata__", "größe", "a b", "0", "日本/語"])
def test_any_name_a_node_can_have_is_kept(path, name):
    g = gw.Graph(name)
    g.variable(name, init=[1.0, 2.0])
    gw.save(g, path, state={"s": {name: [1], f":{name}": [2], f"::{name}": [3]}})
    assert gw.load(path).values[name].tolist() == [1.0, 2.0]
    found = gw.load_state(path, "s")
    assert {k: v.tolist() for k, v in found.items()} == {
        name: [1], f":{name}": [2], f"::{name}": [3],
    }  # fmt: skip


def test_symbolic_dimensions_are_read_back(path):
    g = gw.Graph()
    named = g.placeholder("x", ("B", None, "if", 3))
    sizes = named.shape
    for i, d in enumerate(
        [sizes[0] * 2 - 1, 2 * (sizes[0] // 2) + 1, (sizes[1] - 3) // 2 * sizes[0]]
    ):
        g.placeholder(f"{i}", (d, None))
    g.placeholder("x²", (None,))
    g.save(path)
    assert_same(g, gw.load(path))


def test_symbols_made_later_differ_from_those_loaded(path):
    g = gw.Graph()
    g.placeholder("x", (Dim.fresh("size"),))
    g.placeholder("z", (Dim.fresh("me/op"),))
    g.save(path)
    text = members(path)["graph.json"].decode()
    number = int(text.partition("size__")[2].partition("]")[0])
    g.placeholder("y", (Dim.symbol(f"size__{number + 1000}"),))
    g.save(path)
    gw.load(path)
    assert int(str(Dim.fresh("size")).rpartition("_")[2]) > number + 1000


def test_known_values_survive_where_an_op_is_unknown(path):
    @gw.register("archive/shape")
    class Shape(Op):
        """The shape, known early."""

        def infer(self, x):
            return gw.TensorSpec((x.rank,), "int64", np.array(x.shape, object))

    g = gw.Graph()
    y = g.placeholder("y", ("B", 6)).reshape(Shape()(g.placeholder("x", ("B", 2, 3))))
    g.save(path)
    del OPS["archive/shape"]
    found = gw.load(path)
    assert found[y.name].shape == (Dim.symbol("B"), 2, 3)
    assert_specs_equal(g, found)


def assert_specs_equal(a, b):
    for m, n in zip(a.all_nodes, b.all_nodes, strict=True):
        assert [t.spec.key() for t in m.outputs] == [t.spec.key() for t in n.outputs]


def test_a_long_chain_is_saved_and_loaded_without_recursion(path):
    g = gw.Graph()
    y = g.placeholder("x", (2,))
    for _ in range(100_000):
        y = -y
    g.save(path)
    found = gw.load(path)
    assert len(found.nodes) == 100_001 and found.nodes[-1].name == y.name
    assert gw.inspect(path).ops == {"neg": 100_000}


# -- the derived layer -----------------------------------------------------------------------------


def test_gradients_are_not_saved_unless_the_users_nodes_need_them(path):
    g = gw.Graph()
    x = g.placeholder("x", ())
    w, v = g.variable("w", (), init=2.0), g.variable("v", (), init=3.0)
    y = gw.exp(x * w) * v
    dw, _ = gw.gradients(y, [w, v])
    assert g.derived
    g.save(path)
    assert gw.load(path).derived == []
    penalty = dw * dw
    g.save(path)
    found = gw.load(path)
    kept = {n.name for n in found.derived}
    assert {dw.name} <= kept < {n.name for n in g.derived}
    assert found[dw.name].node.origin is found[g[dw.name].node.origin.name].node
    assert found.output({"x": 0.5}, penalty.name) == g.output({"x": 0.5}, penalty.name)


# -- control flow ----------------------------------------------------------------------------------


def test_nested_graphs_are_equal_ops_with_equal_gradients(path, rng):
    g = rich(rng)
    g.save(path)
    found = gw.load(path)
    first, second = g["choice"].op, found["choice"].op
    assert first == second and first is not second
    for graph in (g, found):
        y = graph["choice"]
        (dx,) = gw.gradients(y.sum(), [graph["x"]])
        gw.gradients((dx * dx).sum(), [graph["deep/er/w"]])[0].rename("second")
    assert np.array_equal(run(g)["second"], run(found)["second"])


def test_a_branch_shared_by_two_ops_is_stored_once(path):
    g = gw.Graph()
    x, p = g.placeholder("x", ()), g.placeholder("p", (), "bool")
    y = gw.cond(p, lambda: x * 2.0, lambda: -x)
    y.op(p, x)
    g.save(path)
    found = gw.load(path)
    assert len(json.loads(members(path)["graph.json"])["graphs"]) == 2
    assert found["cond"].op.then_branch is found["cond_1"].op.then_branch


# -- every op --------------------------------------------------------------------------------------

load_catalogue()
SAMPLED = sorted(n for n, c in OPS.items() if "/" not in n and not issubclass(c, Source | Pullback))


@pytest.mark.parametrize("name", SAMPLED)
def test_every_op_is_saved_with_its_samples_and_gradients(path, name):
    g = gw.Graph()
    for i, sample in enumerate(samples(OPS[name])):
        arrays = [None if x is None else np.asarray(x) for x in sample.inputs]
        xs = [None if a is None else g.placeholder(f"x{i}_{j}", spec_of(a)) if a.dtype == BOXED
              else g.constant(a) if a.dtype.kind in "iu" else
              g.variable(f"x{i}_{j}", init=a) for j, a in enumerate(arrays)]  # fmt: skip
        with g:
            g.add(OPS[name](**sample.attrs), xs, f"y{i}")
        ys = [t for t in g[f"y{i}"].node.public if sample.smooth and is_floating(t.dtype)]
        chosen = sample.differentiate or range(len(xs))
        wrt = [x for j, x in enumerate(xs)
               if x is not None and is_floating(x.dtype) and j in chosen]  # fmt: skip
        if ys and wrt:
            for dx in gw.gradients([t * 1.0 for t in ys], wrt, unreachable="zero"):
                dx + 0.0
    g.save(path)
    assert_same(g, gw.load(path))


# -- attributes ------------------------------------------------------------------------------------

floats = st.floats() | st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf])
dims = st.sampled_from([Dim.symbol("B"), Dim.symbol("B") * 2 - 1, (Dim.symbol("T") + 1) // 2 * 3])
leaves = (
    st.none() | st.booleans() | st.integers() | floats | st.text() | dims
    | st.sampled_from([dtype(name) for name in DTYPES])
    | st.sampled_from([Mode.EXACT, Halves(), Holder(value=(-0.0, Mode.EXACT))])
)  # fmt: skip
attributes = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4).map(tuple))


@hypothesis.settings(max_examples=80)
@hypothesis.given(value=attributes)
def test_attributes_come_back_by_type_and_bits(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("attributes") / "graph.gw"
    g = gw.Graph()
    op = Holder(value=(value, Holder(value=value)), mode=Mode.FAST)
    op(g.placeholder("x", ()), name="y")
    g.save(path)
    assert gw.load(path)["y"].op == op


@pytest.mark.parametrize(
    ("value", "why"),
    [("\ud800", "JSON"), (10**5000, "JSON"), (np.dtype("S3"), "dtype"), (OPS, "attribute")],
    ids=["half a character", "endless", "bytes", "dict"],
)
def test_attributes_that_cannot_be_stored_name_the_node(path, value, why):
    g = gw.Graph()
    with pytest.raises(GraphError, match=why):
        Holder(value=value)(g.placeholder("x", ()), name="here")
        g.save(path)
    assert not path.exists()


def test_an_enum_must_be_findable_without_an_import(path):
    import enum

    other = enum.Enum("Other", "A B")
    g = gw.Graph()
    Holder(value=other.A)(g.placeholder("x", ()), name="here")
    with pytest.raises(GraphError, match=r"here[\s\S]*Other.A could not be found[\s\S]*choices"):
        g.save(path)


def test_an_op_that_is_not_registered_is_refused_with_the_way_out(path):
    class Softcap(Halves):
        pass

    g = gw.Graph()
    Softcap()(g.placeholder("x", ()), name="here")
    with pytest.raises(GraphError, match=r"'here'[\s\S]*gw.register\(\"me/softcap\"\)\(Softcap\)"):
        g.save(path)
    gw.register("archive/softcap")(Softcap)
    g.save(path)
    assert type(gw.load(path)["here"].op) is Softcap


# -- arrays ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("name", DTYPES)
def test_arrays_of_every_dtype_come_back_to_the_bit(path, rng, name, mapped):
    g = gw.Graph()
    arrays = {f"a{i}": random_bits(rng, name, shape) for i, shape in enumerate(SHAPES)}
    for key, array in arrays.items():
        g.variable(key, init=array)
        g.constant(array, name=f"constant/{key}")
    wide = random_bits(rng, name, (4, 6))
    odd = {
        "strided": wide[::2, ::-3],
        "transposed": wide.T,
        "repeated": np.broadcast_to(wide, (2, 4, 6)),
    }
    gw.save(g, path, state={"state": arrays | odd})
    found = gw.load(path, mmap=mapped)
    for key, array in arrays.items():
        for held in (found.values[key], found.values[f"constant/{key}"]):
            assert held.dtype == array.dtype and held.shape == array.shape
            assert held.tobytes() == array.tobytes()
    for key, array in gw.load_state(path, "state", mmap=mapped).items():
        expected = (arrays | odd)[key]
        assert array.shape == expected.shape and array.tobytes() == expected.tobytes()


def test_members_are_what_the_safetensors_library_reads(path, rng):
    arrays = {name: random_bits(rng, name, (3, 5)) for name in DTYPES}
    gw.save(gw.Graph(), path, state={"all": arrays})
    data = members(path)["state/all/00001-of-00001.safetensors"]
    read = {n: t for n, t in safetensors_library.deserialize(data) if not n.startswith(":pad:")}
    codes = {
        "bool": "BOOL",
        "bfloat16": "BF16",
        "float8_e4m3fn": "F8_E4M3",
        "float8_e5m2": "F8_E5M2",
        "float8_e4m3fnuz": "F8_E4M3FNUZ",
        "float8_e5m2fnuz": "F8_E5M2FNUZ",
        "float8_e8m0fnu": "F8_E8M0",
        **dict.fromkeys(BITS, "U8"),
    }
    assert read.keys() == arrays.keys()
    for name, tensor in read.items():
        assert tensor["data"] == arrays[name].tobytes()
        if name.startswith("complex"):
            assert tensor["shape"] == [3, 5, 2]
            assert tensor["dtype"] == {"complex64": "F32", "complex128": "F64"}[name]
        else:
            assert tensor["shape"] == [3, 5]
            short = name[0].upper() + name.lstrip("abcdefghijklmnopqrstuvwxyz")
            assert tensor["dtype"] == codes.get(name, short)
    header = json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]])
    assert header["__metadata__"]["complex"] == "complex64\ncomplex128"
    assert header["__metadata__"]["narrow"].split("\n") == [f"{n} {n}" for n in arrays if n in BITS]


@pytest.mark.parametrize("mapped", [False, True])
def test_shards_hold_what_was_asked(path, rng, mapped):
    g = gw.Graph()
    for i, size in enumerate([10, 10, 10, 500, 10, 0]):
        g.variable(f"v{i}", init=rng.standard_normal(size))
    gw.save(g, path, max_shard_bytes=256)
    shards = gw.inspect(path).shards
    assert [list(s.tensors) for s in shards] == [["v0", "v1"], ["v2"], ["v3"], ["v4", "v5"]]
    assert shards[0].member == "values/00001-of-00004.safetensors"
    assert_same(g, gw.load(path, mmap=mapped))


def test_mapped_arrays_lie_in_the_file(path, rng):
    g = gw.Graph()
    for i, size in enumerate([3, 1000, 7]):
        g.variable(f"w{i}", init=rng.standard_normal(size))
    gw.save(
        g,
        path,
        state={"odd": {"a": np.ones(5, "int8"), "b": np.array(1 + 2j)}},
        max_shard_bytes=9000,
    )
    found = gw.load(path, mmap=True)
    arrays = {**found.values, **gw.load_state(path, "odd", mmap=True)}
    for array in arrays.values():
        assert array.__array_interface__["data"][0] % 64 == 0
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    start = path.read_bytes().index(g.values["w1"].tobytes())
    with path.open("r+b") as file:  # what is written to the file shows: nothing was copied
        file.seek(start)
        file.write(np.float64(42.0).tobytes())
    assert arrays["w1"][0] == 42.0 and arrays["w1"][1] == g.values["w1"][1]
    found.values["w1"] = np.zeros(1000)
    assert found.values["w1"].sum() == 0


def test_loaded_arrays_are_copies_unless_mapped(path):
    g = gw.Graph()
    g.variable("w", init=np.ones(1000))
    g.save(path)
    found = gw.load(path)
    path.write_bytes(b"")
    assert found.values["w"].sum() == 1000


def test_what_could_not_be_read_again_is_not_written(path, monkeypatch):
    g = gw.Graph()
    g.variable("w", init=np.ones(3))
    monkeypatch.setattr("gradwright.io.archive.MAX_JSON", 100)
    with pytest.raises(GraphError, match="limit 100"):
        g.save(path)
    monkeypatch.undo()
    monkeypatch.setattr("gradwright.io.tensors.MAX_HEADER", 10)
    with pytest.raises(GraphError, match="max_shard_bytes"):
        g.save(path)
    assert not path.exists()


def test_state_is_checked_before_anything_is_written(path):
    with pytest.raises(DTypeError, match="state 'optimizer', 'm'"):
        gw.save(gw.Graph(), path, state={"optimizer": {"m": ["text"]}})
    with pytest.raises(GraphError, match="cannot name a state"):
        gw.save(gw.Graph(), path, state={"../m": {}})
    with pytest.raises(GraphError, match="printable"):
        gw.save(gw.Graph(), path, state={"m": {"a\nb": [1.0]}})
    with pytest.raises(GraphError, match="max_shard_bytes"):
        gw.save(gw.Graph(), path, max_shard_bytes=0)
    assert not path.exists()


# -- the file --------------------------------------------------------------------------------------


def test_a_failed_save_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    g = gw.Graph()
    g.variable("w", init=np.ones(3))
    g.save(path)
    before = path.read_bytes()

    def full(*args):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space"):
            g.save(path)
        patch.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="no space"):
            g.save(path)
    assert path.read_bytes() == before and [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_permissions_are_those_of_the_umask_or_of_the_old_file(path):
    held = os.umask(0o027)
    try:
        gw.Graph().save(path)
    finally:
        os.umask(held)
    assert path.stat().st_mode & 0o777 == 0o640
    path.chmod(0o600)
    gw.Graph().save(path)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.name != "posix", reason="symbolic links of POSIX")
def test_saving_through_a_link_replaces_the_file_it_points_to(path, tmp_path):
    link = tmp_path / "latest.gw"
    link.symlink_to(path)
    gw.Graph("linked").save(str(link))
    assert link.is_symlink() and gw.load(path).name == "linked"


def test_archives_beyond_four_gigabytes_use_zip64(path, rng, monkeypatch):
    g = rich(rng)
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)  # what is larger gets 64-bit fields
    g.save(path)
    assert path.read_bytes().count(b"PK\6\6") == 1  # a ZIP64 end of the directory
    monkeypatch.undo()
    assert_same(g, gw.load(path))
    assert_same(g, gw.load(path, mmap=True))


def test_inspect_tells_all_without_reading_arrays(path, rng, monkeypatch):
    g = rich(rng)
    gw.save(g, path, state={"optimizer": {"m": np.zeros(3, "float16")}})
    size = path.stat().st_size

    def no_arrays(*args):
        raise AssertionError("inspect read an array")

    monkeypatch.setattr("gradwright.io.container.Stream", no_arrays)
    monkeypatch.setattr("gradwright.io.container.Reader.map", no_arrays)
    info = gw.inspect(path)
    assert info.ops["archive/noise"] == 1 and info.ops["cond"] >= 2  # one inside the other
    assert {k: str(s) for k, s in info.placeholders.items()} == {"x": "f64[B, 4]", "flag": "bool[]"}
    assert {k: str(s) for k, s in info.variables.items()} == {
        "deep/er/w": "f64[4, 3]", "deep/er/frozen": "f64[3]", "steps": "i64[]",
    }  # fmt: skip
    assert info.trainable == ("deep/er/w",) and info.states == ("optimizer",)
    assert info.dtypes["float16"] == 6 and info.nbytes == size
    text = repr(info)
    assert "x f64[B, 4], flag bool[]" in text and "12 elements trainable" in text
    assert "state/optimizer/00001-of-00001.safetensors" in text
    assert max(map(len, text.splitlines())) < 200


def test_loading_imports_nothing(path):
    g = gw.Graph()
    Halves()(g.placeholder("x", ()))
    g.save(path)
    for name in ("this", "this/Printer", "os/system", "builtins.eval"):
        forge_document(path, lambda d, name=name: d["nodes"][1].update(op=name))
        assert gw.load(path).nodes[1].op.name == name
    assert "this" not in sys.modules


def test_every_dtype_of_gradwright_is_tested():
    from gradwright import spec

    assert {dtype_name(d) for d in spec._DTYPES.values()} == {*DTYPES, "str"}  # by_reference tests

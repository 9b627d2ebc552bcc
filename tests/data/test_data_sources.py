"""Sources of data: files, tables and what other libraries hold; all resume to the same batches."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gradwright as gw
from gradwright.data import batches, order
from gradwright.errors import FeedError
from tests.support.data_sets import plain

N = 37
A = np.arange(N) * 1.5
B = np.arange(N)
T = np.arange(N) % 4


@pytest.fixture(scope="module")
def pd():
    return pytest.importorskip("pandas", reason="no pandas: pip install -e '.[data]'")


@pytest.fixture(scope="module")
def pa():
    pytest.importorskip("pyarrow.parquet", reason="no pyarrow: pip install -e '.[data]'")
    return pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def hf():
    return pytest.importorskip("datasets", reason="no datasets: pip install -e '.[data]'")


def resumes(make, epochs=(0, 2)):
    """Check that a new data set gives any rest of any epoch, and return the first epoch."""
    first, again = make(), make()
    assert first.signature() == again.signature()
    for epoch in epochs:
        whole = plain(first.epoch(epoch))
        for skip in range(len(whole) + 1):
            assert plain(again.epoch(epoch, skip)) == whole[skip:]
    return plain(first.epoch(0))


def reference(seed=None, epoch=0, size=8):
    """Return the batches of a dict of arrays."""
    data = gw.data.dataset({"a": A, "b": B, "t": T})
    return plain((data if seed is None else data.shuffle(seed)).batch(size).epoch(epoch))


# -- files -----------------------------------------------------------------------------------------


def test_memory_maps_stay_on_disk_and_give_the_rows_of_arrays(tmp_path):
    x = np.random.default_rng(0).normal(size=(N, 3))
    np.save(tmp_path / "x.npy", x)
    T.astype("int32").tofile(tmp_path / "t.bin")
    maps = {
        "x": gw.data.memmap(tmp_path / "x.npy"),
        "t": gw.data.memmap(str(tmp_path / "t.bin"), "int32"),
    }
    assert all(isinstance(m, np.memmap) for m in maps.values())
    g = gw.Graph()
    needed = [g.placeholder("x", (None, 3)), g.placeholder("t", (None,), "int64")]
    for shuffle in (False, True):
        options = {"shuffle": shuffle, "seed": 4}
        disk = batches(g, maps, needed, 8, **options)
        memory = batches(g, {"x": x, "t": T}, needed, 8, **options)
        for (got, n), (expected, m) in zip(disk.epoch(1, 2), memory.epoch(1, 2), strict=True):
            assert n == m
            for t in needed:
                np.testing.assert_array_equal(got[t], expected[t])
                assert got[t].dtype == t.dtype
    assert isinstance(disk._data.source.source.arrays[needed[0]], np.memmap)
    resumes(lambda: gw.data.dataset(maps).shuffle(3).batch(8))


def test_plain_files_say_what_does_not_fit(tmp_path):
    path = tmp_path / "numbers.bin"
    np.arange(7, dtype="uint16").tofile(path)
    assert gw.data.memmap(path, "uint16", offset=2).tolist() == [1, 2, 3, 4, 5, 6]
    assert gw.data.memmap(path, "uint16", (-1, 7)).shape == (1, 7)
    np.save(tmp_path / "x.npy", np.zeros(3))
    np.save(tmp_path / "o.npy", np.array([{}], object), allow_pickle=True)
    for options, message in (
        ({}, "numbers.bin does not say what its numbers are"),
        ({"dtype": "int32"}, "holds 14 bytes(.|\n)*a multiple of 4"),
        ({"dtype": "uint16", "offset": 14}, "holds 0 bytes beyond offset 14"),
        ({"dtype": "uint16", "shape": (2, 5)}, r"holds 7 numbers(.|\n)*shape \(2, 5\)"),
    ):
        with pytest.raises(FeedError, match=message):
            gw.data.memmap(path, **options)
    with pytest.raises(FeedError, match=r"x.npy is float64(.|\n)*need: int32"):
        gw.data.memmap(tmp_path / "x.npy", "int32")
    with pytest.raises(FeedError, match="is no array"):
        gw.data.memmap(tmp_path / "o.npy")
    with pytest.raises(FileNotFoundError):
        gw.data.memmap(tmp_path / "none.npy")


def test_windows_are_slices_and_what_follows_them():
    tokens = np.arange(20) ** 2
    data = gw.data.windows(tokens, 4, stride=3, names=("ids", "next"))
    assert data.n == len(range(0, 20 - 4, 3))
    everything = data.rows(0, slice(0, data.n))
    for i, (ids, following) in enumerate(zip(everything["ids"], everything["next"], strict=True)):
        assert ids.tolist() == tokens[3 * i :][:4].tolist()
        assert following.tolist() == tokens[3 * i + 1 :][:4].tolist()
    assert gw.data.windows(tokens, 19).n == 1
    for wrong in (20, 25):
        with pytest.raises(FeedError, match=f"at least {wrong + 1} tokens"):
            gw.data.windows(tokens, wrong)


# -- tables ----------------------------------------------------------------------------------------


def test_data_frames_give_the_rows_of_their_columns(pd):
    frame = pd.DataFrame({"a": A, "b": B, "t": T}, index=range(100, 100 + N))
    assert resumes(lambda: gw.data.dataset(frame).batch(8)) == reference()
    assert resumes(lambda: gw.data.dataset(frame).shuffle(6).batch(8)) == reference(6)
    mixed = pd.DataFrame(
        {
            "text": ["x", "yy"],
            "kind": pd.Categorical(["u", "v"]),
            "lists": [[1, 2], [3, 4]],
            "ragged": [[1], [2, 3]],
            "nullable": pd.array([1, 2], "Int64"),
            "hole": pd.array([1.5, None], "Float64"),
            "nan": [np.nan, 1.0],
        }
    )
    assert gw.data.dataset(frame["a"], names=["a"]).rows(0, slice(1, 3))["a"].tolist() == [1.5, 3.0]
    columns = gw.data.dataset(mixed).rows(0, slice(0, 2))
    assert columns["text"].tolist() == ["x", "yy"] and columns["kind"].tolist() == ["u", "v"]
    assert columns["lists"].tolist() == [[1, 2], [3, 4]]
    assert [len(r) for r in columns["ragged"]] == [1, 2]
    assert columns["nullable"].dtype == "int64" and columns["hole"].dtype == "float64"
    assert np.isnan(columns["hole"][1]) and np.isnan(columns["nan"][0])


def test_missing_values_are_named(pd, pa):
    for frame in (
        pd.DataFrame({"n": pd.array([1, 2, None], "Int64")}),
        pd.DataFrame({"n": ["a", "b", None]}),
        pa.table({"n": pa.array([1, 2, None])}),
        pa.table({"n": pa.array(["a", "b", None])}),
    ):
        with pytest.raises(FeedError, match="column 'n' has no value in row 2"):
            gw.data.dataset(frame)
    nested = pa.table({"n": pa.array([[1], [2, 3], [4, None]])})
    fixed = pa.table({"n": pa.array([[1, 2], [3, 4], [5, None]], pa.list_(pa.int8(), 2))})
    for table in (nested, fixed, pa.concat_tables([nested.slice(0, 1), nested.slice(1)])):
        with pytest.raises(FeedError, match="column 'n' has no value in row 2"):
            gw.data.dataset(table)
    with pytest.raises(FeedError, match="several columns called 'n'"):
        gw.data.dataset(pd.DataFrame([[1, 2]], columns=["n", "n"]))
    with pytest.raises(FeedError, match="the data is empty"):
        gw.data.dataset(pd.DataFrame({"n": []}))


def test_a_frame_trains_as_its_arrays_do(pd):
    g = gw.Graph()
    x, t = g.placeholder("x", (None, 2)), g.placeholder("t", (None,))
    w = g.variable("w", (2,))
    loss = gw.mean((x @ w - t) ** 2.0)
    frame = pd.DataFrame({"a": A / N, "b": B / N, "t": T})
    with pytest.raises(FeedError, match="no placeholder 'a'"):
        gw.Trainer(g, loss).fit(frame, progress=False)
    results = []
    for data in (
        gw.data.dataset(frame).columns("t", x=["a", "b"]),
        {"x": np.stack([A, B], -1) / N, "t": T},
    ):
        session = gw.Session(g, deterministic=True, seed=0)
        g.values["w"] = [0.0, 0.0]
        trainer = gw.Trainer(g, loss, gw.optim.SGD(0.1), session=session)
        trainer.fit(data, epochs=2, batch_size=8, progress=False)
        results.append(trainer.values["w"].tobytes())
    assert results[0] == results[1]


def test_arrow_tables_give_the_rows_of_their_columns(pa):
    table = pa.table({"a": A, "b": B, "t": T})
    parts = pa.concat_tables([table.slice(0, 5), table.slice(5)])
    assert resumes(lambda: gw.data.dataset(parts).shuffle(6).batch(8)) == reference(6)
    mixed = pa.table(
        {
            "fixed": pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2)),
            "lists": [[1.0, 2.0], [3.0, 4.0]],
            "ragged": [[1], [2, 3]],
            "nested": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]],
            "text": ["a", "bc"],
            "codes": pa.array(["u", "v"]).dictionary_encode(),
            "flags": [True, False],
            "hole": pa.array([1.0, None]),
        }
    )
    for data in (mixed, pa.concat_tables([mixed, mixed]).slice(1, 2)):
        columns = gw.data.dataset(data).rows(0, slice(0, 2))
        first = 0 if data is mixed else 1
        assert columns["fixed"][first].tolist() == [1, 2] and columns["fixed"].dtype == "int32"
        assert columns["lists"][1 - first].tolist() == [3.0, 4.0]
        assert [len(r) for r in columns["ragged"]] == [1 + first, 2 - first]
        assert columns["nested"].shape == (2, 2, 2)
        assert sorted(columns["text"].tolist()) == ["a", "bc"]
        assert columns["codes"][first] == "u" and columns["flags"].dtype == bool
        assert np.isnan(columns["hole"][1 - first])
    with pytest.raises(FeedError, match="column 'when' is timestamp"):
        gw.data.dataset(pa.table({"when": pa.array([0], pa.timestamp("s"))}))


@pytest.fixture(scope="module")
def parquet_files(pa, tmp_path_factory):
    """Write the columns to two files of 4 and 6 row groups."""
    folder = tmp_path_factory.mktemp("parquet")
    table = pa.table({"a": A, "b": B, "t": T, "unused": ["text"] * N})
    paths = [folder / "one.parquet", folder / "two.parquet"]
    pa.parquet.write_table(table.slice(0, 16), paths[0], row_group_size=4)
    pa.parquet.write_table(table.slice(16), paths[1], row_group_size=4)
    return paths


def test_parquet_files_give_rows_in_order_and_shuffled(parquet_files):
    def make():
        return gw.data.parquet(parquet_files, ["a", "b", "t"])

    assert resumes(lambda: make().batch(8)) == reference()
    shuffled = resumes(lambda: make().shuffle(6).batch(8))
    rows = list(itertools.chain(*(b["b"] for b in shuffled)))
    assert sorted(rows) == B.tolist() and rows != B.tolist()
    assert make().shuffle(6).where(0, 3) == f"row {rows[3] - 16 * (rows[3] >= 16)} of " + (
        "one.parquet" if rows[3] < 16 else "two.parquet"
    )
    renamed = gw.data.parquet(parquet_files, {"x": ["a", "b"], "t": "t"}).rows(0, slice(15, 18))
    np.testing.assert_array_equal(renamed["x"], np.stack([A, B], -1)[15:18])


def test_parquet_files_of_other_values_have_another_signature(pa, parquet_files, tmp_path):
    again = tmp_path / "again.parquet"
    table = pa.table({"a": A, "b": B, "t": T}).slice(0, 16)
    pa.parquet.write_table(table, again, row_group_size=4, compression="gzip")
    first = gw.data.parquet(parquet_files[0], ["a", "b"]).signature()
    assert gw.data.parquet(again, ["b", "a"]).signature() == first
    pa.parquet.write_table(table.set_column(0, "a", [A[:16] + 1]), again, row_group_size=4)
    assert gw.data.parquet(again, ["a", "b"]).signature() != first
    only = [gw.data.parquet(path, ["b"]).signature() for path in (again, parquet_files[0])]
    assert only[0] == only[1]


def test_parquet_row_groups_are_read_once_and_not_at_all_when_skipped(parquet_files, monkeypatch):
    pq = pytest.importorskip("pyarrow.parquet")
    read, original = [], pq.ParquetFile.read_row_group
    monkeypatch.setattr(
        pq.ParquetFile,
        "read_row_group",
        lambda self, i, **options: read.append(i) or original(self, i, **options),
    )
    for data in (
        gw.data.parquet(parquet_files),
        gw.data.parquet(parquet_files).shuffle(1),
        gw.data.split(gw.data.parquet(parquet_files), 0.2)[0].shuffle(1),
    ):
        read.clear()
        list(data.batch(3).epoch(0))
        assert len(read) == 10
    read.clear()
    list(gw.data.parquet(parquet_files).batch(4).epoch(0, skip=8))
    assert len(read) == 2


def test_parquet_errors_name_file_and_column(pa, parquet_files, tmp_path):
    with pytest.raises(FeedError, match=r"one.parquet has no column 'z'(.|\n)*columns: 'a', 'b'"):
        gw.data.parquet(parquet_files, ["z"])
    other = tmp_path / "other.parquet"
    pa.parquet.write_table(pa.table({"a": [1]}), other)
    with pytest.raises(FeedError, match=r"other\.parquet has no column 'b'"):
        gw.data.parquet([*parquet_files, other])
    pa.parquet.write_table(pa.table({"n": pa.array([*range(9), None])}), other, row_group_size=4)
    with pytest.raises(FeedError, match="column 'n' has no value in row 9"):
        list(gw.data.parquet(other))
    pa.parquet.write_table(pa.table({"a": pa.array([], pa.int64())}), other)
    with pytest.raises(FeedError, match="the data is empty"):
        gw.data.parquet(other)
    with pytest.raises(FileNotFoundError):
        gw.data.parquet(tmp_path / "none.parquet")
    with pytest.raises(FeedError, match="no Parquet file is given"):
        gw.data.parquet([])


# -- torch -----------------------------------------------------------------------------------------


def test_torch_datasets_give_rows_and_loaders_batches(torch):
    utils = torch.utils.data
    tensors = utils.TensorDataset(torch.tensor(A), torch.tensor(B), torch.tensor(T))
    names = ("a", "b", "t")
    assert resumes(lambda: gw.data.dataset(tensors, names).shuffle(6).batch(8)) == reference(6)
    loader = utils.DataLoader(tensors, batch_size=8)
    assert resumes(lambda: gw.data.dataset(loader, names)) == reference()
    assert gw.data.dataset(loader, names).n == 5
    with pytest.raises(FeedError, match="an example is a tuple, not a dict"):
        gw.data.dataset(tensors).rows(0, slice(0, 1))


def test_a_shuffling_loader_resumes_and_leaves_torch_s_random_numbers_alone(torch):
    class Noisy(torch.utils.data.Dataset):
        def __len__(self):
            return N

        def __getitem__(self, i):
            return {"b": i, "noise": torch.rand(())}

    loader = torch.utils.data.DataLoader(Noisy(), batch_size=8, shuffle=True)
    before = torch.get_rng_state()
    first = resumes(lambda: gw.data.dataset(loader, seed=3))
    assert torch.equal(before, torch.get_rng_state())
    rows = list(itertools.chain(*(b["b"] for b in first)))
    assert sorted(rows) == list(range(N)) and rows != list(range(N))
    assert plain(gw.data.dataset(loader, seed=4)) != first
    assert plain(gw.data.dataset(loader, seed=3).epoch(1)) != first


def test_torch_streams_and_samplers_that_know_the_epoch(torch):
    utils = torch.utils.data

    class Stream(utils.IterableDataset):
        def __iter__(self):
            return iter({"b": i} for i in range(N))

    class ByEpoch(utils.Sampler):
        epoch = 0

        def set_epoch(self, epoch):
            self.epoch = epoch

        def __iter__(self):
            return iter(order(0, self.epoch, N).tolist())

        def __len__(self):
            return N

    stream = resumes(lambda: gw.data.dataset(Stream()).shuffle(2, buffer=9).batch(8))
    assert sorted(itertools.chain(*(b["b"] for b in stream))) == list(range(N))
    data = utils.TensorDataset(torch.arange(N))
    loader = utils.DataLoader(data, batch_size=N, sampler=ByEpoch())
    resumes(lambda: gw.data.dataset(loader, ("b",)))
    (third,) = gw.data.dataset(loader, ("b",)).epoch(2)
    assert third["b"].tolist() == order(0, 2, N).tolist()


def test_tensors_that_are_no_arrays_are_named(torch):
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    for tensor in (torch.ones(3, requires_grad=True), torch.ones(3, dtype=torch.bfloat16)):
        with pytest.raises(FeedError, match="column 'x' holds a Tensor, which is no array"):
            list(batches(g, [{"x": tensor}], [x], None).epoch(0))


# -- Hugging Face ----------------------------------------------------------------------------------


def test_hugging_face_datasets_give_rows(hf):
    data = hf.Dataset.from_dict({"a": A, "b": B, "t": T})
    assert resumes(lambda: gw.data.dataset(data).batch(8)) == reference()
    assert resumes(lambda: gw.data.dataset(data).shuffle(6).batch(8)) == reference(6)
    assert gw.data.dataset(data).rows(0, slice(0, 2))["a"].dtype == "float64"
    other = hf.Dataset.from_dict({"a": A + 1, "b": B, "t": T})
    assert gw.data.dataset(data).signature() != gw.data.dataset(other).signature()
    changed = data.with_transform(lambda batch: {"twice": [2 * b for b in batch["b"]]})
    assert gw.data.dataset(changed).rows(0, np.array([3, 1]))["twice"].tolist() == [6, 2]
    images = hf.Dataset.from_dict(
        {"m": [[[1, 2], [3, 4]]] * 2}, features=hf.Features({"m": hf.Array2D((2, 2), "int64")})
    )
    assert gw.data.dataset(images).rows(0, slice(0, 2))["m"].tolist() == [[[1, 2], [3, 4]]] * 2
    chosen = data.select(range(30, 20, -1)).with_format("numpy", columns=["b"])
    assert plain(gw.data.dataset(chosen).batch(20)) == [{"b": list(range(30, 20, -1))}]
    with pytest.raises(FeedError, match="the data is empty"):
        gw.data.dataset(data.select([]))
    holes = gw.data.dataset(hf.Dataset.from_dict({"b": [1, 2, 3, None]}))
    with pytest.raises(FeedError, match="column 'b' has no value in row 3"):
        holes.rows(0, np.array([1, 3]))


def test_hugging_face_streams_give_examples_in_the_order_of_the_epoch(hf):
    data = hf.Dataset.from_dict({"b": B}).to_iterable_dataset(num_shards=3)
    assert gw.data.dataset(data).n is None
    assert resumes(lambda: gw.data.dataset(data).batch(N)) == [{"b": B.tolist()}]
    shuffled = data.shuffle(seed=1, buffer_size=8)
    resumes(lambda: gw.data.dataset(shuffled).batch(8))
    first, second = (plain(gw.data.dataset(shuffled).batch(N).epoch(n))[0]["b"] for n in (0, 1))
    assert sorted(first) == sorted(second) == B.tolist() and first != second

"""Adapters that are served: from disk through memory into slots, without a new plan, and text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.adapters import LoRA, serve
from gradwright.adapters.serving.cache import Counts
from gradwright.errors import ArchiveError, FeedError, GraphError
from gradwright.models import Decoder, DecoderConfig, Temperature, TopK
from tests.adapters.serving import drawn

CONFIG = DecoderConfig(vocabulary=31, width=16, layers=2, heads=2, inner=24, context=64)
IDS = {"ids": np.random.default_rng(0).integers(0, 31, (1, 5))}
Array = np.ndarray[Any, Any]


def base() -> Decoder:
    return drawn.weights(Decoder(CONFIG))


@pytest.fixture(scope="module")
def hundred(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Array]]:
    """A folder of a hundred adapters, and the logits of each alone."""
    folder, model, wanted = tmp_path_factory.mktemp("hundred"), base(), {}
    adapted, rng = gw.adapters.add(model, LoRA(r=2, alpha=4), "q|v"), np.random.default_rng(0)
    with gw.Session(model.graph, kernels="off") as session:
        for i in range(100):
            adapted.load_state(drawn.state(adapted, rng, 0.5))
            gw.adapters.save(adapted, folder / f"a{i:02}", model=model)
            wanted[f"a{i:02}"] = session.run("logits", IDS)[0]
    return folder, wanted


def test_a_hundred_adapters_on_disk_through_eight_slots(hundred: Any) -> None:
    folder, wanted = hundred
    served = serve(base(), folder, slots=8, most=20)
    assert (len(served.names), served.method.r, len(served.memory)) == (100, 2, 0)
    rng = np.random.default_rng(1)
    plans: set[int] = set()
    revision = served.graph.revision
    for _ in range(40):
        rows = rng.choice(served.names, 8, replace=False).tolist()
        rows[rng.integers(8)] = None
        found = served.run("logits", {"ids": np.repeat(IDS["ids"], 8, 0)}, rows=rows)
        for y, name in zip(found, rows, strict=True):
            if name is not None:
                largest = np.abs(wanted[name]).max()
                np.testing.assert_allclose(y, wanted[name], rtol=1e-5, atol=1e-5 * largest)
        plans |= {id(plan) for plan in served.session.plan_cache.values()}
        assert len(served.memory) <= 20 and len(served.slots) <= 8
    assert (len(plans), served.graph.revision) == (1, revision), "adapters were changed by a plan"
    slots, memory = served.counts["slots"], served.counts["memory"]
    assert slots.hits + slots.misses == 40 * 7
    assert memory.hits + memory.misses == slots.misses
    assert slots.evictions == slots.misses - len(served.slots)
    assert memory.evictions == memory.misses - len(served.memory) > 0


def test_memory_is_bounded_by_bytes_and_known_before_reading(hundred: Any) -> None:
    folder, _ = hundred
    one = 2 * 2 * 4 * 2 * 16 * 2  # 2 layers, q and v, A and B, f32, 16 wide, rank 2
    served = serve(base(), folder, most_bytes=3 * one)
    for name in served.names[:6]:
        served.output(IDS, "logits", rows=name)
        assert served.memory.nbytes <= 3 * one
    assert list(served.memory) == ["a03", "a04", "a05"]
    assert served.counts["memory"] == Counts(hits=0, misses=6, evictions=3)
    with pytest.raises(GraphError, match=r"'a09' take 1,024 bytes, and there is room for 9"):
        serve(base(), folder, most_bytes=9).output(IDS, "logits", rows="a09")


def test_what_is_pinned_stays_in_its_slot(hundred: Any) -> None:
    folder, wanted = hundred
    served = serve(base(), folder, slots=2)
    served.pin("a00")
    for name in ("a01", "a02", "a03"):
        served.output(IDS, "logits", rows=name)
    assert list(served.slots) == ["a00", "a03"]
    two = {"ids": np.repeat(IDS["ids"], 2, 0)}
    with pytest.raises(GraphError, match=r"2 slots are wanted at once.*\n.*1 pinned: 'a00'"):
        served.output(two, "logits", rows=["a01", "a02"])
    served.unpin("a00")
    served.output(two, "logits", rows=["a01", "a02"])
    misses = served.counts["slots"].misses
    served.output(two, "logits", rows=["a01", "a02"])
    assert served.counts["slots"].misses == misses
    with pytest.raises(GraphError, match="no adapter is called 'b0'"):
        served.pin("b0")
    served.remove("a01")
    assert "a01" not in served.slots and "a01" not in served.memory
    with pytest.raises(FeedError, match="asks for 'a01'"):
        served.output(IDS, "logits", rows="a01")
    found = served.output(IDS, "logits", rows=["a02"])["logits"][0]
    np.testing.assert_allclose(found, wanted["a02"], rtol=1e-5, atol=1e-5)


def test_a_file_that_changes_is_read_anew_and_one_that_goes_is_served_on(
    hundred: Any, tmp_path: Path
) -> None:
    folder, wanted = hundred
    own = tmp_path / "own"
    own.mkdir()

    def become(name: str) -> None:
        for file in (folder / name).iterdir():
            target = own / file.name
            target.write_bytes(file.read_bytes())
            os.utime(target, ns=(1, int(name[1:]) + 1))  # clocks of files may be coarse

    become("a07")
    served = serve(base(), {"own": own})
    for name in ("a07", "a07", "a31"):
        become(name)
        found = served.output(IDS, "logits", rows="own")["logits"][0]
        np.testing.assert_allclose(found, wanted[name], rtol=1e-5, atol=1e-5)
    assert served.counts["slots"] == Counts(hits=1, misses=2, evictions=0)
    for file in own.iterdir():
        file.unlink()
    found = served.output(IDS, "logits", rows="own")["logits"][0]
    np.testing.assert_allclose(found, wanted["a31"], rtol=1e-5, atol=1e-5)


def test_a_damaged_folder_is_refused_and_the_others_are_served(
    hundred: Any, tmp_path: Path
) -> None:
    folder, wanted = hundred
    bad = tmp_path / "bad"
    bad.mkdir()
    for file in (folder / "a01").iterdir():
        (bad / file.name).write_bytes(file.read_bytes()[:-40])
    served = serve(base(), {"good": folder / "a02"})
    served.add("bad", bad)
    two = {"ids": np.repeat(IDS["ids"], 2, 0)}
    for _ in range(2):
        with pytest.raises(ArchiveError):
            served.output(two, "logits", rows=["good", "bad"])
    found = served.output(IDS, "logits", rows="good")["logits"][0]
    np.testing.assert_allclose(found, wanted["a02"], rtol=1e-5, atol=1e-5)
    assert list(served.slots) == list(served.memory) == ["good"]


def test_folders_of_what_rows_cannot_have_say_what_they_are(hundred: Any, tmp_path: Path) -> None:
    folder, wanted = hundred
    gw.adapters.save(gw.adapters.add(base(), gw.adapters.Bottleneck()), tmp_path / "narrow")
    (tmp_path / "empty").mkdir()
    served = serve(base(), {"narrow": tmp_path / "narrow", "a00": folder / "a00"})
    with pytest.raises(GraphError, match="'narrow' is Bottleneck, and rows cannot differ in that"):
        served.output(IDS, "logits", rows="narrow")
    with pytest.raises(GraphError, match="empty is no adapter"):
        served.add("empty", tmp_path / "empty")
    (found,) = served.output(IDS, "logits", rows="a00")["logits"]
    np.testing.assert_allclose(found, wanted["a00"], rtol=1e-5, atol=1e-5)


def test_folders_and_files_of_llama_cpp(hundred: Any, tmp_path: Path) -> None:
    folder, wanted = hundred
    for name in ("a03", "a04"):
        model = base()
        gw.adapters.save(gw.adapters.load(model, folder / name), tmp_path / f"{name}.gguf")
    served = serve(base(), tmp_path)
    two = {"ids": np.repeat(IDS["ids"], 2, 0)}
    found = served.output(two, "logits", rows=served.names)["logits"]
    for y, name in zip(found, ("a03", "a04"), strict=True):
        np.testing.assert_allclose(y, wanted[name], rtol=1e-5, atol=1e-5)
    with pytest.raises(GraphError, match="a03 is one adapter"):
        serve(base(), folder / "a03")
    (tmp_path / "empty").mkdir()
    with pytest.raises(GraphError, match=r"there are no adapters in .*empty"):
        serve(base(), tmp_path / "empty")


def test_a_smaller_adapter_leaves_nothing_of_a_larger_one() -> None:
    """Slots are overwritten by smaller ranks and by adapters of fewer places: the rest is zero."""

    def state(r: int, where: str, seed: int) -> tuple[LoRA, dict[str, Array]]:
        method = LoRA(r=r, alpha=r)
        adapted = gw.adapters.add(base(), method, where)
        return method, drawn.state(adapted, np.random.default_rng(seed), 1.0)

    large, small = state(4, "q|v", 0), state(1, "v", 1)
    served = serve(base(), {"large": large, "small": small}, slots=1)
    wanted = served.output(IDS, "logits", rows="small")["logits"]
    served.output(IDS, "logits", rows="large")
    large[1]["layer0/q/lora_A"][...] = np.nan  # what was given is not what is served
    assert np.array_equal(served.output(IDS, "logits", rows="small")["logits"], wanted)
    served.add("nan", large)
    assert np.isnan(served.output(IDS, "logits", rows="nan")["logits"]).any()
    assert np.array_equal(served.output(IDS, "logits", rows="small")["logits"], wanted)
    both = serve(base(), {"nan": large, "small": small}, slots=2)
    found = both.output(
        {"ids": np.repeat(IDS["ids"], 3, 0)}, "logits", rows=["nan", "small", None]
    )["logits"]
    assert np.isnan(found[0]).any() and np.isfinite(found[1:]).all()


# -- text ----------------------------------------------------------------------------------------

PROMPTS = [[5, 9, 2], [7], list(range(12)), [30, 1, 1, 4]]
DRAWN = [Temperature(1.1), TopK(20)]


def test_rows_of_different_adapters_generate_together(hundred: Any) -> None:
    folder, _ = hundred
    rows: list[Any] = ["a05", None, "a77", "a05"]
    served = serve(base(), folder, slots=2)
    for sampling in ((), DRAWN):
        together = served.generate(PROMPTS, 12, rows=rows, sampling=sampling, seed=3)
        for i, (prompt, name) in enumerate(zip(PROMPTS, rows, strict=True)):
            model = base()
            if name is not None:
                gw.adapters.load(model, folder / name)
            (alone,) = model.generate([prompt], 12, sampling=sampling, seed=3 + i)
            assert together[i].tokens == alone.tokens
    texts = [row.tokens for row in together]
    streamed: list[list[int]] = [[] for _ in PROMPTS]
    for piece in served.stream(PROMPTS, 12, rows=rows, sampling=DRAWN, seed=3):
        streamed[piece.row].append(piece.token)
    assert streamed == texts


def test_a_stream_keeps_its_slots_and_nobody_waits_for_himself(hundred: Any) -> None:
    folder, _ = hundred
    served = serve(base(), folder, slots=2)
    wanted = served.generate(PROMPTS[:2], 8, rows=["a01", "a02"])
    stream = served.stream(PROMPTS[:2], 8, rows=["a01", "a02"])
    tokens: list[list[int]] = [[], []]
    for n, piece in enumerate(stream):
        tokens[piece.row].append(piece.token)
        if n == 3:
            with pytest.raises(GraphError, match=r"no room for 'a03': all slots are in use"):
                served.generate([[1]], 2, rows="a03")
            served.generate([[1]], 2, rows=["a02"])
    assert tokens == [row.tokens for row in wanted]
    served.generate([[1]], 2, rows="a03")
    stream = served.stream([[1], [2]], 8, rows=["a01", "a02"])
    next(stream)
    stream.close()
    served.generate([[1], [2]], 2, rows=["a04", "a05"])


def test_the_weights_of_the_base_may_change(hundred: Any) -> None:
    folder, _ = hundred
    model = base()
    served = serve(model, folder, slots=2)
    before = served.generate([[1, 2]], 8, rows="a01")[0].tokens
    rng = np.random.default_rng(9)
    other = {v.name: v for v in base().graph.variables}["embed"]
    new = rng.standard_normal([int(n) for n in other.shape], np.float32)
    model.graph.values["embed"] = new
    after = served.generate([[1, 2]], 8, rows="a01")[0].tokens
    fresh = base()
    fresh.graph.values["embed"] = new
    gw.adapters.load(fresh, folder / "a01")
    assert after == fresh.generate([[1, 2]], 8)[0].tokens != before


def test_a_generation_of_its_own_is_served() -> None:
    method = LoRA(r=2)
    adapted = gw.adapters.add(base(), method, "q|v")
    state = drawn.state(adapted, np.random.default_rng(0), 0.5)
    rows = ["a", None, "a", None]
    wanted = serve(base(), {"a": (method, state)}).generate(PROMPTS, 6, rows=rows)
    adapted.load_state(state)
    found = serve(base().generation(), {"a": adapted}).generate(PROMPTS, 6, rows=rows)
    assert [row.tokens for row in found] == [row.tokens for row in wanted]
    graph = gw.Graph()
    gw.identity(graph.placeholder("x", ("B", 2)) @ graph.variable("w", (2, 2)), name="y")
    with pytest.raises(GraphError, match="a Graph does not generate"):
        serve(graph, where="w").generate([[1]], rows=None)

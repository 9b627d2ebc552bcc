"""GGUF files beside transformers: models of theirs are read, files of ours load there."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from gradwright.formats.gguf.mapped import Gguf
from gradwright.formats.gguf.writing import write
from gradwright.models import from_gguf, save_gguf
from tests.models import gguf_of_theirs as theirs
from tests.models.theirs import greedy

pytest.importorskip("gguf")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

IDS = np.random.default_rng(0).integers(3, theirs.VOCABULARY, (2, 24))
LONG = np.random.default_rng(1).integers(3, theirs.VOCABULARY, (1, 48))
LOADED = ["llama", "qwen2", "qwen3", "gemma2", "phi3", "gpt2"]
"""Those that transformers reads as its own files have them; it drops windows of others, biases of
a llama and experts."""


@pytest.fixture(autouse=True)
def quiet():
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    logging.getLogger("transformers").setLevel(logging.ERROR)


def logits_of(model, ids):
    return model.graph.output({"ids": ids}, model.logits)["logits"]


def distance(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


@pytest.mark.parametrize("name", theirs.KINDS)
def test_a_file_gives_the_logits_of_transformers(name, tmp_path):
    their_model = theirs.model(name)
    path = tmp_path / "theirs.gguf"
    theirs.convert(their_model, name, path)
    model = from_gguf(path)
    for ids in (IDS, LONG):
        assert distance(logits_of(model, ids), theirs.logits(their_model, ids)) < 1e-5
    ours = tmp_path / "ours.gguf"
    save_gguf(model, ours)
    assert distance(logits_of(from_gguf(ours), IDS), theirs.logits(their_model, IDS)) < 1e-5


def words(write):
    """Write a tokenizer, whose size transformers takes for that of GPT-2."""
    write.add_tokenizer_model("gpt2")
    write.add_tokenizer_pre("gpt-2")
    write.add_token_list([chr(33 + i) for i in range(theirs.VOCABULARY)])
    write.add_token_merges(["! !"])
    write.add_eos_token_id(2)


@pytest.mark.parametrize("name", LOADED)
def test_a_file_of_ours_loads_in_transformers(name, tmp_path):
    pytest.importorskip("accelerate")
    their_model = theirs.model(name)
    theirs.convert(their_model, name, tmp_path / "theirs.gguf", more=words)
    model = from_gguf(tmp_path / "theirs.gguf")
    for kind in ("f32", "q8_0"):
        save_gguf(model, tmp_path / "ours.gguf", kind=kind)
        load = transformers.AutoModelForCausalLM.from_pretrained
        again = load(tmp_path, gguf_file="ours.gguf", dtype=torch.float32).eval()
        want = logits_of(from_gguf(tmp_path / "ours.gguf"), IDS)
        assert distance(theirs.logits(again, IDS), want) < 1e-5
    assert distance(want, theirs.logits(their_model, IDS)) < 0.1


@pytest.mark.parametrize("name", ["llama", "llama, heads of 32", "mixtral"])
def test_rows_of_queries_in_another_order_talk_nonsense(name, tmp_path):
    """A file that was converted without it has other logits: the test above would see it."""
    their_model = theirs.model(name)
    theirs.convert(their_model, name, tmp_path / "wrong.gguf", permuted=False)
    wrong = logits_of(from_gguf(tmp_path / "wrong.gguf"), IDS)
    assert distance(wrong, theirs.logits(their_model, IDS)) > 0.05


@pytest.mark.parametrize("name", ["mistral", "phi3, window", "gemma2", "llama with biases"])
def test_a_file_without_its_window_or_its_biases_is_another_model(name, tmp_path):
    """So the logits above are proof that they are read and written."""
    their_model = theirs.model(name)
    theirs.convert(their_model, name, tmp_path / "theirs.gguf")
    save_gguf(from_gguf(tmp_path / "theirs.gguf"), tmp_path / "ours.gguf")
    for path in (tmp_path / "theirs.gguf", tmp_path / "ours.gguf"):
        held = Gguf(path)
        keys = {k: v for k, v in held.facts.items() if not k.endswith("sliding_window")}
        arrays = {n: t.data for n, t in held.items() if not n.endswith(".bias")}
        assert len(keys) + len(arrays) < len(held.facts) + len(held)
        write(tmp_path / "less.gguf", keys, arrays)
        less = logits_of(from_gguf(tmp_path / "less.gguf"), LONG)
        if name == "gemma2":  # whose window has a default, far beyond these rows
            assert from_gguf(tmp_path / "less.gguf").config.window == 4096
        assert distance(less, theirs.logits(their_model, LONG)) > 0.01


def test_greedy_tokens_are_those_of_transformers(tmp_path):
    for name in ("llama", "qwen3", "gemma2", "gpt2"):
        their_model = theirs.model(name, seed=3)
        theirs.convert(their_model, name, tmp_path / "m.gguf")
        prompt = IDS[0, :6].tolist()
        (found,) = from_gguf(tmp_path / "m.gguf").generate([prompt], 12)
        assert found.tokens == greedy(their_model, prompt, 12), name

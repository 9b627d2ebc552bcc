"""Folders of Hugging Face against transformers: logits, greedy tokens and training, both ways."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.models import from_pretrained, save_pretrained
from tests.models import random_huggingface
from tests.models import theirs as other

IDS = np.random.default_rng(0).integers(1, 36, (2, 24))


def logits_of(model) -> np.ndarray:
    with gw.Session(model.graph) as session:
        return session.run(model.logits, {"ids": IDS})


def logits_there(theirs) -> np.ndarray:
    torch = other.torch_of()
    with torch.no_grad():
        return theirs(torch.tensor(IDS)).logits.numpy()


@pytest.mark.parametrize("kind", other.KINDS)
def test_a_folder_of_transformers_is_their_model_and_ours_theirs(kind, tmp_path) -> None:
    """Logits within 1e-5 of their size, the same greedy tokens, read, written and read again."""
    theirs = other.model_of(kind)
    model = from_pretrained(other.saved(theirs, tmp_path / "theirs"))
    wanted = logits_there(theirs)
    size = np.abs(wanted).max()
    np.testing.assert_allclose(logits_of(model), wanted, 0, 1e-5 * size)
    prompt = IDS[0, :7].tolist()
    tokens = model.generation(eos=()).generate([prompt], 24)[0].tokens
    assert tokens == other.greedy(theirs, prompt, 24)
    assert list(model.eos) == [36]

    save_pretrained(model, tmp_path / "ours")
    back = other.loaded(tmp_path / "ours")
    assert type(back) is type(theirs)
    np.testing.assert_allclose(logits_there(back), wanted, 0, 1e-6 * size)
    again = from_pretrained(tmp_path / "ours")
    assert again.config == model.config
    np.testing.assert_array_equal(logits_of(again), logits_of(model))


@pytest.mark.parametrize("kind", ["phi3, longrope", "llama, dynamic"])
def test_a_long_prompt_in_chunks_is_that_of_transformers(kind, tmp_path) -> None:
    """All of it turns by how long it is at the end, of which the first chunk is told, too."""
    theirs = other.model_of(kind)
    model = from_pretrained(other.saved(theirs, tmp_path))
    assert model.config.rope_scaling.original_length == 16
    generation, prompts = model.generation(eos=()), [IDS[0].tolist(), IDS[1, :9].tolist()]
    wanted = [other.greedy(theirs, prompt, 16) for prompt in prompts]
    sizes: list[int] = []
    run = generation.run
    generation.run = lambda ids, *rest: sizes.append(ids.shape[1]) or run(ids, *rest)
    for chunk in (5, 7):
        sizes.clear()
        found = generation.generate(prompts, 16, prefill_chunk=chunk)
        assert [row.tokens for row in found] == wanted and max(sizes) == chunk
    with gw.Session(generation.graph) as session:  # what a chunk that is not told makes of it
        session.values.commit({v.name: model.graph.values[v.name] for v in model.graph.variables})
        heads = generation.graph["past"].shape[3], 0, generation.graph["past"].shape[5]
        feeds = {"ids": IDS[:1, :5], "position": [0], "last": [4]}
        feeds["past"] = np.zeros((model.config.layers, 2, 1, *heads), "float32")
        told, not_told = (session.run("present", feeds | {"length": [[n] * 5]}) for n in (24, 5))
    assert np.abs(told - not_told).max() > 0.1 * np.abs(told).max()


@pytest.mark.parametrize("kind", ["llama", "qwen2", "gemma2", "mixtral", "gpt2"])
def test_ten_steps_of_training_are_those_of_transformers(kind, tmp_path) -> None:
    """Losses of ten steps of AdamW, and of ten of plain SGD, from the same weights."""
    torch = other.torch_of()
    rng = np.random.default_rng(5)
    batches = rng.integers(1, 36, (10, 2, 16))
    for ours_by, theirs_by in (
        (gw.optim.AdamW(1e-2, weight_decay=0.01), lambda p: torch.optim.AdamW(p, 1e-2)),
        (gw.optim.SGD(0.1), lambda p: torch.optim.SGD(p, 0.1)),
    ):
        theirs = other.model_of(kind)
        model = from_pretrained(other.saved(theirs, tmp_path / type(ours_by).__name__))
        trainer = gw.Trainer(model.graph, model.loss, ours_by)
        optimizer = theirs_by(theirs.parameters())
        for batch in batches:
            ids = torch.tensor(batch)
            out = theirs(input_ids=ids, labels=ids)
            optimizer.zero_grad()
            out.loss.backward()
            optimizer.step()
            found = trainer.step({"ids": batch, "labels": batch}).metrics["loss"]
            np.testing.assert_allclose(found, out.loss.item(), 1e-4)


def test_packed_rows_are_those_of_transformers(tmp_path) -> None:
    """Positions that begin again in the midst of a row: tokens see their own row only."""
    torch = other.torch_of()
    theirs = other.model_of("llama")
    model = from_pretrained(other.saved(theirs, tmp_path), position_ids=True)
    batch = model.examples([[4, 5, 6, 7, 8, 9], [1, 2], [3, 4, 5, 6]])
    assert batch["position_ids"].tolist() == [[0, 1, 2, 3, 4, 5], [0, 1, 0, 1, 2, 3]]
    with gw.Session(model.graph) as session:
        logits = session.run(model.logits, batch)
    for r in range(2):
        feeds = {name: torch.tensor(batch[name][r : r + 1]) for name in ("ids", "position_ids")}
        with torch.no_grad():
            places = feeds["position_ids"]
            wanted = theirs(feeds["ids"], position_ids=places, use_cache=False).logits.numpy()
        np.testing.assert_allclose(logits[r], wanted[0], 0, 1e-5 * np.abs(wanted).max())


def test_files_of_other_dtypes_and_several_of_them_are_read(tmp_path) -> None:
    torch = other.torch_of()
    theirs = other.model_of("mixtral").to(torch.bfloat16)
    folder = other.saved(theirs, tmp_path / "theirs", max_shard_size="20KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    model = from_pretrained(folder)
    found = model.graph.values["layer1/q"]
    wanted = theirs.model.layers[1].self_attn.q_proj.weight.detach().float().numpy()
    np.testing.assert_array_equal(found, wanted)
    save_pretrained(model, tmp_path / "ours", dtype="bfloat16", max_file_bytes=20_000)
    assert len(list((tmp_path / "ours").glob("*.safetensors"))) > 2
    back = other.loaded(tmp_path / "ours")
    assert back.dtype == torch.bfloat16
    for (name, a), (other_name, b) in zip(
        theirs.named_parameters(), back.named_parameters(), strict=True
    ):
        assert name == other_name
        assert torch.equal(a, b)


def test_tokenizer_and_other_keys_go_along(tmp_path) -> None:
    pytest.importorskip("tokenizers", reason="pip install -e '.[text]'")
    from gradwright.models import Tokenizer

    folder = other.saved(other.model_of("llama"), tmp_path / "theirs")
    import tokenizers

    made = Tokenizer.train(["low lower lowest"], vocabulary=256 + 4, special=["<s>"])
    made.inner.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    made.save(folder / "tokenizer.json")
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 128}')
    model = from_pretrained(folder)
    tokens = model.tokenizer.encode("lower")
    assert tokens == [0, *made.encode("lower")]
    assert model.tokenizer.decode(tokens) == "lower"
    save_pretrained(model, tmp_path / "ours")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "ours" / name).read_bytes() == (folder / name).read_bytes()
    back = other.loaded(tmp_path / "ours")
    assert (back.config.bos_token_id, back.config.eos_token_id) == (1, 36)
    assert back.generation_config.eos_token_id == 36


@pytest.mark.parametrize("seed", range(6))
def test_random_decoders_are_theirs(seed) -> None:
    """A few of the hundreds that ``python -m tests.models.random_huggingface`` tries."""
    other.torch_of()
    assert random_huggingface.problem(seed) == ""

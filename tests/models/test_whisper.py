"""Whisper against transformers: what it hears, logits, greedy tokens, training, both ways."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, FeedError, GraphError
from gradwright.models import SpeechTokens, Whisper, WhisperConfig, from_pretrained, save_pretrained
from gradwright.models.whisper.speech import LANGUAGES
from tests.models import theirs as other

SIZES = {
    **{"vocab_size": 37, "d_model": 24, "encoder_layers": 2, "decoder_layers": 3},
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 3, "num_mel_bins": 8},
    **{"encoder_ffn_dim": 40, "decoder_ffn_dim": 32, "max_source_positions": 20},
    **{"max_target_positions": 24, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 36},
    **{"decoder_start_token_id": 3, "begin_suppress_tokens": [5, 6]},
}
SMALL = WhisperConfig(
    vocabulary=11, width=8, encoder_layers=1, decoder_layers=1, encoder_heads=2, decoder_heads=2,
    encoder_inner=8, decoder_inner=8, bands=4, frames=6, context=12,
)  # fmt: skip
RNG = np.random.default_rng(0)
FEATURES = RNG.standard_normal((2, 8, 40)).astype("float32")
IDS = RNG.integers(1, 36, (2, 9))


def made():
    """Return a Whisper of transformers with weights so large that all parts of it show."""
    other.torch_of()
    import transformers

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = transformers.WhisperConfig(**SIZES)
        theirs = transformers.WhisperForConditionalGeneration(config).eval()
    return other.drawn(theirs, kept="model.encoder.embed_positions.weight")


def logits_of(model) -> np.ndarray:
    with gw.Session(model.graph) as session:
        return session.run(model.logits, {"features": FEATURES, "ids": IDS})


def logits_there(theirs) -> np.ndarray:
    torch = other.torch_of()
    with torch.no_grad():
        ids = torch.tensor(IDS)
        return theirs(torch.tensor(FEATURES), decoder_input_ids=ids).logits.numpy()


def test_a_folder_of_transformers_is_their_model_and_ours_theirs(tmp_path) -> None:
    torch = other.torch_of()
    theirs = made()
    model = from_pretrained(other.saved(theirs, tmp_path / "theirs"))
    wanted = logits_there(theirs)
    np.testing.assert_allclose(logits_of(model), wanted, 0, 1e-5 * np.abs(wanted).max())
    assert (model.start, model.eos, model.suppress_first) == ([3], [36], [5, 6])
    rows = model.generate(list(FEATURES), 18)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.generation_config.return_timestamps = False
        found = theirs.generate(torch.tensor(FEATURES), max_new_tokens=18, do_sample=False)
    for row, there in zip(rows, found.tolist(), strict=True):
        there = there[1:] if there[0] == 3 else there
        n = there.index(36) + 1 if 36 in there else len(there)
        assert row[:n] == there[:n]
        assert len(row) == n
    assert rows[0] != rows[1]
    save_pretrained(model, tmp_path / "ours")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        back = type(theirs).from_pretrained(tmp_path / "ours").eval()
    np.testing.assert_allclose(logits_there(back), wanted, 0, 1e-6 * np.abs(wanted).max())
    assert back.generation_config.begin_suppress_tokens == [5, 6]
    assert from_pretrained(tmp_path / "ours").config == model.config
    info = gw.inspect(tmp_path / "ours")
    assert (info.architecture, info.parameters) == ("whisper", model.n_weights)


def test_ten_steps_of_training_are_those_of_transformers(tmp_path) -> None:
    torch = other.torch_of()
    theirs = made()
    model = from_pretrained(other.saved(theirs, tmp_path))
    model.graph["encoder_positions"].node.trainable = False  # as it is there
    trainer = gw.Trainer(model.graph, model.loss, gw.optim.SGD(0.02))
    optimizer = torch.optim.SGD([p for p in theirs.parameters() if p.requires_grad], 0.02)
    labels = np.roll(IDS, -1, 1)
    labels[0, 6:] = -100
    for _ in range(10):
        out = theirs(
            torch.tensor(FEATURES),
            decoder_input_ids=torch.tensor(IDS),
            labels=torch.tensor(labels),
        )
        optimizer.zero_grad()
        out.loss.backward()
        optimizer.step()
        feeds = {"features": FEATURES, "ids": IDS, "labels": labels}
        np.testing.assert_allclose(trainer.step(feeds).metrics["loss"], out.loss.item(), 1e-4)


def test_tokens_are_those_of_the_training_graph() -> None:
    """A row is written from caches as from all of it at once; sounds do not feel each other."""
    model = Whisper(SMALL, start=[1, 2], suppress=[4], suppress_first=[7, 99])
    rng = np.random.default_rng(3)
    for v in model.graph.variables:
        base = model.graph.values[v.name] if v.spec.rank == 1 else 0.0
        size = 0.1 if v.spec.rank == 1 else 0.2 if v.name == "embed" else 1.5
        model.graph.values[v.name] = base + size * rng.standard_normal(v.shape)
    features = rng.standard_normal((3, 4, 12)).astype("float32")
    rows = model.generate(list(features), 8)
    with gw.Session(model.graph) as session:
        for i, row in enumerate(rows):
            tokens = [1, 2]
            for step in range(8):
                feeds = {"features": features[i : i + 1], "ids": [tokens]}
                scores = session.run(model.logits, feeds)[0, -1].copy()
                scores[[4, 7] if step == 0 else [4]] = -np.inf
                tokens.append(int(scores.argmax()))
            assert row == tokens[2:]
            assert model.generate([features[i]], 8) == [row]
    assert len({tuple(row) for row in rows}) > 1
    ended = Whisper(SMALL, start=[1, 2], eos=[rows[0][3]], suppress=[4], suppress_first=[7])
    ended.graph.values.restore(model.graph.values.snapshot())
    assert ended.generate([features[0]], 8) == [rows[0][: rows[0].index(rows[0][3]) + 1]]
    model.graph.values["embed"] = np.zeros((11, 8))
    assert model.generate([features[0]], 3) == [[0, 0, 0]]


def test_gradients_are_those_of_differences() -> None:
    model = Whisper(SMALL)
    rng = np.random.default_rng(1)
    for v in model.graph.variables:
        model.graph.values[v.name] = model.graph.values[v.name] + 0.2 * rng.standard_normal(v.shape)
    feeds = {
        "features": rng.standard_normal((1, 4, 12)).astype("float32"),
        "ids": np.array([[1, 2, 3]]),
        "labels": np.array([[2, 3, -100]]),
    }
    report = gw.gradient_check(model.graph, model.loss, feeds)
    assert report.passed, report


def test_what_is_none_is_refused(tmp_path) -> None:
    with pytest.raises(GraphError, match="8 is not 3 heads"):
        WhisperConfig(**{**SMALL.__dict__, "decoder_heads": 3})
    for name in ("frames", "encoder_heads", "decoder_heads"):
        with pytest.raises(GraphError, match=f"{name} is 0"):
            WhisperConfig(**{**SMALL.__dict__, name: 0})
    model = Whisper(SMALL)
    with pytest.raises(FeedError, match=r"sound 0 is \(2, 5\)"):
        model.hear([np.zeros((2, 5))])
    with pytest.raises(FeedError, match="there is no sound"):
        model.generate([])
    for arguments, what in (
        ({"max_new_tokens": 12}, "exceed the context"),
        ({"start": []}, "cannot begin with"),
        ({"start": [11]}, "cannot begin with"),
    ):
        with pytest.raises(GraphError, match=what):
            model.generate([np.zeros(9)], **{"max_new_tokens": 3, **arguments})
    with pytest.raises(GraphError, match="there is no tokenizer"):
        model.transcribe([np.zeros(9)])
    save_pretrained(model, tmp_path)
    (tmp_path / "generation_config.json").unlink()
    path = tmp_path / "config.json"
    data = json.loads(path.read_text())
    for keys, what in (
        ({"scale_embedding": True}, "scale_embedding is True"),
        ({"forced_decoder_ids": [1]}, "forced_decoder_ids are none"),
        ({"suppress_tokens": "x"}, "suppress_tokens is str"),
        ({"decoder_attention_heads": 0}, "decoder_heads is 0"),
        ({"encoder_layers": 2}, r"missing: model\.encoder\.layers\.1"),
    ):
        path.write_text(json.dumps({**data, **keys}))
        with pytest.raises(ArchiveError, match=what):
            from_pretrained(tmp_path)


def test_rows_begin_with_what_is_forced(tmp_path) -> None:
    """A language that is to be found out is that of the config, or is left to the caller."""
    save_pretrained(Whisper(SMALL, start=[1]), tmp_path)
    paths = tmp_path / "config.json", tmp_path / "generation_config.json"
    data = [json.loads(path.read_text()) for path in paths]
    data[1]["forced_decoder_ids"] = [[1, None], [2, 5]]
    paths[1].write_text(json.dumps(data[1]))
    assert from_pretrained(tmp_path).start == [1]
    paths[0].write_text(json.dumps({**data[0], "forced_decoder_ids": [[1, 7], [2, 5]]}))
    assert from_pretrained(tmp_path).start == [1, 7, 5]
    for keys, what in (
        ({"lang_to_id": [7]}, "lang_to_id is list"),
        ({"task_to_id": {"transcribe": "5"}}, "task_to_id is '5'"),
        ({"lang_to_id": {"<|en|>": 7}, "language": "fr"}, "no language 'fr'"),
        ({"task": "sing"}, "no task 'sing'"),
        ({"task": 3}, "task is '3'"),
    ):
        paths[1].write_text(json.dumps({**data[1], **keys}))
        with pytest.raises(ArchiveError, match=what):
            from_pretrained(tmp_path)


# -- languages and tasks ---------------------------------------------------------------------------

TOLD = {
    "lang_to_id": {"<|en|>": 10, "<|fr|>": 12, "<|de|>": 11, "<|haw|>": 13},
    "task_to_id": {"translate": 14, "transcribe": 15},
    "no_timestamps_token_id": 16,
    "is_multilingual": True,
    "return_timestamps": False,
}


@pytest.mark.parametrize(
    ("more", "asked", "begun"),
    [
        ({}, {}, [3, None, 16]),
        ({"forced_decoder_ids": [[1, None], [2, 15]]}, {}, [3, None, 15, 16]),
        ({"language": "french", "task": "translate"}, {}, [3, 12, 14, 16]),
        ({}, {"task": "translate"}, [3, None, 14, 16]),
        ({"forced_decoder_ids": [[1, None], [2, 15]]}, {"language": "<|fr|>"}, [3, 12, 15, 16]),
    ],
)
def test_languages_and_tasks_are_those_of_transformers(more, asked, begun, tmp_path) -> None:
    torch = other.torch_of()
    theirs = made()
    for key, value in {**TOLD, **more}.items():
        setattr(theirs.generation_config, key, value)
    model = from_pretrained(other.saved(theirs, tmp_path / "theirs"))
    sounds = np.random.default_rng(4).standard_normal((6, 8, 40)).astype("float32") * 4
    found = theirs.detect_language(torch.tensor(sounds)).tolist()
    codes = {token: name.strip("<|>") for name, token in TOLD["lang_to_id"].items()}
    assert model.detect_language(list(sounds)) == [codes[token] for token in found]
    assert len(set(found)) > 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = theirs.generate(
            torch.tensor(sounds), max_new_tokens=12, do_sample=False, **asked
        ).tolist()
    rows = model.generate(list(sounds), 12, **asked)
    for row, there, language in zip(rows, wanted, found, strict=True):
        prompt = [language if token is None else token for token in begun]
        there = there[len(prompt) :] if there[: len(prompt)] == prompt else there
        assert row == there[: len(row)]
        assert len(row) == 12 or row[-1] == 36
        assert model.generate([sounds[rows.index(row)]], 12, start=prompt) == [row]
    assert len({tuple(row) for row in rows}) > 1
    save_pretrained(model, tmp_path / "ours")
    again = from_pretrained(tmp_path / "ours")
    assert (again.start, again.speech) == (model.start, model.speech)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        back = type(theirs).from_pretrained(tmp_path / "ours").eval()
        back.generation_config.return_timestamps = False
        same = back.generate(torch.tensor(sounds), max_new_tokens=12, do_sample=False, **asked)
    assert same.tolist() == wanted


def test_languages_have_the_names_of_transformers() -> None:
    other.torch_of()
    from transformers.models.whisper.tokenization_whisper import TO_LANGUAGE_CODE

    assert LANGUAGES == TO_LANGUAGE_CODE


def test_a_model_of_one_language_knows_no_other() -> None:
    model, sounds = Whisper(SMALL, start=[1]), [np.zeros(9)]
    with pytest.raises(GraphError, match="tells no languages apart"):
        model.detect_language(sounds)
    several = Whisper(SMALL, start=[1, None], speech=SpeechTokens({"en": 7, "xx": 99}))
    assert several.detect_language(sounds) == ["en"]
    assert several.generate(sounds, 4) == several.generate(sounds, 4, language="english")
    for arguments, what in (
        ({"language": "fr"}, r"no language 'fr'[\s\S]*en, xx"),
        ({"task": "translate"}, "no task 'translate'"),
        ({"language": "en", "start": [1]}, "start, or as language and task say"),
        ({"start": [None, 7]}, r"cannot begin with \[None, 7\]"),
        ({"start": [1, None, None]}, "one language at most"),
        ({"language": "xx"}, r"cannot begin with \[1, 99\]"),
    ):
        with pytest.raises(GraphError, match=what):
            several.generate(sounds, 3, **arguments)

"""Speech from text: sound as bands and back, distances, voices, and what a model is made of."""

from __future__ import annotations

import io
import wave

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import FeedError, GraphError
from gradwright.models import (
    EspeakVoice,
    FormantVoice,
    MelConfig,
    SpeechSynthesizer,
    SpeechSynthesizerConfig,
    log_mel,
    mel_cepstral_distortion,
    sound_of_log_mel,
    wav_bytes,
)
from gradwright.words.jsonable import from_json, to_json

SOUND = MelConfig(rate=8000, n_fft=256, hop=64, bands=20, f_min=50, f_max=3800)
SMALL = SpeechSynthesizerConfig(
    "aeno ", sound=SOUND, width=16, heads=2, encoder_layers=1, decoder_layers=1
)
TEXTS = ["one", "no one", "a"]


def tones(n: int, *hertz: float) -> np.ndarray:
    return sum(np.sin(2 * np.pi * f * np.arange(n) / SOUND.rate) for f in hertz) * 0.3


@pytest.fixture(scope="module")
def model() -> SpeechSynthesizer:
    """Return a model whose every weight shows."""
    model, rng = SpeechSynthesizer(SMALL, seed=1), np.random.default_rng(2)
    for v in model.graph.trainable:
        if v.name not in ("duration", "duration_bias"):
            model.graph.values[v.name] = model.graph.values[v.name] + 0.1 * rng.standard_normal(
                v.shape
            )
    model.graph.values["mel_mean"] = rng.standard_normal(20)
    return model


# -- sound -----------------------------------------------------------------------------------------


def test_bands_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch", reason="pip install -e '.[oracle]'")
    audio = pytest.importorskip("transformers.audio_utils", reason="pip install -e '.[oracle]'")
    sound = tones(1500, 220, 1000, 3000)
    window = torch.hann_window(256, dtype=torch.float64)
    spectra = torch.stft(
        torch.tensor(sound), 256, 64, window=window, pad_mode="constant", return_complex=True
    )
    filters = audio.mel_filter_bank(129, 20, 50, 3800, 8000, norm="slaney", mel_scale="slaney")
    expected = np.log(np.maximum(filters.T @ spectra.abs().numpy(), 1e-3)).T
    np.testing.assert_allclose(log_mel(sound, SOUND), expected, rtol=1e-4, atol=1e-4)


def test_sound_of_bands_is_that_of_griffin_and_lim_in_float64() -> None:
    torch = pytest.importorskip("torch", reason="pip install -e '.[oracle]'")
    noise = np.random.default_rng(0).standard_normal(1500)  # of silent bins phases mean nothing
    mel = log_mel(noise, SOUND).astype("float64")
    w, n = torch.tensor(SOUND.filters()), 5
    ridge = 1e-6 * torch.trace(w @ w.T) / 20 * torch.eye(20, dtype=torch.float64)
    size = w.T @ torch.linalg.inv(w @ w.T + ridge) @ torch.tensor(np.exp(mel.T))
    size = size.clamp(min=1e-5)
    how = {"n_fft": 256, "hop_length": 64, "window": torch.hann_window(256, dtype=torch.float64)}
    turned, before = size.to(torch.complex128), 0
    for _ in range(n):
        signal = torch.istft(turned, **how)
        found = torch.stft(signal, **how, pad_mode="constant", return_complex=True)
        ahead = found - before * (0.99 / 1.99)
        turned, before = size * torch.sgn(ahead), found
    expected = torch.istft(turned, **how).numpy()
    made = sound_of_log_mel(mel, SOUND, n_iter=n)
    assert np.linalg.norm(made - expected) < 1e-3 * np.linalg.norm(expected)


def test_sound_comes_back_as_the_bands_that_it_was_made_of() -> None:
    true, other = (log_mel(FormantVoice().say(text)) for text in ("one", "six"))
    again = log_mel(sound_of_log_mel(true, n_iter=20))
    near, far = (mel_cepstral_distortion(true, x) for x in (again, other))
    assert len(again) == len(true) and near < far / 4


def test_a_file_plays_what_it_was_given() -> None:
    sound = tones(300, 440) * 4
    with wave.open(io.BytesIO(wav_bytes(sound, 8000))) as file:
        told = file.getnchannels(), file.getsampwidth(), file.getframerate(), file.getnframes()
        samples = np.frombuffer(file.readframes(300), "<i2") / 32767
    assert told == (1, 2, 8000, 300)
    np.testing.assert_allclose(samples, np.clip(sound, -1, 1), atol=1 / 32767)


def test_distortion_is_that_of_a_plain_walk() -> None:
    fft = pytest.importorskip("scipy.fft", reason="pip install -e '.[test]'")
    rng = np.random.default_rng(0)
    for n, m in ((1, 1), (1, 5), (7, 4), (9, 9)):
        a, b = rng.standard_normal((n, 20)), rng.standard_normal((m, 20))
        x, y = (fft.dct(s, norm="ortho", axis=1)[:, 1:14] for s in (a, b))
        cost = np.array([[np.linalg.norm(p - q) for q in y] for p in x])
        cost *= 10 * np.sqrt(2) / np.log(10) * np.sqrt(2 / 20)
        best = {(0, 0): (cost[0, 0], 1)}
        for i in range(n):
            for j in range(m):
                came = [best[k] for k in ((i - 1, j - 1), (i - 1, j), (i, j - 1)) if k in best]
                if came:
                    least, steps = min(came, key=lambda c: c[0])
                    best[i, j] = least + cost[i, j], steps + 1
        total, steps = best[n - 1, m - 1]
        assert mel_cepstral_distortion(a, b) == pytest.approx(total / steps, rel=1e-12)


# -- voices ----------------------------------------------------------------------------------------


def test_a_voice_says_the_same_again_and_other_letters_otherwise() -> None:
    voice = FormantVoice(pitch=150, tempo=2.0)
    first, again, other = (voice.say(text) for text in ("seven", "seven", "nine"))
    assert np.array_equal(first, again) and np.abs(first).max() <= 0.5
    assert len(first) < len(FormantVoice().say("seven")) / 1.5
    apart = [mel_cepstral_distortion(log_mel(first), log_mel(s)) for s in (again, other)]
    assert apart[0] == 0 and apart[1] > 2
    assert FormantVoice(rate=22_050).say("a").shape[0] > FormantVoice().say("a").shape[0]


def test_what_is_not_installed_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert not EspeakVoice.is_installed()
    with pytest.raises(GraphError, match="no program espeak-ng"):
        EspeakVoice().say("one")


@pytest.mark.skipif(not EspeakVoice.is_installed(), reason="apt install espeak-ng")
def test_espeak_says_a_text_whatever_it_begins_with() -> None:
    sounds = [EspeakVoice(words_per_minute=200).say(text) for text in ("one", "-- seventeen")]
    assert 3000 < len(sounds[0]) < len(sounds[1]) and np.abs(sounds[0]).max() > 0.05


# -- the model -------------------------------------------------------------------------------------


def test_characters_are_spread_over_frames_as_their_durations_say(model) -> None:
    ids, n = np.array([[1, 2, 3], [4, 4, 0]]), np.array([[9], [6]])
    feeds = {"ids": ids, "is_sound": np.arange(9) < n}
    alignment = model.graph["alignment"]
    found = model.graph.output(feeds, alignment, model.durations, model.length)
    each = found["durations"].astype("float64")
    assert (each > 0).tolist() == (ids != 0).tolist()
    np.testing.assert_allclose(found["length"], each.sum(1), rtol=1e-6)
    fitted = each * n / each.sum(1, keepdims=True)
    centres = fitted.cumsum(1) - fitted / 2
    density = np.exp(-0.5 * ((np.arange(9)[:, None] + 0.5 - centres[:, None]) / 2.5) ** 2)
    density *= (ids != 0)[:, None]
    expected = density / density.sum(-1, keepdims=True)
    np.testing.assert_allclose(found["alignment"], expected, rtol=1e-4, atol=1e-6)


def test_texts_say_the_same_whichever_stand_beside_them(model) -> None:
    together = model.spectra(TEXTS)
    for text, spectrum in zip(TEXTS, together, strict=True):
        (alone,) = model.spectra([text])
        np.testing.assert_allclose(alone, spectrum, rtol=1e-4, atol=1e-4)
    sounds = [s[:40] for s in together]
    batch = model.examples(TEXTS, sounds)
    whole = model.graph.output(batch, model.mel_loss, model.length_loss)
    parts = [
        model.graph.output(model.examples([t], [s]), model.mel_loss, model.length_loss)
        for t, s in zip(TEXTS, sounds, strict=True)
    ]
    n = np.array([len(s) for s in sounds])
    mel = sum(p["mel_loss"] * k for p, k in zip(parts, n, strict=True)) / n.sum()
    assert whole["mel_loss"] == pytest.approx(mel, rel=1e-4, abs=1e-5)
    length = np.mean([p["length_loss"] for p in parts])
    assert whole["length_loss"] == pytest.approx(length, rel=1e-4, abs=1e-8)


def test_the_losses_are_told_of_what_is_said(model) -> None:
    sounds = [tones(800, 300), tones(500, 900), tones(300, 500)]
    batch = model.examples(TEXTS, sounds)
    found = model.graph.output(
        batch, model.spectrum, model.length, model.mel_loss, model.length_loss
    )
    frames, held = batch["is_sound"].sum(1), batch["is_sound"]
    off = np.abs(found["spectrum"] - batch["mel"])[held]  # deviations are 1
    assert found["mel_loss"] == pytest.approx(off.mean(), rel=1e-4)
    length = (np.log(found["length"]) - np.log(frames)) ** 2
    assert found["length_loss"] == pytest.approx(length.mean(), rel=1e-4)
    assert gw.gradient_check(model.graph, model.loss, batch, max_per_param=1).passed


def test_a_saved_model_says_the_same(model, tmp_path) -> None:
    path = tmp_path / "model.gw"
    model.graph.save(path)
    other = SpeechSynthesizer(from_json(to_json(SMALL)))
    other.graph.values.restore(gw.load(path).values)
    for a, b in zip(model.say(TEXTS[:1], n_iter=2), other.say(TEXTS[:1], n_iter=2), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_does_not_fit_is_refused(model) -> None:
    for call, said in (
        (lambda: model.spectra([]), "one or more"),
        (lambda: model.spectra("one"), "a list"),
        (lambda: model.spectra(["one", ""]), "none empty"),
        (lambda: model.spectra(["xylophone"]), "'x'"),
        (lambda: model.spectra(["one"], [0]), "1 or more"),
        (lambda: model.examples(["one"], []), "one of each text"),
        (lambda: model.examples(["one"], [np.zeros((2, 3))]), "one channel"),
        (lambda: log_mel([np.nan]), "finite"),
        (lambda: sound_of_log_mel(np.zeros((1, 20)), SOUND), "frames >= 2"),
        (lambda: mel_cepstral_distortion(np.zeros((2, 20)), np.zeros((2, 10))), "same bands"),
        (lambda: wav_bytes(np.zeros((2, 2))), "one channel"),
        (lambda: FormantVoice().say("42"), "letters a to z"),
    ):
        with pytest.raises((FeedError, GraphError), match=said):
            call()
    for make in (
        lambda: MelConfig(hop=2000),
        lambda: MelConfig(f_max=9000),
        lambda: MelConfig(bands=0),
        lambda: FormantVoice(pitch=0),
        lambda: SpeechSynthesizerConfig("aa"),
        lambda: SpeechSynthesizerConfig("a", width=15, heads=3),
    ):
        with pytest.raises(GraphError):
            make()

"""Signals and sound against known values: standards, tones, transforms that undo each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwright as gw

Array = np.ndarray[Any, Any]
RATE = 22050


def run(function: Callable[..., Any], *arrays: Array) -> Array:
    g = gw.Graph()
    with g:
        y = function(*(g.constant(a) for a in arrays))
    return np.asarray(g.output({}, y)[y.name])


def tone(hertz: float, seconds: float = 0.5, rate: int = RATE) -> Array:
    return np.sin(2 * np.pi * hertz / rate * np.arange(int(seconds * rate)))


def test_a_weighting_is_the_table_of_the_standard() -> None:
    """IEC 61672-1:2013, table 3; its tones are powers of 10**0.1, its values rounded to 0.1 dB."""
    table = {
        10: -70.4, 20: -50.5, 31.5: -39.4, 50: -30.2, 63: -26.2, 100: -19.1, 125: -16.1, 200: -10.9,
        250: -8.6, 400: -4.8, 500: -3.2, 800: -0.8, 1000: 0.0, 1600: 1.0, 2000: 1.2, 2500: 1.3,
        4000: 1.0, 5000: 0.5, 8000: -1.1, 10000: -2.5, 16000: -6.6, 20000: -9.3,
    }  # fmt: skip
    exact = 10 ** (np.round(10 * np.log10(np.array(list(table)))) / 10)
    found = run(gw.audio.a_weighting, exact)
    np.testing.assert_allclose(found, list(table.values()), atol=0.0501)
    assert np.isfinite(run(gw.audio.a_weighting, np.zeros(1))).all()


@pytest.mark.parametrize("hertz", [110.0, 261.63, 440.0, 880.0])
def test_a_tone_has_its_pitch(hertz: float) -> None:
    found = run(gw.audio.pitch_detection, tone(hertz))[4:-4]
    np.testing.assert_allclose(found, hertz, rtol=2e-3)


def test_silence_has_no_pitch() -> None:
    assert not run(gw.audio.pitch_detection, np.zeros(4096)).any()


@pytest.mark.parametrize(("hertz", "name"), [(261.63, 0), (440.0, 9), (493.88, 11), (880.0, 9)])
def test_a_tone_has_its_pitch_class(hertz: float, name: int) -> None:
    found = run(gw.audio.chroma_features, tone(hertz))[:, 4:-4]
    assert (found.argmax(0) == name).all()
    assert (found.max(0) == 1).all()


def test_the_centre_of_a_tone_is_the_tone() -> None:
    found = run(gw.audio.spectral_centroid, tone(1000.0))[4:-4]
    np.testing.assert_allclose(found, 1000.0, rtol=1e-3)
    both = run(gw.audio.spectral_centroid, tone(1000.0) + tone(3000.0))[4:-4]
    np.testing.assert_allclose(both, 2000.0, rtol=1e-2)
    assert not run(gw.audio.spectral_centroid, np.zeros(4096)).any()


def test_most_of_a_tone_lies_below_it() -> None:
    bin_width = RATE / 2048
    found = run(gw.audio.spectral_rolloff, tone(1000.0))[4:-4]
    assert (np.abs(found - 1000.0) <= 2 * bin_width).all()


def test_a_tone_crosses_zero_twice_per_period() -> None:
    found = run(gw.audio.zero_crossing_rate, tone(1000.0, seconds=1.0) + 1e-9)[4:-4]
    np.testing.assert_allclose(found, 2 * 1000.0 / RATE, atol=2 / 2048)


def test_a_tone_lies_in_its_mel_band() -> None:
    bank = run(lambda: gw.audio.mel_filterbank())
    assert (bank.max(1) > 0).all(), "a band without bins"
    found = run(gw.audio.mel_spectrogram, tone(1000.0))[:, 4:-4]
    assert (found.argmax(0) == bank[:, round(1000 * 2048 / RATE)].argmax()).all()


@pytest.mark.parametrize(("old", "new"), [(22050, 16000), (16000, 22050), (44100, 22050)])
def test_a_tone_stays_one_at_another_rate(old: int, new: int) -> None:
    found = run(lambda x: gw.audio.resample(x, old, new), tone(1000.0, 0.1, old))
    wanted = tone(1000.0, 0.1, new)
    n = min(len(found), len(wanted))
    np.testing.assert_allclose(found[100 : n - 100], wanted[100 : n - 100], atol=5e-3)


def test_what_a_lower_rate_cannot_hold_is_filtered_out() -> None:
    found = run(lambda x: gw.audio.resample(x, 22050, 8000), tone(7000.0))
    assert np.abs(found[100:-100]).max() < 0.01


def test_a_constant_stays_one_at_another_rate() -> None:
    found = run(lambda x: gw.audio.resample(x, 3, 7), np.ones(60))
    np.testing.assert_allclose(found[20:-20], 1.0)


@pytest.mark.parametrize(("momentum", "goal"), [(0.0, 0.25), (0.99, 0.15)])
def test_griffin_lim_finds_a_signal_of_the_given_magnitudes(momentum: float, goal: float) -> None:
    """It comes nearer turn by turn, and with momentum faster; phases are 0 at first."""
    x = tone(440.0, 0.2) + 0.5 * tone(1234.0, 0.2)
    size = np.abs(spectra(x))

    def distance(n_iter: int) -> float:
        y = run(lambda s: gw.audio.griffin_lim(s, n_iter, hop_length=64, momentum=momentum), size)
        return float(np.linalg.norm(np.abs(spectra(y)) - size) / np.linalg.norm(size))

    first, middle, last = (distance(n) for n in (0, 4, 32))
    print(first, middle, last)
    assert last < middle < first
    assert last < goal


def spectra(x: Array) -> Array:
    """Return spectra of centred frames by numpy alone, a column per frame."""
    padded = np.pad(x, 128)
    window = np.hanning(257)[:-1]
    starts = range(0, len(padded) - 255, 64)
    return np.stack([np.fft.rfft(window * padded[i : i + 256]) for i in starts], -1)


@pytest.mark.parametrize("onesided", [True, False])
def test_istft_undoes_stft(rng: np.random.Generator, onesided: bool) -> None:
    x, window = rng.standard_normal((2, 61, 1 if onesided else 2)), np.hanning(16)

    def there_and_back(x: Any, w: Any) -> Any:
        z = gw.signal.stft(x, w, frame_step=5, onesided=onesided)
        return gw.signal.istft(z, w, frame_step=5, onesided=onesided)

    y = run(there_and_back, x, window)
    assert y.shape == x.shape
    np.testing.assert_allclose(y[:, 1:-1], x[:, 1:-1], atol=1e-12)
    assert not y[:, [0, -1]].any(), "where no window looks, there is nothing"


@pytest.mark.parametrize("n", [7, 8])
def test_inverse_dft_undoes_dft(rng: np.random.Generator, n: int) -> None:
    x = rng.standard_normal((2, n, 1))
    for onesided, length in ((False, None), (True, n)):
        y = run(
            lambda x, o=onesided, m=length: gw.signal.dft(
                gw.signal.dft(x, onesided=o), inverse=True, onesided=o, dft_length=m
            ),
            x,
        )
        np.testing.assert_allclose(y[..., :1], x, atol=1e-12)


def test_spectra_of_a_signal_of_unknown_length() -> None:
    g = gw.Graph()
    x = g.placeholder("x", ("B", "T"))
    y = gw.audio.mel_spectrogram(x, n_fft=64, hop_length=16, n_mels=8)
    assert y.shape[:2] == (gw.Dim.symbol("B"), 8)
    for length in (64, 65, 200):
        found = g.output({"x": np.ones((2, length), np.float32)}, y)[y.name]
        assert found.shape == (2, 8, length // 16 + 1)


def test_log_mel_is_what_whisper_of_transformers_hears() -> None:
    """Half a minute of two tones in noise, by its path in float64 and by that in float32."""
    whisper = pytest.importorskip("transformers", reason="pip install -e '.[oracle]'")
    rng = np.random.default_rng(0)
    sound = np.pad(tone(440.0, 1.5, 16000) + 0.3 * tone(3000.0, 1.5, 16000), (4000, 452_000))
    sound = (sound + 1e-3 * rng.standard_normal(480_000)).astype(np.float32)
    found = run(gw.audio.log_mel_spectrogram, sound)
    extractor = whisper.WhisperFeatureExtractor()
    exact = extractor._np_extract_fbank_features([sound], "cpu")[0]
    usual = extractor(sound, sampling_rate=16000)["input_features"][0]
    assert found.shape == exact.shape == (80, 3000)
    np.testing.assert_allclose(found, exact, 0, 2e-5)
    np.testing.assert_allclose(found, usual, 0, 1e-4)

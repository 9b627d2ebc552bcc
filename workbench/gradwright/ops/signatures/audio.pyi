"""Functions of the namespace audio; written by python -m gradwright.ops.stubs."""

from numpy.typing import ArrayLike, DTypeLike

from gradwright.graph import Tensor
from gradwright.spec import AnyDim

def a_weighting(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """How much less loud a tone seems than one of 1 kHz, in decibels (IEC 61672-1:2013).

    A(f) = 20·log₁₀(R(f)/R(1000)),
    R(f) = f₄²·f⁴ / ((f² + f₁²)·√((f² + f₂²)·(f² + f₃²))·(f² + f₄²))

    with f₁ … f₄ = 20.6, 107.7, 737.9 and 12194 Hz. Frequencies below 10⁻⁵ Hz count as that.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> f = g.constant([100.0, 1000.0], dtype="float64")
    >>> (g.output({}, gw.audio.a_weighting(f, name="y"))["y"].round(1) + 0.0).tolist()
    [-19.1, 0.0]
    """

def audio_normalize(
    x: Tensor | ArrayLike, mode: str = "peak", level: float = 1.0, *, name: str | None = None
) -> Tensor:
    """Bring each signal to a level; silence stays.

    y = level·x / max |x|, or level·x / √(mean x²) in the mode "rms"

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.audio.audio_normalize(g.constant([1.0, -2.0]), name="y"))["y"].tolist()
    [0.5, -1.0]

    Attributes:
        mode: What is brought to the level. One of 'peak', 'rms'.
        level: The level.
    """

def chroma_features(
    x: Tensor | ArrayLike,
    sample_rate: int = 22050,
    n_fft: int = 2048,
    hop_length: int = 512,
    n_chroma: int = 12,
    *,
    name: str | None = None,
) -> Tensor:
    """Energy of each frame per pitch class, relative to the strongest one.

    y[…, c, f] = e[c, f] / max e[·, f],  e = W·|X|², W as ``chroma_filterbank``

    ``f32[..., T]`` becomes ``f32[..., n_chroma, ⌊T/hop_length⌋ + 1]``; class 0 is C, 9 is A.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> x = g.constant(np.sin(2 * np.pi * 440 / 22050 * np.arange(22050)))
    >>> y = g.output({}, gw.audio.chroma_features(x, name="y"))["y"]
    >>> y.shape, int(y[:, 20].argmax())
    ((12, 44), 9)

    Attributes:
        sample_rate: Samples per second.
        n_fft: Number of samples of a frame.
        hop_length: Distance of two frames in samples.
        n_chroma: Number of pitch classes.
    """

def chroma_filterbank(
    n_chroma: int = 12,
    n_fft: int = 2048,
    sample_rate: int = 22050,
    dtype: DTypeLike = "float32",
    *,
    name: str | None = None,
) -> Tensor:
    """Weights that gather the bins of a spectrum into pitch classes (Ellis 2007).

    y[c, k] = exp(−2·(d/w)²) / ‖·‖₂ · exp(−½·((p/n − 5)/2)²)

    where p = n·log₂(fₖ/27.5) is the bin's pitch above A0, with n classes to the octave, d its
    distance from class c on the circle, and w = p[k + 1] − p[k], but at least 1; the norm is that
    of the bin's column, and the pitch of 0 Hz 1.5·n below the next. The middle of the range, five
    octaves above A0, weighs most. Class 0 is C.

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     gw.audio.chroma_filterbank().shape
    (12, 1025)

    Attributes:
        n_chroma: Number of pitch classes.
        n_fft: Number of samples that were transformed.
        sample_rate: Samples per second.
        dtype: Dtype of the result.
    """

def dct_matrix(k: int, n: int, dtype: DTypeLike = "float32", *, name: str | None = None) -> Tensor:
    """Basis of the discrete cosine transform, type 2, with rows of length 1 (Ahmed et al. 1974).

    y[k, j] = √(2/n)·cos(π·k·(2j + 1)/(2n)), the first row divided by √2

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     gw.audio.dct_matrix(13, 128).shape
    (13, 128)

    Attributes:
        k: Number of rows.
        n: Number of columns.
        dtype: Dtype of the result.
    """

def griffin_lim(
    x: Tensor | ArrayLike,
    n_iter: int = 32,
    hop_length: int = 512,
    momentum: float = 0.99,
    length: AnyDim | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Signal whose spectra have given magnitudes, found by turns (Griffin and Lim 1984).

    pᵢ₊₁ = phase(zᵢ − m/(1 + m)·zᵢ₋₁),  zᵢ = spectra of the signal made from x·pᵢ

    ``f32[..., n_fft/2 + 1, F]`` becomes ``f32[..., (F − 1)·hop_length]``, or the length asked for.
    Frames have a Hann window and are centred at every hop. Phases begin at 0; ``momentum`` m speeds
    up the search (Perraudin et al. 2013), 0 is the original one.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.audio.griffin_lim(g.placeholder("x", ("B", 1025, 44))).shape
    (B, 22016)

    Attributes:
        n_iter: Number of turns.
        hop_length: Distance of two frames in samples.
        momentum: How far a turn goes beyond its goal, from 0.
        length: Number of samples of the result.
    """

def lanczos_kernel(
    up: int, down: int, width: int = 6, dtype: DTypeLike = "float32", *, name: str | None = None
) -> Tensor:
    """Weights with which one period of another sampling rate is made, one column per sample.

    y[i, p] ∝ sinc(c·t)·sinc(c·t/width) for |c·t| < width, else 0

    with t = i − r − p·down/up, c = min(1, up/down) and r = ⌈width/c⌉; columns add up to 1.

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     gw.audio.lanczos_kernel(up=2, down=1).shape
    (14, 2)

    Attributes:
        up: Samples of the new rate in a period of both.
        down: Samples of the old rate in it.
        width: Zero crossings on each side.
        dtype: Dtype of the result.
    """

def mel_filterbank(
    n_mels: int = 128,
    n_fft: int = 2048,
    sample_rate: int = 22050,
    f_min: float = 0.0,
    f_max: float = 8000.0,
    scale: str = "slaney",
    norm: str | None = "slaney",
    dtype: DTypeLike = "float32",
    *,
    name: str | None = None,
) -> Tensor:
    """Triangles that gather the bins of a spectrum into bands of equal width on the mel scale.

    y[m, k] = aₘ·max(0, min((fₖ − eₘ)/(eₘ₊₁ − eₘ), (eₘ₊₂ − fₖ)/(eₘ₊₂ − eₘ₊₁)))

    where e are n_mels + 2 frequencies at equal distances in mel, fₖ = k·sample_rate/n_fft, and aₘ
    is 2/(eₘ₊₂ − eₘ) for the norm "slaney" (equal areas), else 1. The scale is Slaney's (1998), or
    that of HTK, 2595·log₁₀(1 + f/700).

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     gw.audio.mel_filterbank(80, n_fft=400, sample_rate=16000).shape
    (80, 201)

    Attributes:
        n_mels: Number of bands.
        n_fft: Number of samples that were transformed.
        sample_rate: Samples per second.
        f_min: Lowest frequency in Hertz.
        f_max: Highest frequency in Hertz.
        scale: Which mel scale. One of 'slaney', 'htk'.
        norm: What is equal: areas, or heights. One of 'slaney', None.
        dtype: Dtype of the result.
    """

def mel_spectrogram(
    x: Tensor | ArrayLike,
    sample_rate: int = 22050,
    n_fft: int = 2048,
    hop_length: int = 512,
    n_mels: int = 128,
    f_min: float = 0.0,
    f_max: float = 8000.0,
    power: float = 2.0,
    scale: str = "slaney",
    norm: str | None = "slaney",
    *,
    name: str | None = None,
) -> Tensor:
    """Energy of each frame in bands of equal width on the mel scale.

    y[…, m, f] = Σₖ W[m, k]·|X[f, k]|^power, W as ``mel_filterbank``

    ``f32[..., T]`` becomes ``f32[..., n_mels, ⌊T/hop_length⌋ + 1]``; frames have a Hann window and
    are centred at every hop.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.audio.mel_spectrogram(g.placeholder("x", ("B", 22050))).shape
    (B, 128, 44)

    Attributes:
        sample_rate: Samples per second.
        n_fft: Number of samples of a frame.
        hop_length: Distance of two frames in samples.
        n_mels: Number of bands.
        f_min: Lowest frequency in Hertz.
        f_max: Highest frequency in Hertz.
        power: Exponent of the magnitude: 2 energy, 1 magnitude.
        scale: Which mel scale. One of 'slaney', 'htk'.
        norm: What is equal: areas, or heights. One of 'slaney', None.
    """

def mel_weight_matrix(
    num_mel_bins: int,
    dft_length: int,
    sample_rate: int,
    lower_edge_hertz: float,
    upper_edge_hertz: float,
    dtype: DTypeLike = "float32",
    *,
    name: str | None = None,
) -> Tensor:
    """Triangles between whole bins of a spectrum, as ONNX defines them.

    y[k, m] = (k − bₘ)/(bₘ₊₁ − bₘ) for bₘ ≤ k ≤ bₘ₊₁, (bₘ₊₂ − k)/(bₘ₊₂ − bₘ₊₁) for bₘ₊₁ ≤ k < bₘ₊₂

    where b = ⌊(dft_length + 1)·f/sample_rate⌋ and f are num_mel_bins + 2 frequencies, beginning
    with the lower edge, each 1/(num_mel_bins + 2) of the way to the upper one further in mel
    (2595·log₁₀(1 + f/700)).

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     gw.audio.mel_weight_matrix(8, 16, 8192, 0.0, 4096.0).shape
    (9, 8)

    Attributes:
        num_mel_bins: Number of bands.
        dft_length: Number of samples that were transformed.
        sample_rate: Samples per second.
        lower_edge_hertz: Lowest frequency.
        upper_edge_hertz: Highest frequency.
        dtype: Dtype of the result.
    """

def mfcc(
    x: Tensor | ArrayLike,
    sample_rate: int = 22050,
    n_fft: int = 2048,
    hop_length: int = 512,
    n_mels: int = 128,
    f_min: float = 0.0,
    f_max: float = 8000.0,
    power: float = 2.0,
    scale: str = "slaney",
    norm: str | None = "slaney",
    n_mfcc: int = 13,
    top_db: float | None = 80.0,
    *,
    name: str | None = None,
) -> Tensor:
    """Mel-frequency cepstral coefficients: the shape of the mel spectrum in decibels.

    y = D·max(d, max d − top_db),  d = 10·log₁₀ max(mel, 10⁻¹⁰), D as ``dct_matrix``

    ``f32[..., T]`` becomes ``f32[..., n_mfcc, ⌊T/hop_length⌋ + 1]``; the largest value is taken
    over bands and frames (Davis and Mermelstein 1980).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.audio.mfcc(g.placeholder("x", ("B", 22050))).shape
    (B, 13, 44)

    Attributes:
        sample_rate: Samples per second.
        n_fft: Number of samples of a frame.
        hop_length: Distance of two frames in samples.
        n_mels: Number of bands.
        f_min: Lowest frequency in Hertz.
        f_max: Highest frequency in Hertz.
        power: Exponent of the magnitude: 2 energy, 1 magnitude.
        scale: Which mel scale. One of 'slaney', 'htk'.
        norm: What is equal: areas, or heights. One of 'slaney', None.
        n_mfcc: Number of coefficients.
        top_db: How far below the largest value small ones are cut.
    """

def pitch_detection(
    x: Tensor | ArrayLike,
    sample_rate: int = 22050,
    f_min: float = 80.0,
    f_max: float = 1000.0,
    frame_length: int = 2048,
    hop_length: int = 512,
    threshold: float = 0.1,
    *,
    name: str | None = None,
) -> Tensor:
    """Pitch of each frame in Hertz: where its autocorrelation is largest; 0 where there is none.

    y[…, f] = sample_rate / τ,  τ = argmax Σₜ x[t]·x[t + τ] over sample_rate/f_max ≤ τ ≤
    sample_rate/f_min

    The place of the largest sum is refined by a parabola through it and its neighbours, each
    divided by the part of the frame that it runs over, so that pitch is a smooth function of the
    samples between jumps. A frame has none if that value is below ``threshold`` times its energy.
    ``f32[..., T]`` becomes ``f32[..., ⌊T/hop_length⌋ + 1]``.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> x = g.constant(np.sin(2 * np.pi * 440 / 22050 * np.arange(22050)))
    >>> round(float(g.output({}, gw.audio.pitch_detection(x, name="y"))["y"][20]))
    440

    Attributes:
        sample_rate: Samples per second.
        f_min: Lowest pitch in Hertz.
        f_max: Highest pitch in Hertz.
        frame_length: Number of samples of a frame.
        hop_length: Distance of two frames in samples.
        threshold: Part of a frame's energy that a pitch must explain.
    """

def pre_emphasis(
    x: Tensor | ArrayLike, coefficient: float = 0.97, *, name: str | None = None
) -> Tensor:
    """High-pass filter that lifts what speech has little of.

    y[t] = x[t] − coefficient·x[t − 1],  y[0] = x[0]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([1.0, 2.0, 3.0])
    >>> g.output({}, gw.audio.pre_emphasis(x, 0.5, name="y"))["y"].tolist()
    [1.0, 1.5, 2.0]

    Attributes:
        coefficient: How much of the sample before is taken off.
    """

def resample(
    x: Tensor | ArrayLike, orig_rate: int, new_rate: int, width: int = 6, *, name: str | None = None
) -> Tensor:
    """Signal at another sampling rate, by a windowed sinc (Lanczos; Duchon 1979).

    y[n] = Σₜ x[t]·h(n·orig_rate/new_rate − t), h as ``lanczos_kernel``, x = 0 beyond its ends

    ``f32[..., T]`` becomes ``f32[..., ⌈T·new_rate/orig_rate⌉]``. What the lower rate cannot hold is
    filtered out.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.audio.resample(g.placeholder("x", ("B", 44100)), 44100, 16000).shape
    (B, 16000)

    Attributes:
        orig_rate: Samples per second of the input.
        new_rate: Samples per second of the result.
        width: Zero crossings of the kernel on each side.
    """

def spectral_centroid(
    x: Tensor | ArrayLike,
    sample_rate: int = 22050,
    n_fft: int = 2048,
    hop_length: int = 512,
    *,
    name: str | None = None,
) -> Tensor:
    """Mean frequency of each frame, weighted by magnitude; 0 where there is silence.

    y[…, f] = Σₖ fₖ·|X[f, k]| / Σₖ |X[f, k]|, in Hertz, fₖ = k·sample_rate/n_fft

    ``f32[..., T]`` becomes ``f32[..., ⌊T/hop_length⌋ + 1]``.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> x = g.constant(np.sin(2 * np.pi * 1000 / 22050 * np.arange(22050)))
    >>> y = g.output({}, gw.audio.spectral_centroid(x, name="y"))["y"]
    >>> y.shape, round(float(y[20]), -1)
    ((44,), 1000.0)

    Attributes:
        sample_rate: Samples per second.
        n_fft: Number of samples of a frame.
        hop_length: Distance of two frames in samples.
    """

def spectral_rolloff(
    x: Tensor | ArrayLike,
    sample_rate: int = 22050,
    n_fft: int = 2048,
    hop_length: int = 512,
    rolloff: float = 0.85,
    *,
    name: str | None = None,
) -> Tensor:
    """Frequency below which a part of each frame's magnitude lies; it has no slope.

    y[…, f] = min {fₖ : Σⱼ≤ₖ |X[f, j]| ≥ rolloff·Σⱼ |X[f, j]|}, in Hertz

    ``f32[..., T]`` becomes ``f32[..., ⌊T/hop_length⌋ + 1]``.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> x = g.constant(np.sin(2 * np.pi * 1000 / 22050 * np.arange(22050)))
    >>> y = g.output({}, gw.audio.spectral_rolloff(x, name="y"))["y"]
    >>> round(float(y[20]), -1)
    1010.0

    Attributes:
        sample_rate: Samples per second.
        n_fft: Number of samples of a frame.
        hop_length: Distance of two frames in samples.
        rolloff: The part, between 0 and 1.
    """

def zero_crossing_rate(
    x: Tensor | ArrayLike,
    frame_length: int = 2048,
    hop_length: int = 512,
    *,
    name: str | None = None,
) -> Tensor:
    """How often the sign changes within each frame, per sample; it has no slope.

    y[…, f] = #{t : (x[t] < 0) ≠ (x[t − 1] < 0)} / frame_length

    ``f32[..., T]`` becomes ``f32[..., ⌊T/hop_length⌋ + 1]``; the signal goes on with its first and
    last sample.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([1.0, -1.0, 1.0, -1.0, 1.0])
    >>> y = gw.audio.zero_crossing_rate(x, frame_length=4, hop_length=4, name="y")
    >>> g.output({}, y)["y"].tolist()
    [0.25, 0.5]

    Attributes:
        frame_length: Number of samples of a frame.
        hop_length: Distance of two frames in samples.
    """

"""Speech from text: a synthesizer that learns a voice, spectra as sound, and how far two are."""

from .config import SpeechSynthesizerConfig
from .distortion import mel_cepstral_distortion
from .sound import MelConfig, log_mel, sound_of_log_mel, wav_bytes
from .synthesizer import SpeechSynthesizer
from .voices import EspeakVoice, FormantVoice

__all__ = [
    "EspeakVoice",
    "FormantVoice",
    "MelConfig",
    "SpeechSynthesizer",
    "SpeechSynthesizerConfig",
    "log_mel",
    "mel_cepstral_distortion",
    "sound_of_log_mel",
    "wav_bytes",
]

"""Whole models at work: stacks of layers, decoders, tokenizers, and generation token by token.

`Generation` is the loop to use, with sampling strategies, stop rules and streams. `generate` and
`KvCache` are for graphs that hold caches and sampling themselves.
"""

from typing import TYPE_CHECKING

from ..ops import later

if TYPE_CHECKING:
    from .cached import KvCache, generate
    from .choosing import choose, probabilities
    from .completion import Completion, Piece
    from .decoder import (
        Decoder,
        DecoderConfig,
        Quantized,
        QuantizedTensor,
        RopeScaling,
        generation_graph,
        windows,
    )
    from .encoders import Bert, BertConfig, Vit, VitConfig
    from .generation import Generation
    from .gguf.reading import from_gguf
    from .gguf.tokenizers import tokenizer_from_gguf
    from .gguf.writing import save_gguf
    from .grammar import Regex
    from .huggingface import from_pretrained, load_state_dict, save_pretrained, state_dict
    from .interpretation import (
        Attention,
        Attribution,
        Choice,
        Interpretation,
        Score,
        TokenReading,
    )
    from .sampling import (
        FrequencyPenalty,
        Greedy,
        MinP,
        NoRepeatNgram,
        PresencePenalty,
        RepetitionPenalty,
        Strategy,
        Temperature,
        TopK,
        TopP,
        in_order,
    )
    from .sequential import Conv, Dense, Embedding, Sequential
    from .speculation import Draft
    from .speech_synthesis import (
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
    from .tokenizers import CharTokenizer, TextCodec, TextStream, Tokenizer, decode_stream
    from .vision_language import VisionLanguage, VisionLanguageConfig
    from .whisper import SpeechTokens, Whisper, WhisperConfig

__all__ = [
    "Attention",
    "Attribution",
    "Bert",
    "BertConfig",
    "CharTokenizer",
    "Choice",
    "Completion",
    "Conv",
    "Decoder",
    "DecoderConfig",
    "Dense",
    "Draft",
    "Embedding",
    "EspeakVoice",
    "FormantVoice",
    "FrequencyPenalty",
    "Generation",
    "Greedy",
    "Interpretation",
    "KvCache",
    "MelConfig",
    "MinP",
    "NoRepeatNgram",
    "Piece",
    "PresencePenalty",
    "Quantized",
    "QuantizedTensor",
    "Regex",
    "RepetitionPenalty",
    "RopeScaling",
    "Score",
    "Sequential",
    "SpeechSynthesizer",
    "SpeechSynthesizerConfig",
    "SpeechTokens",
    "Strategy",
    "Temperature",
    "TextCodec",
    "TextStream",
    "TokenReading",
    "Tokenizer",
    "TopK",
    "TopP",
    "VisionLanguage",
    "VisionLanguageConfig",
    "Vit",
    "VitConfig",
    "Whisper",
    "WhisperConfig",
    "choose",
    "decode_stream",
    "from_gguf",
    "from_pretrained",
    "generate",
    "generation_graph",
    "in_order",
    "load_state_dict",
    "log_mel",
    "mel_cepstral_distortion",
    "probabilities",
    "save_gguf",
    "save_pretrained",
    "sound_of_log_mel",
    "state_dict",
    "tokenizer_from_gguf",
    "wav_bytes",
    "windows",
]

_HOMES = {
    ".cached": "KvCache generate",
    ".choosing": "choose probabilities",
    ".completion": "Completion Piece",
    ".decoder": (
        "Decoder DecoderConfig Quantized QuantizedTensor RopeScaling generation_graph windows"
    ),
    ".encoders": "Bert BertConfig Vit VitConfig",
    ".generation": "Generation",
    ".gguf.reading": "from_gguf",
    ".gguf.tokenizers": "tokenizer_from_gguf",
    ".gguf.writing": "save_gguf",
    ".grammar": "Regex",
    ".huggingface": "from_pretrained load_state_dict save_pretrained state_dict",
    ".interpretation": "Attention Attribution Choice Interpretation Score TokenReading",
    ".sampling": (
        "FrequencyPenalty Greedy MinP NoRepeatNgram PresencePenalty RepetitionPenalty"
        " Strategy Temperature TopK TopP in_order"
    ),
    ".sequential": "Conv Dense Embedding Sequential",
    ".speculation": "Draft",
    ".speech_synthesis": (
        "EspeakVoice FormantVoice MelConfig SpeechSynthesizer SpeechSynthesizerConfig log_mel"
        " mel_cepstral_distortion sound_of_log_mel wav_bytes"
    ),
    ".tokenizers": "CharTokenizer TextCodec TextStream Tokenizer decode_stream",
    ".vision_language": "VisionLanguage VisionLanguageConfig",
    ".whisper": "SpeechTokens Whisper WhisperConfig",
}
"""Module -> the names that are imported from it when they are first asked for."""

__getattr__, __dir__ = later(__name__, _HOMES, __all__)

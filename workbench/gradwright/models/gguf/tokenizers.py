"""Tokenizers of GGUF files, by the library tokenizers: byte pairs, SentencePiece, WordPiece."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...errors import ArchiveError, GradwrightError
from ...formats.gguf.mapped import Gguf
from ..tokenizers import Tokenizer, library
from .facts import Facts
from .splits import SPLITS

MODELS = {"gpt2": "byte BPE", "llama": "SentencePiece BPE", "bert": "WordPiece"}
"""What ``tokenizer.ggml.model`` says -> what it is called."""
NONE = ("none", "no_vocab")
"""What it says where there is no tokenizer; llama.cpp opens no file that says nothing."""
UNKNOWN, CONTROL, USER, BYTE = 2, 3, 4, 6
"""Types of tokens that are not normal ones (1)."""
SPECIAL = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
"""What transformers calls special tokens -> what files do."""
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"


class GgufTokenizer(Tokenizer):
    """The tokenizer of a GGUF file; it is built when it is first used.

    ``keys`` are those of the file, ``chat_template`` its text, if there is one, and
    ``special_tokens_map`` its special tokens by name. ``encode`` puts the tokens at begin and end
    that the file asks for, unless ``special=False``.
    """

    def __init__(self, keys: Mapping[str, Any]) -> None:
        self.keys = {k: v for k, v in keys.items() if k.startswith("tokenizer.")}
        self._facts = Facts(keys, "tokenizer.ggml")
        self._architecture = keys.get("general.architecture", "")
        self._size = len(self._facts.texts("tokens"))
        self.chat_template = keys.get("tokenizer.chat_template")

    @functools.cached_property
    def inner(self) -> Any:
        """The library's own object."""
        return _built(self._facts, self._architecture)

    @functools.cached_property
    def special_tokens_map(self) -> dict[str, str]:
        """Special tokens by the names that transformers gives them, such as ``"eos_token"``."""
        tokens = self._facts.texts("tokens")
        found = {}
        for theirs, ours in SPECIAL.items():
            i = self._facts.size(f"{ours}_token_id", None, least=0)
            if i is not None and i < len(tokens):
                found[f"{theirs}_token"] = tokens[i]
        return found

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Return the tokens of a text; ``special`` adds those that a file puts around it."""
        return super().encode(text, special=special)

    def __len__(self) -> int:
        return self._size


def tokenizer_from_gguf(file: str | os.PathLike[str] | Mapping[str, Any]) -> GgufTokenizer:
    """Return the tokenizer of a GGUF file, of a model of any architecture, or of its keys.

    Raises ArchiveError where there is none, or one of a kind or split rule that is not known.

    >>> import pathlib, tempfile
    >>> from gradwright.formats.gguf.writing import write
    >>> from gradwright.models import tokenizer_from_gguf
    >>> path = pathlib.Path(tempfile.mkdtemp(), "words.gguf")
    >>> keys = {"model": "gpt2", "pre": "gpt-2", "tokens": ["a", "b", "ab"], "merges": ["a b"]}
    >>> write(path, {f"tokenizer.ggml.{key}": value for key, value in keys.items()}, {})
    >>> tokenizer_from_gguf(path).encode("abb")
    [2, 1]
    """
    keys = file if isinstance(file, Mapping) else Gguf(file).facts
    if problem := tokenizer_problem(keys):
        where = "" if isinstance(file, Mapping) else str(os.fspath(file))
        raise ArchiveError(problem, where=where)
    return GgufTokenizer(keys)


def has_tokenizer(keys: Mapping[str, Any]) -> bool:
    """Tell whether keys speak of a tokenizer, of whatever kind."""
    model = keys.get("tokenizer.ggml.model")
    return model is not None and not (isinstance(model, str) and model in NONE)


def tokenizer_problem(keys: Mapping[str, Any]) -> str:
    """Return why there is no tokenizer, "" if there is one."""
    if not has_tokenizer(keys):
        return "the file has no tokenizer"
    model = keys["tokenizer.ggml.model"]
    if not isinstance(model, str) or model not in MODELS:
        return f"its tokenizer is of the kind {model!r:.40}; read are {', '.join(MODELS)}"
    try:
        facts = Facts(keys, "tokenizer.ggml")
        facts.texts("tokens")
        if model == "gpt2":
            facts.texts("merges")
            _rule(facts, keys.get("general.architecture", ""))
        if model == "llama":
            facts.numbers("scores", "f")
        facts.numbers("token_type", "iu", None)
    except GradwrightError as error:
        return str(error)
    return ""


def describe(keys: Mapping[str, Any]) -> str:
    """Return what a tokenizer is, in a line; "" if there is none.

    >>> describe({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a", "b"]})
    'byte BPE, 2 tokens'
    """
    model, tokens = keys.get("tokenizer.ggml.model"), keys.get("tokenizer.ggml.tokens", ())
    if not has_tokenizer(keys) or not isinstance(model, str) or not isinstance(tokens, Sequence):
        return ""
    pre = keys.get("tokenizer.ggml.pre")
    rule = f", split as {pre:.40}" if isinstance(pre, str) and model == "gpt2" else ""
    return f"{MODELS.get(model, model[:40])}, {len(tokens):,} tokens{rule}"


def ends(keys: Mapping[str, Any], vocabulary: int) -> tuple[int, ...]:
    """Return the tokens that end a row."""
    facts = Facts(keys, "tokenizer.ggml")
    held = (facts.size(f"{n}_token_id", None, least=0) for n in ("eos", "eot", "eom"))
    found = tuple(dict.fromkeys(i for i in held if i is not None))
    if wrong := [i for i in found if i >= vocabulary]:
        raise facts.refused("eos_token_id", wrong[0], f"a token below {vocabulary:,}")
    return found


# -- building --------------------------------------------------------------------------------------


def _built(facts: Facts, architecture: str) -> Any:
    lib = library()
    model, tokens = facts.text("model"), list(facts.texts("tokens"))
    make = {"gpt2": _byte_pairs, "llama": _sentence_pieces, "bert": _word_pieces}[model]
    try:
        inner = make(lib, facts, tokens, architecture)
        _add(lib, inner, facts, tokens)
        _surround(lib, inner, facts, tokens)
    except GradwrightError:
        raise
    except Exception as error:  # the library raises nothing more special
        raise ArchiveError("its tokenizer cannot be built", facts=[str(error)[:200]]) from None
    return inner


def _rule(facts: Facts, architecture: str) -> Any:
    pre = facts.text("pre", "gpt-2" if architecture == "gpt2" else "")
    if pre not in SPLITS:
        raise facts.refused("pre", pre, "a split rule that is known: " + ", ".join(SPLITS))
    return SPLITS[pre]


def _byte_pairs(lib: Any, facts: Facts, tokens: Sequence[str], architecture: str) -> Any:
    rule = _rule(facts, architecture)
    merges = [tuple(m.split(" ", 1)) for m in facts.texts("merges")]
    vocabulary = {t: i for i, t in enumerate(tokens)}
    model = lib.models.BPE(vocabulary, merges, ignore_merges=rule.ignore_merges)
    inner = lib.Tokenizer(model)
    pre = lib.pre_tokenizers
    cuts = [pre.Split(lib.Regex(p), "isolated") for p in rule.patterns]
    prefix = facts.flag("add_space_prefix", False)
    inner.pre_tokenizer = pre.Sequence(
        [*cuts, pre.ByteLevel(add_prefix_space=prefix, use_regex=False)]
    )
    inner.decoder = lib.decoders.ByteLevel()
    return inner


def _sentence_pieces(lib: Any, facts: Facts, tokens: Sequence[str], _: str) -> Any:
    vocabulary = {t: i for i, t in enumerate(tokens)}
    unknown = facts.size("unknown_token_id", 0, least=0)
    model = lib.models.BPE(
        vocabulary,
        list(merges_of(vocabulary, facts.numbers("scores", "f").tolist())),
        unk_token=tokens[unknown],
        fuse_unk=True,
        byte_fallback=True,
    )
    inner = lib.Tokenizer(model)
    normalizers, decoders = lib.normalizers, lib.decoders
    spaces = [normalizers.Replace(" ", SPACE)]
    undone = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if facts.flag("add_space_prefix", True):
        spaces.insert(0, normalizers.Prepend(SPACE))
        undone.append(decoders.Strip(" ", 1, 0))
    inner.normalizer = normalizers.Sequence(spaces)
    inner.decoder = decoders.Sequence(undone)
    return inner


def merges_of(vocabulary: Mapping[str, int], scores: Sequence[float]) -> Iterator[tuple[str, str]]:
    """Yield pairs of tokens that make a token, those of the best scores first.

    SentencePiece merges the neighbours whose whole has the best score (Kudo and Richardson 2018).

    >>> list(merges_of({"a": 0, "b": 1, "ab": 2, "abb": 3}, [0, 0, -2, -1]))
    [('ab', 'b'), ('a', 'b')]
    """
    for token in sorted(vocabulary, key=lambda t: -scores[vocabulary[t]]):
        parts = ((token[:k], token[k:]) for k in range(1, len(token)))
        held = [p for p in parts if p[0] in vocabulary and p[1] in vocabulary]
        yield from sorted(held, key=lambda p: (vocabulary[p[0]], vocabulary[p[1]]))


def _word_pieces(lib: Any, facts: Facts, tokens: Sequence[str], _: str) -> Any:
    """Build WordPiece: files mark the begin of a word, the library what goes on with one."""
    types = facts.numbers("token_type", "iu", None)
    special = (
        set() if types is None else {i for i, t in enumerate(types) if t in (UNKNOWN, CONTROL)}
    )

    def spelt(i: int, token: str) -> str:
        if i in special or (token.startswith("[") and token.endswith("]")):
            return token
        return token[1:] if token.startswith(SPACE) else f"##{token}"

    unknown = tokens[facts.size("unknown_token_id", 0, least=0)]
    vocabulary = {spelt(i, t): i for i, t in enumerate(tokens)}
    inner = lib.Tokenizer(lib.models.WordPiece(vocabulary, unk_token=unknown))
    inner.normalizer = lib.normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = lib.pre_tokenizers.BertPreTokenizer()
    inner.decoder = lib.decoders.WordPiece()
    return inner


def _add(lib: Any, inner: Any, facts: Facts, tokens: Sequence[str]) -> None:
    """Say which tokens are never split: control ones, which are left out of texts, and a user's."""
    types = facts.numbers("token_type", "iu", None)
    if types is None:
        return
    for i, kind in enumerate(types[: len(tokens)].tolist()):
        if kind in (CONTROL, USER):
            added = lib.AddedToken(tokens[i], normalized=False, special=kind == CONTROL)
            (inner.add_special_tokens if kind == CONTROL else inner.add_tokens)([added])


def _surround(lib: Any, inner: Any, facts: Facts, tokens: Sequence[str]) -> None:
    """Put tokens at begin and end of a text, as far as the file asks for it."""
    is_bert, is_spm = facts.text("model") == "bert", facts.text("model") == "llama"
    first = "cls" if is_bert and facts.held("cls_token_id") else "bos"
    last = "seperator" if is_bert else "eos"  # so is the key spelt
    begins = facts.flag("add_bos_token", is_bert or is_spm)
    closes = facts.flag("add_eos_token", is_bert)
    at_begin = facts.size(f"{first}_token_id", None, least=0) if begins else None
    at_end = facts.size(f"{last}_token_id", None, least=0) if closes else None
    ids = {tokens[i]: i for i in (at_begin, at_end) if i is not None and i < len(tokens)}
    if ids:
        inner.post_processor = lib.processors.TemplateProcessing(
            single=[t for t in (_at(tokens, at_begin), "$A", _at(tokens, at_end)) if t],
            special_tokens=list(ids.items()),
        )


def _at(tokens: Sequence[str], i: int | None) -> str:
    return tokens[i] if i is not None and i < len(tokens) else ""

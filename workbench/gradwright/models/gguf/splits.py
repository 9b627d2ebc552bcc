"""How text is split before byte pairs are merged: rules by what ``tokenizer.ggml.pre`` says.

A rule is patterns, each of which cuts what the one before has left whole; the names and patterns
are llama.cpp's (llama-vocab.cpp), those of the models themselves where it has spelt them otherwise.
A vocabulary that is split by another rule gives other tokens, so an unknown name is refused.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Split:
    """Patterns, and whether a piece that is a token is taken whole, without merging."""

    patterns: tuple[str, ...]
    ignore_merges: bool = False


_END = r"|\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+" + _END
_ENGLISH = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_MARKS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+" + _END
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_WORD = r"[^\r\n\p{L}\p{N}]?"


def _cased(number: str, ending: str) -> str:
    """Return the rule of words that end where a capital begins."""
    words = f"{_WORD}{_UPPER}*{_LOWER}+{ending}|{_WORD}{_UPPER}+{_LOWER}*{ending}"
    return words + rf"|{number}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+" + _END


_RULES = {
    "gpt-2 phi-2 mpt olmo jais jina-es jina-de jina-v2-es jina-v2-de roberta-bpe gigachat mellum": (
        Split((GPT2,))
    ),
    "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2": (
        Split((rf"{_ENGLISH}|{_WORD}\p{{L}}+|\p{{N}}{{1,3}}" + _MARKS,), ignore_merges=True)
    ),
    "dbrx smaug-bpe chatglm-bpe": Split((rf"{_ENGLISH}|{_WORD}\p{{L}}+|\p{{N}}{{1,3}}" + _MARKS,)),
    "qwen2 deepseek-r1-qwen megrez stablelm2 kormo": (
        Split((rf"{_ENGLISH}|{_WORD}\p{{L}}+|\p{{N}}" + _MARKS,))
    ),
    "tekken": Split((_cased(r"\p{N}", ""),), ignore_merges=True),
    "gpt-4o llama4 kanana2": Split((_cased(r"\p{N}{1,3}", f"{_ENGLISH}?"),)),
    "starcoder refact command-r smollm codeshell exaone minerva-7b": Split((r"\p{N}", GPT2)),
    "falcon": Split((r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]")),
}
SPLITS = {name: rule for names, rule in _RULES.items() for name in names.split()}
"""Name of a rule -> the rule."""


def name_of(patterns: tuple[str, ...], ignore_merges: bool) -> str | None:
    """Return a name of the rule with these patterns, if there is one."""
    wanted = Split(tuple(map(_plain, patterns)), ignore_merges)
    for name, rule in SPLITS.items():
        if Split(tuple(map(_plain, rule.patterns)), rule.ignore_merges) == wanted:
            return name
    return None


_SPELT = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"


def _plain(pattern: str) -> str:
    """Return a pattern as it is compared: spellings of the same thing are one."""
    return pattern.replace(_SPELT, _ENGLISH).replace("'(?i:[sdmt]|ll|ve|re)", _ENGLISH)

"""The tokenizer of a folder of Hugging Face: its ``tokenizer.json``, read when it is first used."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from ..tokenizers import Tokenizer


class PretrainedTokenizer(Tokenizer):
    """The tokenizer of a folder. ``encode`` puts the tokens around a text that its file asks for.

    So a text is what transformers makes of it, unless ``special=False``. Raises GraphError, when it
    is first used, where the library is missing, or the file is damaged.

    >>> import tempfile, pathlib
    >>> from gradwright.models import Tokenizer
    >>> from gradwright.models.huggingface.tokenizer import PretrainedTokenizer
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tokenizer.json")
    >>> Tokenizer.train(["low lower"], vocabulary=257).save(path)
    >>> len(PretrainedTokenizer(path))
    257
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @functools.cached_property
    def inner(self) -> Any:
        """The library's own object."""
        return Tokenizer.load(self.path).inner

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Return the tokens of a text; ``special`` adds those that a template puts around it."""
        return super().encode(text, special=special)

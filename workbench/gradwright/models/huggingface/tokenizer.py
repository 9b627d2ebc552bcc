"""The tokenizer of a folder of Hugging Face: its ``tokenizer.json``, read when it is first used."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import ArchiveError
from ...formats.checked import MAX_JSON, parse_json
from ..tokenizers import Tokenizer

TEMPLATE, CONFIG, SPECIAL = (
    "chat_template.jinja",
    "tokenizer_config.json",
    "special_tokens_map.json",
)


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

    @functools.cached_property
    def special_tokens_map(self) -> dict[str, str]:
        """Special tokens by name, such as ``"eos_token"``, as the files beside it tell them.

        Raises ArchiveError where these are damaged, here and of the template.
        """
        told = {**self._beside(SPECIAL), **self._beside(CONFIG)}
        tokens = {k: v.get("content") if isinstance(v, Mapping) else v for k, v in told.items()}
        return {k: v for k, v in tokens.items() if k.endswith("_token") and isinstance(v, str)}

    @functools.cached_property
    def chat_template(self) -> str | None:
        """The text of the chat template of the folder, if there is one."""
        if (path := self.path.with_name(TEMPLATE)).is_file():
            return _read(path).decode(errors="replace")
        told = self._beside(CONFIG).get("chat_template")
        if isinstance(told, list):
            named = [t for t in told if isinstance(t, Mapping) and t.get("name") == "default"]
            told = named[0].get("template") if named else None
        return told if isinstance(told, str) else None

    def _beside(self, name: str) -> dict[str, Any]:
        path = self.path.with_name(name)
        return parse_json(_read(path), str(path)) if path.is_file() else {}


def _read(path: Path) -> bytes:
    if path.stat().st_size > MAX_JSON:
        raise ArchiveError(f"{path.name} has {path.stat().st_size:,} bytes", where=str(path))
    return path.read_bytes()

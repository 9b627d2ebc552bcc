"""Tokenizers: text to numbers and back, by characters or through the library ``tokenizers``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

from ..errors import GraphError
from ..files.whole import write_text

_TORN = "\N{REPLACEMENT CHARACTER}"
"""What bytes decode to that are no character, or not yet."""


class TextCodec(Protocol):
    """What generation asks of a tokenizer.

    >>> from gradwright.models import Decoder, DecoderConfig
    >>> class Bytes:
    ...     def encode(self, text):
    ...         return list(text.encode())
    ...     def decode(self, ids):
    ...         return bytes(ids).decode(errors="replace")
    >>> model = Decoder(DecoderConfig(vocabulary=256, width=8, layers=1, heads=2))
    >>> model.generation(tokenizer=Bytes()).generate("hi", 1)[0].prompt
    [104, 105]
    """

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens."""


class CharTokenizer:
    """One token for each character that a text has, in the order of their code points.

    Raises GraphError for text with other characters, and for tokens that there are not.

    >>> from gradwright.models import CharTokenizer
    >>> tokenizer = CharTokenizer.train("banana")
    >>> tokenizer.encode("ban"), tokenizer.decode([1, 0, 2]), len(tokenizer)
    ([1, 0, 2], 'ban', 3)
    """

    def __init__(self, characters: Iterable[str]) -> None:
        self.characters = "".join(characters)
        self._numbers = {c: i for i, c in enumerate(self.characters)}
        if not self.characters or len(self._numbers) < len(self.characters):
            raise GraphError(
                "a character tokenizer needs characters", need="one or more, each once"
            )

    @classmethod
    def train(cls, text: str) -> CharTokenizer:
        """Return the tokenizer of all characters of a text."""
        return cls(sorted(set(text)))

    def encode(self, text: str) -> list[int]:
        """Return the number of each character."""
        try:
            return [self._numbers[c] for c in text]
        except KeyError as error:
            at = text.index(error.args[0])
            raise GraphError(
                f"character {error.args[0]!r} at {at} is not in the vocabulary",
                need="one of " + "".join(self.characters),
            ) from None

    def decode(self, ids: Sequence[int]) -> str:
        """Return the characters of these numbers."""
        for i in ids:
            if not 0 <= i < len(self.characters):
                raise GraphError(f"there is no token {i}", need=f"0 to {len(self.characters) - 1}")
        return "".join(self.characters[i] for i in ids)

    def __len__(self) -> int:
        return len(self.characters)

    def __repr__(self) -> str:
        return f"CharTokenizer({self.characters!r})"

    def save(self, path: str | PathLike[str]) -> None:
        """Write the characters as JSON."""
        write_text(path, json.dumps({"characters": self.characters}))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> CharTokenizer:
        """Read what ``save`` wrote; raises GraphError for another file."""
        try:
            data = json.loads(Path(path).read_text("utf-8"))
        except (ValueError, UnicodeDecodeError) as error:
            raise GraphError(f"{path} is no JSON", facts=[str(error)]) from None
        if not isinstance(data, dict) or not isinstance(data.get("characters"), str):
            raise GraphError(f"{path} holds no character tokenizer", need='{"characters": "abc"}')
        return cls(data["characters"])


class Tokenizer:
    """A tokenizer of the library ``tokenizers``: from a ``tokenizer.json``, or trained here.

    ``inner`` is the library's own object, for all that it can do. Raises GraphError where the
    library is missing.

    >>> from gradwright.models import Tokenizer
    >>> tokenizer = Tokenizer.train(["low lower lowest", "new newer"], vocabulary=270)
    >>> ids = tokenizer.encode("lower, naïve")
    >>> tokenizer.decode(ids), len(ids) < len("lower, naïve".encode())
    ('lower, naïve', True)
    """

    def __init__(self, inner: Any) -> None:
        if not hasattr(inner, "encode_batch"):
            raise GraphError(f"{type(inner).__name__} is no tokenizer", hint="Tokenizer.load(path)")
        self.inner = inner

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Tokenizer:
        """Read a ``tokenizer.json``; raises GraphError for a file that is none."""
        lib = library()
        if not Path(path).is_file():
            raise GraphError(f"there is no file {path}", need="a tokenizer.json")
        try:
            return cls(lib.Tokenizer.from_file(str(path)))
        except Exception as error:  # the library raises nothing more special
            raise GraphError(f"{path} is no tokenizer.json", facts=[str(error)]) from None

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocabulary: int,
        *,
        special: Sequence[str] = (),
        min_frequency: int = 2,
    ) -> Tokenizer:
        """Learn byte pairs from texts (Sennrich et al. 2016), on bytes, so that none is unknown.

        Special tokens come first and are never split; then the 256 bytes; then merged pairs that
        occur ``min_frequency`` times or more, up to ``vocabulary`` tokens in all.
        """
        lib = library()
        if vocabulary < 256 + len(special):
            raise GraphError(
                f"a vocabulary of {vocabulary} has no room for all bytes",
                need=f"{256 + len(special)} or more",
            )
        texts = [texts] if isinstance(texts, str) else texts
        inner = lib.Tokenizer(lib.models.BPE())
        inner.pre_tokenizer = lib.pre_tokenizers.ByteLevel(add_prefix_space=False)
        inner.decoder = lib.decoders.ByteLevel()
        trainer = lib.trainers.BpeTrainer(
            vocab_size=vocabulary,
            min_frequency=min_frequency,
            special_tokens=list(special),
            initial_alphabet=sorted(lib.pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        inner.train_from_iterator(texts, trainer)
        return cls(inner)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a ``tokenizer.json``."""
        self.inner.save(str(path))

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Return the tokens of a text; ``special`` adds those a template puts around it."""
        return list(self.inner.encode(text, add_special_tokens=special).ids)

    def encode_batch(self, texts: Sequence[str], *, special: bool = False) -> list[list[int]]:
        """Return the tokens of many texts, encoded in parallel."""
        found = self.inner.encode_batch(list(texts), add_special_tokens=special)
        return [list(e.ids) for e in found]

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """Return the text of tokens; ``special`` ones are left out unless asked for."""
        return str(self.inner.decode(list(ids), skip_special_tokens=not special))

    def decode_batch(self, rows: Sequence[Sequence[int]], *, special: bool = False) -> list[str]:
        """Return the texts of many rows of tokens."""
        rows = [list(row) for row in rows]
        return list(self.inner.decode_batch(rows, skip_special_tokens=not special))

    def id_of(self, token: str) -> int:
        """Return the number of a token such as ``"<eos>"``; raises GraphError if there is none."""
        found = self.inner.token_to_id(token)
        if found is None:
            raise GraphError(f"there is no token {token!r}", hint="Tokenizer.train(special=[...])")
        return int(found)

    def __len__(self) -> int:
        return int(self.inner.get_vocab_size())

    def __repr__(self) -> str:
        return f"<Tokenizer of {len(self)} tokens>"


class TextStream:
    """Text of tokens that come one by one: a character is given once all its bytes are there.

    >>> from gradwright.models import TextStream, Tokenizer
    >>> tokenizer = Tokenizer.train([""], vocabulary=256)
    >>> stream = TextStream(tokenizer)
    >>> [stream.push(i) for i in tokenizer.encode("aé")], stream.finish()
    (['a', '', 'é'], '')
    """

    def __init__(self, tokenizer: TextCodec) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        """The tokens whose text was given last, which decide how the next begin, and newer ones."""
        self._given = 0
        """How many of them have been given."""

    def push(self, token: int) -> str:
        """Return what is new."""
        self._ids.append(token)
        text = self._new()
        if text.endswith(_TORN):
            return ""
        if text:
            self._ids, self._given = self._ids[self._given :], len(self._ids) - self._given
        return text

    def finish(self) -> str:
        """Return what is left, with a replacement character for bytes that are none."""
        text = self._new()
        self._ids, self._given = [], 0
        return text

    def _new(self) -> str:
        known = self._tokenizer.decode(self._ids[: self._given])
        return self._tokenizer.decode(self._ids)[len(known) :]


def decode_stream(tokenizer: TextCodec, ids: Iterable[int]) -> Iterator[str]:
    """Yield the text of tokens as they come, whole characters only.

    >>> from gradwright.models import CharTokenizer, decode_stream
    >>> list(decode_stream(CharTokenizer("abc"), [2, 0]))
    ['c', 'a']
    """
    stream = TextStream(tokenizer)
    for token in ids:
        if text := stream.push(token):
            yield text
    if text := stream.finish():
        yield text


def library() -> Any:
    """Return the library tokenizers; raises GraphError where it is missing."""
    try:
        import tokenizers
        import tokenizers.decoders
        import tokenizers.models
        import tokenizers.normalizers
        import tokenizers.pre_tokenizers
        import tokenizers.processors
        import tokenizers.trainers
    except ImportError:
        raise GraphError(
            "the library tokenizers is not installed",
            hint="pip install tokenizers; or CharTokenizer, which needs nothing",
        ) from None
    return tokenizers

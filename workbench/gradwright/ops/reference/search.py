"""Search by words: which ops are meant, the likeliest first, slips of the keyboard allowed.

A word counts for the best place in which an op has it: its names, ours before those of others, the
first sentence, the rest of its text. Rare words count more (inverse document frequency, Spärck
Jones 1972), so that in "layer norm backward" an op need not have the last one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

PLACES = {"name": 4.0, "alias": 3.0, "summary": 1.5, "text": 0.5}
"""Where a word may stand -> what it counts there."""
WHOLE, INSIDE, COVERED = 12.0, 4.0, 3.0
"""What it counts that all words together are a name, stand in one, or are most of one."""
BEGINNING = 0.7
"""Share of a word that only begins like one that is there, or the other way round."""
SHORTEST = 3
"""Letters of the shortest beginning that counts."""
LEAST = 0.3
"""Share of the words that an op must have, one that only begins alike counting for less."""
SMALL = frozenset(("a", "an", "and", "as", "by", "for", "in", "is", "of", "on", "or", "the", "to"))
"""Words that ask for nothing."""
FAR = 0.35
"""Ops with less than this share of the best score are not shown."""


@dataclass(frozen=True)
class Page:
    """Where an op's words stand: the places of each, and its names without what divides them."""

    words: Mapping[str, float]
    names: tuple[str, ...]
    own: frozenset[str]

    @staticmethod
    def of(name: str, aliases: Iterable[str], summary: str, text: str) -> Page:
        """Return the page of an op.

        >>> Page.of("top_k", ["TopK"], "The largest elements.", "").words["largest"]
        1.5
        """
        aliases = list(aliases)
        found: dict[str, float] = {}
        for place, held in (
            ("text", text), ("summary", summary), ("alias", " ".join(aliases)), ("name", name)
        ):  # fmt: skip
            found |= {w: PLACES[place] for w in words_of(held) if len(w) > 1 or place == "name"}
        joined = tuple(dict.fromkeys("".join(words_of(n)) for n in (name, *aliases)))
        return Page(found, joined, frozenset(words_of(name)))


def words_of(text: str) -> list[str]:
    """Return the words of a text or a name in small letters.

    >>> words_of("maxPooling2d of RMSNorm"), words_of("top_k")
    (['max', 'pooling', '2d', 'of', 'rms', 'norm'], ['top', 'k'])
    """
    apart = re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=\d)(?=[A-Z])", " ", text)
    return re.findall(r"[a-z]+|\d+[a-z]?|[^\W\d_]+", apart.lower())


class Index:
    """Pages, and what a search asks all of them: which have a word, and how rare it is.

    >>> pages = Index([Page.of(n, [], "", "") for n in ("softmax", "log_softmax", "relu")])
    >>> pages.ranked("log sofmax"), pages.ranked("frobnicate")
    ([1, 0], [])
    """

    def __init__(self, pages: Sequence[Page]) -> None:
        self.pages = pages
        self.having: dict[str, list[int]] = {}
        for i, page in enumerate(pages):
            for word in page.words:
                self.having.setdefault(word, []).append(i)
        self.rarity = {w: math.log(1 + len(pages) / len(at)) for w, at in self.having.items()}
        self.own = frozenset(word for page in pages for word in page.own)

    def ranked(self, query: str) -> list[int]:
        """Return the numbers of the pages that are meant by some words, the likeliest first."""
        asked = [_meanings(word, self.having) for word in words_of(query) if word not in SMALL]
        whole = "".join(words_of(query))
        scores = dict.fromkeys(
            sorted({i for meanings in asked for word in meanings for i in self.having[word]}), 0.0
        )
        if len(whole) > SHORTEST:
            named = (i for i, page in enumerate(self.pages) if any(whole in n for n in page.names))
            scores |= dict.fromkeys(named, 0.0)
        for i in scores:
            scores[i] = _score(self.pages[i], asked, whole, self.rarity)
        best = max(scores.values(), default=0.0)
        order = sorted(scores, key=lambda i: (-scores[i], i))
        return [i for i in order if scores[i] > best * FAR]


def _score(
    page: Page, asked: Sequence[Mapping[str, float]], whole: str, rarity: Mapping[str, float]
) -> float:
    """Return how well a page fits; 0 where it has too little of what was asked for."""
    held = [
        max(((share, word) for word, share in meanings.items() if word in page.words), default=None)
        for meanings in asked
    ]
    surely = sum(share for share, _ in filter(None, held))
    inside = len(whole) > SHORTEST and any(whole in name for name in page.names)
    if not inside and (not asked or surely < LEAST * len(asked)):
        return 0.0
    score = 0.0
    for meanings, found in zip(asked, held, strict=True):
        if found:
            # A slip counts by what it most likely stands for, however rare what is near it may be.
            likeliest = max(meanings, key=meanings.__getitem__)
            score += found[0] * rarity[likeliest] * page.words[found[1]]
    known = {word for meanings in asked for word in meanings}
    score += COVERED * len(page.own & known) / max(len(page.own), 1)
    return score + WHOLE * (whole in page.names) + INSIDE * inside


def _meanings(word: str, known: Collection[str]) -> dict[str, float]:
    """Return the words that one may stand for, and how surely."""
    import difflib  # 1 ms, and not every import of the package searches

    found = {
        other: BEGINNING * min(1.0, len(other) / len(word))
        for other in known
        if (other.startswith(word) and len(word) >= SHORTEST)
        or (word.startswith(other) and len(other) > SHORTEST)
    }
    found |= {word: 1.0} if word in known else {}
    if word not in known and len(word) > SHORTEST:
        for other in difflib.get_close_matches(word, known, 3, cutoff=0.75):
            share = difflib.SequenceMatcher(None, word, other).ratio()
            found[other] = max(found.get(other, 0.0), share * BEGINNING)
    return found

"""Kinds of forgeries, and what becomes of each."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.forgeries.checkpoints import Headers, Manifests, Resumed, States
from tests.forgeries.documents import Configs, Documents
from tests.forgeries.forger import Forger
from tests.forgeries.runs import Events, Rows, RunFolders

KINDS: dict[str, Callable[[Path], Forger]] = {
    "record": Resumed,
    "header": Headers,
    "state": States,
    "manifest": Manifests,
    "document": Documents,
    "settings": Configs,
    "run": RunFolders,
    "events": Events,
    "index": Rows,
}


def forged(kind: str, every: int = 1, first: int = 0) -> tuple[Counter[str], list[str]]:
    """Try each ``every``-th forgery of a kind; return what became of them, and what must not be."""
    place = Path(tempfile.mkdtemp(prefix="gradwright-forged-"))
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            forger = KINDS[kind](place)
            for i, (name, make) in enumerate(forger.cases()):
                if i % every != first % every:
                    continue
                try:
                    outcomes[forger.check(make())] += 1
                except Exception as error:  # what must not be: it is told, and the next one tried
                    wrong.append(f"{kind}, {name}: {type(error).__name__}: {str(error)[:200]}")
                    forger.anew()
            if not wrong:
                forger.end()
    finally:
        shutil.rmtree(place)
    return outcomes, wrong

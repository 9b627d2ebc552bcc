"""The pages at the root name only what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(path.name for path in ROOT.glob("*.md"))
FOLDERS = ("workbench", "kernels", "widgets", "notebooks", "tests", "binder")


@pytest.mark.parametrize("page", PAGES)
def test_places_exist(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    links = re.findall(r"\]\((?!https?:|#)([^)\s]+)\)", text)
    words = {word for q in re.findall(r"`([^`\n]+)`", text) for word in q.split()}
    quoted = [
        re.sub(r"<[^>]+>", "*", q)
        for q in sorted(words)
        if re.fullmatch(r"[\w./<>*-]+", q) and q.split("/")[0] in FOLDERS and "/" in q
    ]
    missing = [place for place in links + quoted if not list(ROOT.glob(place.strip("/")))]
    assert not missing, f"{page} names what is not there: {missing}"


@pytest.mark.parametrize("page", PAGES)
def test_commands_exist(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    assert {"test", "lab"} <= targets
    text = (ROOT / page).read_text("utf-8")
    named = set(re.findall(r"(?:^|`)make(?: PYTHON=\S+)? ([a-z-]+)", text, re.M))
    assert named <= targets, f"{page} names targets that the Makefile has not"


def test_recipes_are_short() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    recipes = re.findall(r"^### (.+?)\n(.*?)(?=^#|\Z)", text, re.M | re.S)
    steps = {name: len(re.findall(r"^\d\. ", body, re.M)) for name, body in recipes}
    assert steps.keys() >= {"An op", "A GPU kernel", "A panel", "An optimizer", "A tutorial"}
    assert all(1 <= count <= 6 for count in steps.values()), steps

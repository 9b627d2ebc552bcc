"""The how-tos of the site: each block of code runs, and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("anywidget", reason="pip install -e '.[test]'")
pytest.importorskip("onnxruntime", reason="pip install -e '.[test]'")
HOWTO = Path(__file__).parents[2] / "notebooks/site/howto"
PAGES = sorted(path.stem for path in HOWTO.glob("*.md") if path.stem != "index")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.S | re.M)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_what_its_code_prints(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = BLOCK.findall((HOWTO / f"{page}.md").read_text("utf-8"))
    assert {kind for kind, _ in blocks} <= {"python", "text"} and blocks[0][0] == "python"
    space: dict[str, Any] = {}
    for (kind, text), (after, shown) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if kind == "python":
            exec(compile(text, f"{page}.md", "exec"), space)
            printed = capsys.readouterr().out
            assert after != "text" or printed == shown


def test_links_lead_somewhere_in_the_repository() -> None:
    """As they are followed in JupyterLab, where nothing is built."""
    lost = []
    for path in [*HOWTO.parent.glob("*/*.md"), *HOWTO.parent.glob("tutorials/*.ipynb")]:
        for link in re.findall(r"\]\(([^)\s:#]+)\)", path.read_text("utf-8")):
            if not (path.parent / link).exists():
                lost.append(f"{path.name}: {link}")
    assert not lost


def test_every_page_is_one_question() -> None:
    assert 10 <= len(PAGES) <= 20
    for page in PAGES:
        text = (HOWTO / f"{page}.md").read_text("utf-8")
        assert len(re.findall("^# ", BLOCK.sub("", text), re.M)) == 1
        assert len(text.splitlines()) <= 70, f"{page} is no short page"

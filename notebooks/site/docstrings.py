"""Docstrings as reStructuredText: text stays text, formulas and examples are set as such."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator

from sphinx.ext.napoleon import Config, GoogleDocstring

FORMULA = re.compile(
    r"(?:\w{1,2}, )*[^\s=:([]{1,20}(?: ?[^\s=:([]{1,12})?"
    r"(?:\([^)]*\)|\[(?:[^][]|\[[^]]*\])*\])*,?\s*(?:[=←≈∝~≤]|\+=)\s"
    r"|[(∂Σ|].*[=←]| {2,}\S"
)
"""How a paragraph begins that is a formula: ``y[i, j] = x[i] @ w``, ``m ← β·m``, or set in."""
SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Yields|Example|Examples|Note|Notes):$")
MARKED = re.compile(r"``.+?``|:[\w:]+:`[^`]+`|`[^`]+`", re.S)
NAPOLEON = Config(napoleon_use_ivar=True, napoleon_use_rtype=False)


def as_rst(doc: str | None) -> str:
    """Return a docstring of the house as reStructuredText."""
    out: list[str] = []
    before = ""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(doc or "")):
        first, _, rest = paragraph.partition("\n")
        body = textwrap.dedent(paragraph)
        if first.lstrip().startswith(">>>"):
            out.append(body)
        elif before.endswith("::"):
            out.append(block("code-block:: text", body))
        elif SECTION.match(first):
            out.append(f"{first}\n{plain(rest)}")
        elif FORMULA.match(paragraph) and out:
            out += _formula(body)
        elif re.search(r"^\s", body, re.M):
            out.append(re.sub("^", "| ", plain(body), flags=re.M))
        else:
            out.append(re.sub("::$", ":", plain(body)))
        before = paragraph
    return str(GoogleDocstring("\n\n".join(out), NAPOLEON))


def _formula(text: str) -> Iterator[str]:
    """Yield a formula, whose lines are joined where they go on, and the sentences behind it."""
    lines = text.split("\n")
    joined = lines[0]
    for line in lines[1:]:
        joined += ("\n" if FORMULA.match(line) or "  " in line.strip() else " ") + line.rstrip()
    formula, full_stop, rest = joined.partition(". ")
    yield block("parsed-literal::\n   :class: formula", plain(formula))
    if full_stop:
        yield plain(" ".join(rest.split()))


def block(directive: str, body: str) -> str:
    """Return a directive with its content."""
    return f".. {directive}\n\n{textwrap.indent(body, '   ')}"


def plain(text: str) -> str:
    """Return a text with what reStructuredText would take for marks made plain.

    What stands in backticks is code, and a reference to a class is its public name.
    """
    parts, end = [], 0
    for found in MARKED.finditer(text):
        parts += [_escaped(text[end : found.start()]), _code(found[0])]
        end = found.end()
        if text[end : end + 1].isalnum():  # ``Metric``s
            parts.append("\\ ")
    return "".join([*parts, _escaped(text[end:])])


def _escaped(text: str) -> str:
    return re.sub(r"([\\*|`_])", r"\\\1", text)


def _code(marked: str) -> str:
    name = marked.strip("`").rpartition("`")[2]
    return f"``{name.lstrip('~').replace('gradwright.', 'gw.') if marked[0] == ':' else name}``"

"""The syntax of RE2: a pattern read into the tree of its parts."""

from __future__ import annotations

from typing import Any

from ...errors import GraphError
from .characters import ANY, Characters, category

Tree = tuple[Any, ...]
"""A part of a pattern: its kind, and what it is made of."""

MAX_REPEAT = 1000
MAX_NESTING = 200
_DIGIT, _UPPER, _LOWER = (
    Characters.of(("0", "9")),
    Characters.of(("A", "Z")),
    Characters.of(("a", "z")),
)
_ALPHA, _GRAPH = _UPPER | _LOWER, Characters.of(("!", "~"))
_WORD = _ALPHA | _DIGIT | Characters.of("_")
_ASCII = Characters.of(("\0", "\x7f"))
_POSIX = {
    "alpha": _ALPHA, "digit": _DIGIT, "alnum": _ALPHA | _DIGIT, "upper": _UPPER, "lower": _LOWER,
    "ascii": _ASCII, "word": _WORD, "blank": Characters.of(" ", "\t"), "graph": _GRAPH,
    "space": Characters.of(("\t", "\r"), ("\x1c", " ")), "print": _GRAPH | Characters.of(" "),
    "punct": _GRAPH & ~(_ALPHA | _DIGIT), "cntrl": Characters.of(("\0", "\x1f"), "\x7f"),
    "xdigit": _DIGIT | Characters.of(("a", "f"), ("A", "F")),
}  # fmt: skip
PERL = {"d": _DIGIT, "w": _WORD, "s": Characters.of("\t", "\n", "\f", "\r", " ")}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}


class Parser:
    """Reads a pattern into a tree of nested tuples."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self.flags = {"i": False, "m": False, "s": False, "U": False}

    def read(self) -> Tree:
        """Return the tree of the whole pattern."""
        tree = self._alternatives()
        if self.at < len(self.text):
            raise self._error("an unopened ')'")
        return tree

    def _error(self, what: str) -> GraphError:
        return GraphError(
            f"the pattern {self.text[:80]!r} is not understood at position {self.at}: {what}",
            need="RE2's syntax, without look-around and back-references",
        )

    def _peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def _alternatives(self) -> Tree:
        branches = [self._sequence()]
        while self._peek() == "|":
            self.at += 1
            branches.append(self._sequence())
        return ("either", branches) if len(branches) > 1 else branches[0]

    def _sequence(self) -> Tree:
        parts = []
        while (c := self._peek()) and c not in "|)":
            if self.text.startswith("\\Q", self.at):
                parts += self._quoted()
                continue
            parts.append(self._repeated(self._atom()))
        return "sequence", parts

    def _quoted(self) -> list[Tree]:
        r"""Read ``\Q...\E``, plain text of which only the last character can be repeated."""
        close = self.text.find("\\E", self.at)
        close = len(self.text) if close < 0 else close
        parts: list[Tree] = [("char", self._literal(c)) for c in self.text[self.at + 2 : close]]
        self.at = min(close + 2, len(self.text))
        return [*parts[:-1], *(self._repeated(part) for part in parts[-1:])]

    def _repeated(self, part: Tree) -> Tree:
        """Read ``*``, ``+``, ``?`` or ``{n,m}`` behind an atom; lazy ones match the same texts."""
        c = self._peek()
        bounds: tuple[int, int | None] | None
        if c and c in "*+?":
            self.at += 1
            bounds = {"*": (0, None), "+": (1, None), "?": (0, 1)}[c]
        else:
            bounds = self._braces() if c == "{" else None
        if bounds is None:
            return part
        if self._peek() == "?":
            self.at += 1
        if self._peek() and self._peek() in "*+?":
            raise self._error("two repetitions in a row")
        return "repeat", part, *bounds

    def _braces(self) -> tuple[int, int | None] | None:
        """Read ``{n}``, ``{n,}`` or ``{n,m}``; anything else is plain text."""
        close = self.text.find("}", self.at)
        parts = self.text[self.at + 1 : close].split(",") if close > 0 else []
        if len(parts) not in (1, 2) or not parts[0].isdecimal() or len(parts[0]) > 4:
            return None
        if len(parts) == 2 and parts[1] and (not parts[1].isdecimal() or len(parts[1]) > 4):
            return None
        least = int(parts[0])
        most = least if len(parts) == 1 else int(parts[1]) if parts[1] else None
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise self._error(f"repetitions beyond {MAX_REPEAT}, or from more to less")
        self.at = close + 1
        return least, most

    def _atom(self) -> Tree:
        c = self._peek()
        if c == "(":
            return self._group()
        self.at += 1
        if c == "[":
            return "char", self._class()
        if c == ".":
            return "char", ANY if self.flags["s"] else ~Characters.of("\n")
        if c == "^":
            return "empty", "^m" if self.flags["m"] else "^"
        if c == "$":
            return "empty", "$m" if self.flags["m"] else "$"
        if c in "*+?":
            raise self._error("nothing to repeat")
        return self._escape() if c == "\\" else ("char", self._literal(c))

    def _literal(self, c: str) -> Characters:
        others = (c.lower(), c.upper()) if self.flags["i"] else ()
        return Characters.of(c, *(other for other in others if len(other) == 1))

    def _group(self) -> Tree:
        self.at += 1
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise self._error(f"groups nest deeper than {MAX_NESTING}")
        held = dict(self.flags)
        if self._peek() == "?":
            self.at += 1
            if self._peek() in ("P", "<"):
                self.at += self._peek() == "P"
                close = self.text.find(">", self.at)
                if self._peek() != "<" or not self.text[self.at + 1 : close].isidentifier():
                    raise self._error("a group's name")
                self.at = close + 1
            elif self._flags():
                self.depth -= 1
                return "sequence", ()
        tree = self._alternatives()
        if self._peek() != ")":
            raise self._error("an unclosed '('")
        self.at += 1
        self.depth -= 1
        self.flags = held
        return tree

    def _flags(self) -> bool:
        """Read ``?i-s:`` and tell whether it stands for the rest of the group, as ``(?i)``."""
        value = True
        while (c := self._peek()) and c not in ":)":
            if c == "-":
                value = False
            elif c in "imsU":
                self.flags[c] = value
            else:
                raise self._error(f"the group (?{c}")
            self.at += 1
        self.at += 1
        return c == ")"

    def _escape(self) -> Tree:
        c = self._peek()
        if c and c in "AzbB":
            self.at += 1
            return "empty", {"A": "^", "z": "$"}.get(c, c)
        return "char", self._escaped()

    def _escaped(self) -> Characters:
        """Read what stands behind a backslash, in a class or outside."""
        c = self._peek()
        self.at += 1
        if c and c.lower() in PERL:
            fits = PERL[c.lower()]
            return ~fits if c.isupper() else fits
        if c and c in "pP":
            return self._property(c == "P")
        if c == "x":
            return self._literal(self._hex())
        if c and c in _ESCAPES:
            return self._literal(_ESCAPES[c])
        if not c or (c.isalnum() and c.isascii()):
            raise self._error(f"the escape \\{c}")
        return self._literal(c)

    def _hex(self) -> str:
        if self._peek() == "{":
            close = self.text.find("}", self.at)
            digits, self.at = self.text[self.at + 1 : close], close + 1
        else:
            digits, self.at = self.text[self.at : self.at + 2], self.at + 2
        if not 1 <= len(digits) <= 6 or any(d not in "0123456789abcdefABCDEF" for d in digits):
            raise self._error("a character by number")
        number = int(digits, 16)
        if number > 0x10FFFF:
            raise self._error("a character by number")
        return chr(number)

    def _property(self, negated: bool) -> Characters:
        if self._peek() == "{":
            close = self.text.find("}", self.at)
            name, self.at = self.text[self.at + 1 : close], close + 1
        else:
            name, self.at = self._peek(), self.at + 1
        negated ^= name.startswith("^")
        name = name.removeprefix("^")
        if len(name) > 2 or not name.isalpha():
            raise self._error(f"the property {name[:20]!r}")
        return ~category(name) if negated else category(name)

    def _class(self) -> Characters:
        """Read ``[...]``, its opening bracket is behind."""
        negated = self._peek() == "^"
        self.at += negated
        found = Characters([])
        begin = self.at
        while self._peek() != "]" or self.at == begin:
            c = self._peek()
            if not c:
                raise self._error("an unclosed '['")
            if self.text.startswith("[:", self.at):
                found |= self._posix()
                continue
            low = self._member()
            if isinstance(low, Characters):
                found |= low
                continue
            high = low
            if self._peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                member = self._member()
                if isinstance(member, Characters) or member < low:
                    raise self._error("a range of characters")
                high = member
            between = Characters.of((low, high))
            found |= between.either_case() if self.flags["i"] else between
        self.at += 1
        return ~found if negated else found

    def _posix(self) -> Characters:
        close = self.text.find(":]", self.at)
        name = self.text[self.at + 2 : close] if close > 0 else ""
        wanted = _POSIX.get(name.removeprefix("^"))
        if wanted is None:
            raise self._error("a class of characters")
        self.at = close + 2
        return ~wanted if name.startswith("^") else wanted

    def _member(self) -> str | Characters:
        """Return a character of a class, or a set of several."""
        c = self._peek()
        self.at += 1
        if c != "\\":
            return c
        d = self._peek()
        if d and (d.lower() in PERL or d in "pP"):
            return self._escaped()
        self.at += 1
        if d == "x":
            return self._hex()
        return _ESCAPES.get(d, d)

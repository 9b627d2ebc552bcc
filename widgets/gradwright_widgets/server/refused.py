"""An answer that is none: what a page is told, and the status of HTTP it comes with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class RefusedError(Exception):
    """A request that is not answered, and why; all of it is text."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str = "",
        where: str = "",
        facts: Sequence[str] = (),
        need: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code
        self.where, self.facts, self.need, self.hint = where, list(facts), need, hint

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as JSON has it.

        >>> RefusedError(404, "there is no such file", where="a.gw").as_dict()["message"]
        'there is no such file'
        """
        return {
            "code": self.code,
            "message": self.message,
            "where": self.where,
            "facts": self.facts,
            "need": self.need,
            "hint": self.hint,
        }

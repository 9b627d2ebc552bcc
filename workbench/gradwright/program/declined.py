"""What is raised where one of several ways does not take what it was offered."""

from __future__ import annotations

from ..errors import GradwrightError


class DeclinedError(GradwrightError):
    """A rewrite, a fusion rule or machine code does not fit here: another way is taken."""

    def __init__(self, problem: str = "does not fit") -> None:
        super().__init__(problem)

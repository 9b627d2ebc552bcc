"""A reward of code: what share of its tests a completion passes, run in a sandbox."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar

from ...errors import GraphError
from ...words.jsonable import jsonable
from .rule import Rule, Texts, column_of
from .sandbox.enforced import enforced
from .sandbox.sandbox import CodeLimits, Ran, best_way, run_code

FENCE = re.compile(r"^```[^\S\n]*(?:python3?|py)?[^\S\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


@jsonable
@dataclass(frozen=True)
class Code(Rule):
    """The share of its tests that the Python code of a completion passes: passed/tests.

    The code is the first block between fences of backticks, or the whole text. It runs in a process
    of its own, in an empty folder, without an environment or input, within ``limits``; then the
    row's tests, a string of Python or several in the column ``column``, run on the names that it
    has left. A test passes if it raises nothing. Code that fails, takes too long or leaves early
    gives 0; rows whose tests are None have nothing to say. With ``column=None`` it is 1 for code
    that comes to its end. Only the standard library can be imported.

    Code runs only where ``allow=True`` says so, which is never saved: no file switches it on. What
    a machine cannot enforce is said by ``enforced()``: look at it before you allow. Tests stand in
    the process of the code that they judge, so code that is out to cheat them can.

    Raises GraphError without ``allow``, and where no such process can be begun.

    >>> import gradwright as gw
    >>> code = gw.align.Code(allow=True)
    >>> tests = ["assert double(2) == 4", "assert double(None) is None"]
    >>> code([""], ["def double(x): return x + x"], tests=[tests])
    [0.5]
    """

    column: str | None = "tests"
    limits: CodeLimits = field(default_factory=CodeLimits)
    workers: int | None = None
    """How many run at once; None is half the processors, at most 8."""
    allow: InitVar[bool] = False
    limited: ClassVar[bool] = True

    def __post_init__(self, allow: bool) -> None:
        if allow is not True:
            raise GraphError(
                "this reward runs what a model writes, and is off",
                need="allow=True",
                hint="look first at gw.align.Code.enforced(), what limits hold on this machine",
            )
        if self.workers is not None and self.workers < 1:
            raise GraphError(f"workers={self.workers} makes no sense", need="workers >= 1")
        best_way()

    @staticmethod
    def enforced() -> dict[str, bool]:
        """Return which limits hold on this machine, by name, as a program found that tried them.

        >>> import gradwright as gw
        >>> set(gw.align.Code.enforced().values()) <= {True, False}
        True
        """
        return enforced()

    def __call__(self, prompts: Texts, completions: Texts, **columns: Sequence[Any]) -> Any:
        rows = len(completions)
        held: Sequence[Any] = [[]] * rows
        if self.column is not None:
            held = column_of(columns, self.column, rows, self)
        workers = self.workers or min(8, max(1, (os.cpu_count() or 2) // 2))
        pool = ThreadPoolExecutor(workers, "code")
        try:
            return list(pool.map(self._of, completions, held))
        finally:  # an interrupt waits for those that run, and begins no other
            pool.shutdown(cancel_futures=True)

    def run(self, completion: str, tests: str | Sequence[str] = ()) -> Ran:
        r"""Return what comes of one completion: what passed, what went wrong, what it printed.

        >>> import gradwright as gw
        >>> gw.align.Code(allow=True).run("print(6 * 7)").output
        '42\n'
        """
        fenced = FENCE.search(completion)
        asked = [tests] if isinstance(tests, str) else [str(test) for test in tests]
        return run_code(fenced[1] if fenced else completion, asked, self.limits)

    def _of(self, completion: str, tests: Any) -> float:
        if tests is None:
            return float("nan")
        ran = self.run(completion, tests)
        return sum(ran.passed) / len(ran.passed) if ran.passed else float(ran.whole)

"""How far a check has come, shown while it runs, and whether it should stop."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

ShouldStop = Callable[[], bool] | threading.Event | None
Progress = bool | Callable[[int, int, str], None]


def asked(should_stop: ShouldStop) -> bool:
    """Tell whether somebody asked to stop."""
    if should_stop is None:
        return False
    return should_stop.is_set() if isinstance(should_stop, threading.Event) else should_stop()


@contextlib.contextmanager
def bar(progress: Progress, total: int) -> Iterator[Callable[[int, str], None]]:
    """Give a function that shows how much is done and what comes next."""
    if callable(progress):
        yield lambda done, name: progress(done, total, name)
        return
    if not progress:
        yield lambda done, name: None
        return
    from tqdm.auto import tqdm

    with tqdm(total=total, desc="gradient check", unit="check") as shown:

        def show(done: int, name: str) -> None:
            shown.set_postfix_str(name, refresh=False)
            shown.update(done - shown.n)

        yield show

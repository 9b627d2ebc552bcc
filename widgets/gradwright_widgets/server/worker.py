"""The process that reads files for the server: one request after the other, within bounds.

What goes wrong with a request is its answer. It ends when the server does.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import sys
import threading
import traceback
from typing import Any

from .wire import read_request, write_answer

MEMORY = 1 << 32
"""Bytes of address space, where the system counts them."""


def main() -> None:
    """Answer requests from the standard input until it ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    bound()
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    from .answers.asked import Asked, answered, warm

    gc.disable()  # looking for circles among the parts of a graph takes a third of building it
    while True:
        asked = Asked.read(requests.get())
        try:
            status, data = answered(asked)
        except MemoryError:
            status, data = _refusal(413, "it takes more memory than is allowed")
        except Exception as error:  # a mistake of ours: the server has it in its log
            traceback.print_exc()
            status, data = _refusal(500, f"this went wrong: {type(error).__name__}")
        write_answer(answers, status, data)
        del data
        if asked.task == "formats":  # a page has come up: soon it opens a file
            warm()
        gc.collect()


def _listen(requests: queue.SimpleQueue[Any]) -> None:
    """Take requests, and notice while one is answered that the server is gone."""
    try:
        while True:
            requests.put(read_request(sys.stdin.buffer))
    except BaseException:
        os._exit(0)


def _refusal(status: int, message: str) -> tuple[int, bytes]:
    return status, json.dumps({"message": message}).encode()


def bound() -> None:
    """Bound memory, and leave no dump of it behind."""
    try:
        import resource
    except ImportError:  # Windows has no such bounds
        return
    for kind, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(kind)
        bounded = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (bounded, hard))


if __name__ == "__main__":
    main()

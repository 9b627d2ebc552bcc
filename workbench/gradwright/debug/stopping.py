"""Stopping a thread: an exception raised in it from outside, at its next line of Python."""

from __future__ import annotations

import threading


class Stopped(SystemExit):
    """A thread was asked to end; who catches errors does not catch it, and nobody prints it."""


def stop(thread: threading.Thread) -> None:
    """Raise ``Stopped`` in a thread, where it runs Python; a call of C is let come to its end.

    >>> import threading, time
    >>> from gradwright.debug.stopping import Stopped, stop
    >>> def work():
    ...     try:
    ...         while True:
    ...             time.sleep(0.001)
    ...     except Stopped:
    ...         ended.append(True)
    >>> ended = []
    >>> thread = threading.Thread(target=work)
    >>> thread.start(), stop(thread), thread.join(), ended
    (None, None, None, [True])
    """
    import ctypes  # the interpreter has no other way; not every one has it

    if thread.ident is not None:
        raised = ctypes.py_object(Stopped)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), raised)

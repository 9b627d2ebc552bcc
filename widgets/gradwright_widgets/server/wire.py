"""How the server and the processes that read for it talk: requests and answers over pipes."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

REQUEST, ANSWER = struct.Struct(">I"), struct.Struct(">IQ")
"""Before a request its size; before an answer its status and size."""


def write_request(stream: BinaryIO, request: Mapping[str, Any]) -> None:
    """Send a request."""
    data = json.dumps(request).encode("utf-8", "surrogatepass")
    stream.write(REQUEST.pack(len(data)) + data)
    stream.flush()


def read_request(stream: BinaryIO) -> Any:
    """Return the next request; raises EOFError where the other side is gone."""
    (size,) = REQUEST.unpack(_exactly(stream, REQUEST.size))
    return json.loads(_exactly(stream, size).decode("utf-8", "surrogatepass"))


def write_answer(stream: BinaryIO, status: int, data: bytes) -> None:
    """Send an answer.

    >>> import io
    >>> pipe = io.BytesIO()
    >>> write_answer(pipe, 200, b"{}")
    >>> read_answer(io.BytesIO(pipe.getvalue()))
    (200, b'{}')
    """
    stream.write(ANSWER.pack(status, len(data)))
    stream.write(data)
    stream.flush()


def read_answer(stream: BinaryIO) -> tuple[int, bytes]:
    """Return status and data of the next answer; raises EOFError where the other side is gone."""
    status, size = ANSWER.unpack(_exactly(stream, ANSWER.size))
    return status, _exactly(stream, size)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    parts, left = [], size
    while left:
        data = stream.read(left)
        if not data:
            raise EOFError
        parts.append(data)
        left -= len(data)
    return b"".join(parts)

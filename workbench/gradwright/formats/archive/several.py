"""An archive in several files: an index, which is the archive, and files of arrays beside it.

``model.gw`` holds the graph and names ``model-<token>-00001-of-00003.safetensors`` and so on, with
sizes and checksums. The token is made of the contents: other contents are other names, so what is
written never touches what an index refers to, until the new index takes the place of the old one.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import ArchiveError
from ...files.whole import replacing
from ..checked import MAX_JSON, parse_json
from ..source import at
from .container import MANIFEST, Writer
from .tensors import Shard


@dataclass(frozen=True)
class Part:
    """A shard as a file."""

    shard: Shard
    file: str
    header: bytes
    size: int
    crc32: int
    """Of what follows the header, which states it."""


@contextlib.contextmanager
def beside(
    target: Path, texts: Mapping[str, bytes], shards: Sequence[Shard], prefix: str
) -> Iterator[list[Part]]:
    """Write the files of shards, let an index of them be written, and remove those of the old one.

    Whatever ends it, the files of the index that is there then stay, and of the other one none.
    """
    old = files_of(target) or set()
    parts = _parts(target, texts, shards) if shards else []
    try:
        for part in parts:
            with replacing(target.with_name(part.file), prefix) as stream:
                for data in itertools.chain([part.header], part.shard.data()):
                    stream.write(data)
        yield parts
    finally:
        ours = old | {part.file for part in parts}
        if ours and (needed := files_of(target)) is not None:
            for name in ours - needed:
                with contextlib.suppress(OSError):  # what cannot be removed is in nobody's way
                    target.with_name(name).unlink()


def _parts(target: Path, texts: Mapping[str, bytes], shards: Sequence[Shard]) -> list[Part]:
    """Return what to write, under names that are made of it."""
    sums = [_crc32(shard) for shard in shards]
    told = repr((dict(texts), [shard.header() for shard in shards], sums)).encode()
    token = hashlib.blake2b(told, digest_size=8).hexdigest()
    parts = []
    for i, (shard, crc32) in enumerate(zip(shards, sums, strict=True), 1):
        file = f"{target.stem}-{token}-{i:05}-of-{len(shards):05}.safetensors"
        parts.append(Part(shard, file, *shard.header(crc32=f"{crc32:08x}"), crc32))
    return parts


def refer(writer: Writer, part: Part) -> None:
    """Note in an index what is in a file."""
    writer.refer(part.shard.name, part.size, part.crc32, zlib.crc32(part.header), part.file)


def files_of(target: Path) -> set[str] | None:
    """Return the files called as an archive's own that it names; None where it cannot be read.

    Nothing else is ever removed, whatever an archive says.
    """
    if not target.is_file():
        return set()
    own = re.compile(
        re.escape(target.stem) + r"-[0-9a-f]{16}-\d{5}-of-\d{5}\.safetensors", re.ASCII
    )
    try:
        manifest = parse_json(at(target).part(MANIFEST).read(0, MAX_JSON), MANIFEST)
        named = [row.get("file") for row in manifest["members"].values()]
    except (ArchiveError, OSError, AttributeError, KeyError):
        return None
    return {file for file in named if isinstance(file, str) and own.fullmatch(file)}


def _crc32(shard: Shard) -> int:
    crc32 = 0
    for data in shard.data():
        crc32 = zlib.crc32(data, crc32)
    return crc32

"""Saving and loading: the doors to the archive."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import re
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ...errors import ArchiveError, GraphError, user_site
from ...files.whole import replacing
from ...graph import Graph
from ...graph.collecting import without_collecting
from ...graph.doors import door
from ..checked import MAX_JSON
from ..registry import mistaken
from ..source import naming
from .container import NoArchiveError, Reader, Writer
from .document import DOCUMENT, DocumentWriter
from .rebuild import Document, GraphReader
from .several import beside, refer
from .tensors import Shard, check_tensors, read_tensors, sharded, write_shard

Array = np.ndarray[Any, Any]
AnyPath = str | os.PathLike[str]


class Origin(NamedTuple):
    """The archive that a graph came from."""

    path: Path
    stamp: int
    """The checksum of its manifest, which tells it from all that may be written there later."""


ORIGINS: weakref.WeakKeyDictionary[Graph, Origin] = weakref.WeakKeyDictionary()
"""Where graphs were loaded from."""

VALUES = "values"
STATE = "state"
_STATE_NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)


def save(
    graph: Graph,
    path: AnyPath,
    *,
    trainer: Any = None,
    state: Mapping[str, Mapping[str, Any]] | None = None,
    max_file_bytes: int | None = None,
    max_shard_bytes: int = 1 << 32,
) -> None:
    """Write a graph with its values to a ``.gw`` archive, as a whole or not at all.

    With ``trainer``, its configuration, state and history are kept, too, and the values are those
    that it trains: ``gw.load(path).trainer()`` goes on. ``state`` are further sets of named arrays.
    What would be more than ``max_file_bytes`` becomes several files: ``path`` has the graph, and
    names files beside it with at most so many bytes of arrays each, or with one array; else arrays
    are split into members of at most ``max_shard_bytes``. Gradients and updates are derived anew
    after loading, so they are saved only where nodes of the user or ``g.updates`` need them. Equal
    graphs with equal values give equal bytes, and equal names of files.

    Raises:
        GraphError: an op is not registered, or an attribute or array cannot be stored.
        TrainingError: the trainer is of another graph, or its configuration has functions in it.
        OSError: the file cannot be written; one that was there before is as it was.

    >>> import gradwright as gw, tempfile, pathlib
    >>> g = gw.Graph("line")
    >>> y = g.placeholder("x", ("B", 2)) @ g.variable("w", (2, 1), init=1.0)
    >>> path = pathlib.Path(tempfile.mkdtemp(), "line.gw")
    >>> gw.save(g, path, state={"optimizer": {"w/momentum": [[0.5], [0.25]]}})
    >>> g2 = gw.load(path)
    >>> g2.output({"x": [[1.0, 2.0]]}, "matmul")["matmul"].tolist()
    [[3.0]]
    >>> gw.load_state(path, "optimizer")["w/momentum"].tolist()
    [[0.5], [0.25]]
    """
    if not isinstance(graph, Graph):
        raise GraphError(f"{graph!r} is no graph", need="save(graph, path)")
    for what, most in (("max_shard_bytes", max_shard_bytes), ("max_file_bytes", max_file_bytes)):
        if most is not None and (type(most) is not int or most <= 0):
            raise GraphError(f"{what}={most!r}", need="a positive number of bytes")
    sets = {name: check_tensors(held, f"state {name!r}") for name, held in (state or {}).items()}
    for name in sets:
        if not _STATE_NAME.fullmatch(name):
            raise GraphError(f"{name!r} cannot name a state", need="letters, digits, _ and -")
    if trainer is None:
        graph.settle()
        document = DocumentWriter()
        texts = {DOCUMENT: document.write(graph, graph.values.snapshot(), streams_of(graph))}
        values = check_tensors(document.arrays, VALUES)
    else:
        texts, values, own = door("training")(graph, trainer)
        if both := sorted(own.keys() & sets.keys()):
            raise GraphError(f"state {both[0]!r} is what the trainer is kept as")
        sets |= own
    write_archive(
        path, texts, values, sets, max_file_bytes=max_file_bytes, max_shard_bytes=max_shard_bytes
    )


def write_archive(
    path: AnyPath,
    texts: Mapping[str, bytes],
    values: Mapping[str, Array],
    sets: Mapping[str, Mapping[str, Array]],
    *,
    max_file_bytes: int | None = None,
    max_shard_bytes: int = 1 << 32,
    prefix: str = ".gw",
    follow: bool = True,
) -> None:
    """Write an archive of texts, values and sets of arrays that ``check_tensors`` has passed.

    ``prefix`` begins the name of the file that is written first and then takes the place of
    ``path``, or with ``follow`` of what a link there points to.
    """
    for name, text in texts.items():
        if len(text) > MAX_JSON:
            raise GraphError(
                f"{name}: {len(text):,} bytes of JSON could not be read again, limit {MAX_JSON:,}"
            )
    target = Path(path).resolve() if follow else Path(path).absolute()
    folders = {VALUES: values, **{f"{STATE}/{name}": arrays for name, arrays in sets.items()}}

    def shards(most: int, **how: bool) -> list[Shard]:
        return [s for folder, held in folders.items() for s in sharded(folder, held, most, **how)]

    inside, outside = shards(max_shard_bytes), []
    if max_file_bytes is not None:
        nbytes = sum(shard.header()[1] for shard in inside) + sum(map(len, texts.values()))
        if nbytes > max_file_bytes:
            inside, outside = [], shards(max_file_bytes, with_header=True)
    with (
        beside(target, texts, outside, prefix) as parts,
        replacing(target, prefix, follow=follow) as file,
        Writer(file) as writer,
    ):
        for name, text in texts.items():
            writer.add(name, len(text), [text])
        for shard in inside:
            write_shard(writer, shard)
        for part in parts:
            refer(writer, part)


def load(
    path: AnyPath, *, mmap: bool = False, ops: str | ModuleType | Iterable[str | ModuleType] = ()
) -> Graph:
    """Return the graph of an archive, with its values.

    Nothing in the file is trusted: no code of it is run, no module that it names is imported, all
    sizes, checksums, names and shapes are verified, and a file that fails raises ArchiveError
    before a graph exists. With ``mmap=True`` the arrays are mapped read-only from the file: they
    take no memory until used, and their checksums are not verified, since that would read them. Of
    an archive in several files, each has to be there, whole and its own; one that is not is named.

    Own ops are found where they are registered: in this process, in modules that ``ops`` names,
    which are imported first, and in installed packages whose entry point ``gradwright.ops`` is
    called as the owner of the op is: ``acme = "acme_ops"`` for ``acme/double``. All others become
    :class:`~gradwright.formats.archive.UnknownOp`: drawn and saved again, but not run.

    Raises:
        ImportError: there is no module that ``ops`` names.
        ArchiveError: the file is damaged, unsafe, or of a newer or another format; says which
            member and why, or what reads such a file.
        OSError: the file cannot be opened.

    >>> import gradwright as gw, tempfile, pathlib
    >>> g = gw.Graph()
    >>> w = g.variable("w", (1000,), init=1.5)
    >>> path = pathlib.Path(tempfile.mkdtemp(), "big.gw")
    >>> g.save(path)
    >>> gw.load(path, mmap=True).values["w"][:2].tolist()
    [1.5, 1.5]
    """
    site = user_site()
    named: Iterable[str | ModuleType] = (ops,) if isinstance(ops, str | ModuleType) else ops
    for module in named:
        if isinstance(module, str):  # a module that is given has been imported
            importlib.import_module(module)
    with opened(path) as reader:
        document = Document(reader.json(DOCUMENT))
        if document.apart:
            raise ArchiveError(
                f"it holds what was trained alone: {len(document.apart):,} arrays of the model, "
                f"such as {document.apart[0][:60]!r}, were left out",
                hint="gw.resume(trainer, folder, path), whose graph is of that model",
            )
        with without_collecting():
            graph = GraphReader(document, read_tensors(reader, VALUES, mmap), site).read()
        ORIGINS[graph] = Origin(Path(path).absolute(), reader.stamp)
        return graph


def load_state(path: AnyPath, name: str, *, mmap: bool = False) -> dict[str, Array]:
    """Return a set of arrays that was saved as ``state={name: ...}``.

    >>> import gradwright as gw, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "g.gw")
    >>> gw.save(gw.Graph(), path, state={"ema": {"w": [1.0, 2.0]}})
    >>> gw.load_state(path, "ema")
    {'w': array([1., 2.])}
    """
    with opened(path) as reader:
        known = states_of(reader)
        if name not in known:
            raise ArchiveError(
                f"no state is called {name!r}", facts=[f"it holds {', '.join(known) or 'none'}"]
            )
        return read_tensors(reader, f"{STATE}/{name}", mmap)


@contextlib.contextmanager
def reopened(graph: Graph) -> Iterator[Reader]:
    """Open the archive that a graph was loaded from; raises ArchiveError if it is another now."""
    origin = ORIGINS[graph]
    with opened(origin.path) as reader:
        if reader.stamp != origin.stamp:
            raise ArchiveError(
                f"the file has changed since graph {graph.name!r} was loaded from it",
                hint="gw.load it again",
            )
        yield reader


def states_of(reader: Reader) -> list[str]:
    """Return the names of the states in an archive."""
    folders = dict.fromkeys(n.rpartition("/")[0] for n in reader.members)
    return [f.removeprefix(STATE + "/") for f in folders if f.startswith(STATE + "/")]


@contextlib.contextmanager
def opened(path: AnyPath) -> Iterator[Reader]:
    """Open an archive, and put its path into the errors met while it is open."""
    with naming(str(os.fspath(path))):
        try:
            reader = Reader(Path(path))
        except IsADirectoryError as error:
            raise mistaken(path, "gw", "checkpoint") or error from None
        except NoArchiveError as error:
            plain = ArchiveError(error.problem, facts=error.facts, hint=error.hint)
            raise mistaken(path, "gw", "checkpoint") or plain from None
        with reader:
            yield reader


def streams_of(graph: Graph) -> int:
    """Return how many random streams were given out."""
    while graph.parent is not None:
        graph = graph.parent
    count = graph.next_stream()
    graph._streams = itertools.count(count)
    return count

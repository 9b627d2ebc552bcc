"""Kept: plans on disk, found again by the content of a request in any process of this user.

A key is the hash of all that a plan depends on: nodes with their ops, wiring, names and specs, the
elements of constants, what is fetched, fed and updated, options, rules, versions, this package's
own files, and what the device says of itself. Whatever cannot be told by content is not kept, and
says why. What is read is data: no code is stored, none is looked up but ops by name.

``GRADWRIGHT_PLANS=off`` keeps none, ``GRADWRIGHT_CACHE=off`` neither plans nor machine code.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..files.trusted import PLANS
from ..graph import Constant, Node, SubGraph, Tensor
from ..graph.collecting import without_collecting
from ..op import Op
from ..op.declare import Frozen
from ..program.lowering import replaced_ops
from ..program.program import Program
from ..program.stored import NotStorableError, Places, Reader, Writer, is_ours
from ..rewrite.table import RULES
from ..spec import TensorSpec, content_of

if TYPE_CHECKING:
    from .plan import Plan

LOG = logging.getLogger("gradwright")
LEAST = 64
"""Nodes from which a plan is kept: fewer are planned as fast, 3 ms."""
MOST = 256 << 20
"""Bytes of constants that are hashed at most, which takes 0.2 s."""
_begun = time.time_ns()


class Kept:
    """Where the plan of a request is on disk: the program of its only segment, and what came of it.

    ``state`` says whether it was read, written, or why it is not kept.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> plan = gw.Session(g).plan(gw.exp(g.placeholder("x", (3,))), {"x": (3,)})
    >>> plan.kept
    <Kept: not on disk: fewer than 64 nodes>
    """

    state, _key, is_read = "", "", False

    @without_collecting()
    def __init__(
        self, plan: Plan, feeds: Mapping[Tensor, TensorSpec], sizes: Mapping[str, int]
    ) -> None:
        try:
            self._key = _key(plan, feeds, sizes)
            self._places = Places(plan.feeds, plan.order, plan.training, sizes)
        except NotStorableError as error:
            self.refuse(str(error))

    @classmethod
    def none(cls, why: str) -> Kept:
        """Return what neither reads nor writes, and why."""
        made = cls.__new__(cls)
        made.refuse(why)
        return made

    def refuse(self, why: str) -> None:
        """Neither read nor write from now on."""
        if self._key or not self.state:  # the first reason stays
            self._key, self.state = "", f"not on disk: {why}"

    def __repr__(self) -> str:
        return f"<Kept: {self.state}>"

    def read(
        self, part: str, empty: Callable[[], Program], base: Program | None = None
    ) -> tuple[Program, Any] | None:
        """Return a program and what was written beside it; None where there is none."""
        if not self._key:
            return None
        data = PLANS.load(self._name(part))
        if data is None:
            return None
        try:
            reader = Reader(self._places, data)
            found = reader.program(empty(), base), reader.extra
        except Exception as error:  # it is as we wrote it: what can fail is what it names
            LOG.info("a plan on disk is of no use: %s", error, exc_info=True)
            return None
        self.state, self.is_read = "read from disk", True
        return found

    def write(
        self, part: str, program: Program, base: Program | None = None, extra: Any = None
    ) -> None:
        """Write a program, if it can be, and the disk lets us."""
        if not self._key:
            return
        try:
            data = Writer(self._places, program, base).bytes(extra)
        except (NotStorableError, TypeError) as error:
            self.refuse(str(error))
            return
        PLANS.store(self._name(part), data)
        if not self.is_read:
            self.state = "written to disk"

    def _name(self, part: str) -> str:
        return hashlib.sha256(f"{self._key}\0{part}".encode()).hexdigest()


def _key(plan: Plan, feeds: Mapping[Tensor, TensorSpec], sizes: Mapping[str, int]) -> str:
    """Return the hash of all that a plan depends on.

    Raises NotStorableError where there is something that cannot be told by its content.
    """
    order, options = plan.order, plan.options
    if len(order) < LEAST:
        raise NotStorableError(f"fewer than {LEAST} nodes")
    if "off" in (_switch("GRADWRIGHT_PLANS"), _switch("GRADWRIGHT_CACHE")):
        raise NotStorableError("switched off")
    if options.verify:
        raise NotStorableError("its rewrites are verified")
    theirs = sorted(name for name in replaced_ops(plan.device.name) if "/" not in name)
    if theirs:  # one of an op of theirs, "owner/op", plays no part without it
        raise NotStorableError(f"{theirs[0]!r} has a lowering that is not gradwright's own")
    specs, ops = _Numbers(_spec_text), _Numbers(_op_text)
    known_spec, known_op = specs.by_id.get, ops.by_id.get  # each saves a call for every node
    fed = [(t.name, specs(t.spec), specs(s)) for t, s in feeds.items()]
    numbers: dict[Tensor | None, Any] = {None: None}
    for t in feeds:
        numbers[t] = len(numbers)
    places = {node: n for n, node in enumerate(order)}
    rows = []
    for node in order:
        op, origin = node.op, node.origin
        made = []
        for t in node.outputs:
            spec = t.spec
            n = known_spec(id(spec))
            made.append(specs(spec) if n is None else n)
            numbers.setdefault(t, len(numbers))
        n = known_op(id(op))
        rows.append(
            (
                node.name, ops(op) if n is None else n, [numbers[t] for t in node.inputs], made,
                node.derived, None if origin is None else places.get(origin, -1),
            )
        )  # fmt: skip
    asked = (
        [numbers[t] for t in plan.targets],
        [(v.name, specs(v.spec), numbers[t]) for v, t in plan.updates.items()],
        numbers[plan.commit_if], plan.training, options.skip, options.checkpoint,
        sorted(sizes.items()), sorted(range(len(order)), key=lambda n: order[n].serial),
    )  # fmt: skip
    told = (
        plan.device.name, plan.device.identity(), fingerprint(), list(RULES), fed, asked, rows,
        list(ops.texts), list(specs.texts),
    )  # fmt: skip
    digest = hashlib.sha256(repr(told).encode("utf-8", "surrogatepass"))
    _add_constants(digest, order)
    return digest.hexdigest()


class _Numbers:
    """Numbers of what is equal by its text; each object is asked for it once."""

    def __init__(self, text: Callable[[Any], Any]) -> None:
        self._text = text
        self.by_id: dict[int, int] = {}
        self.texts: dict[Any, int] = {}

    def __call__(self, what: Any) -> int:
        text = self._text(what)
        number = self.by_id[id(what)] = self.texts.setdefault(text, len(self.texts))
        return number


def _spec_text(spec: Any) -> Any:
    if spec.by_reference:
        raise NotStorableError(f"it takes {spec}")
    return type(spec).__name__, spec.key()


def _op_text(op: Op) -> Any:
    """Return the key of an op, which tells values apart by type and bits."""
    if not is_ours(type(op)):
        raise NotStorableError(f"the op {op.name!r} is not one of gradwright's own")
    if type(op).attrs:
        _check_ours(op.attributes().values())
    return op.key()


def _check_ours(values: Iterable[Any]) -> None:
    """Refuse what holds an op of somebody else, be it inside of a loop."""
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, tuple):
            waiting += value
        elif isinstance(value, Op):
            if not is_ours(type(value)):
                raise NotStorableError(f"the op {value.name!r} is not one of gradwright's own")
            waiting += value.attributes().values()
        elif isinstance(value, SubGraph):
            waiting += [node.op for node in value.nodes]
        elif isinstance(value, Frozen):
            raise NotStorableError(f"an op holds a {type(value).__name__}")


def _add_constants(digest: Any, order: Sequence[Node]) -> None:
    """Hash the elements of constants, and how they lie."""
    size = 0
    for node in order:
        if isinstance(node.op, Constant):
            array: np.ndarray[Any, Any] = node.graph.values.array(node.name)
            size += array.nbytes
            if size > MOST:
                raise NotStorableError(f"its constants take more than {MOST >> 20} MB")
            digest.update(f"{node.name}\0{array.dtype}{array.shape}{array.strides}".encode())
            digest.update(content_of(array))


def _switch(name: str) -> str:
    return os.environ.get(name, "").lower()


@functools.cache
def fingerprint() -> str:
    """Return what tells this code, and what it computes with, from any other: versions and files.

    Files count by name, size and times, which takes 4 ms, so that an edit of the source leaves no
    plan that was made before it. One that is put there may bring an old date with it, but not that
    of its change, which the file system sets.
    """
    import ml_dtypes

    root = Path(__file__).parents[1]
    found, folders = [], [str(root)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    info = entry.stat()
                    times = info.st_mtime_ns, info.st_ctime_ns
                    found.append((entry.path[len(str(root)) :], info.st_size, times))
                elif entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
    if max(max(times) for _, _, times in found) > _begun:
        raise NotStorableError("gradwright's source has changed since it was imported")
    told = sys.version, sys.byteorder, np.__version__, ml_dtypes.__version__, sorted(found)
    return hashlib.sha256(repr(told).encode()).hexdigest()

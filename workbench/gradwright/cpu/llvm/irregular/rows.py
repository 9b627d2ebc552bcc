"""Rows of a table that a batch names: numbered by a hash table, summed, taken and put back.

What is written and read is as large as the batch. Each row is summed in the order in which it is
named, whatever else is named, and by one thread.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....fuse.ir import Kernel
from ...call import Call, Cut
from ..bind import bind_kernel
from ..convolution.machine import numbers
from ..lanes import fetch, near
from ..repeat import Turn, repeated
from ..text import Code, Num
from .items import get, put

Array = np.ndarray[Any, Any]
NUMBER = (
    "ids", "rows", "hash", "places", "ends", "order", "alarm", "count", "room", "n", "mask",
    "shift",
)  # fmt: skip
"""Block of what numbers rows: ids and rows have 64 bits, the rest 32; a hash has 64 − ``shift``."""
SUM = ("values", "sums", "ends", "order", "wide", "rows", "size")
"""Block of sums: so many rows, of ``size`` numbers each; room for one row in float64."""
MOVE = ("old", "table", "rows", "values", "alarm", "count", "n", "size")
"""Block of what moves rows of ``size`` words; a table is copied first from where it was."""
TURNS = 64
"""Values that are added up in their own dtype, before the sum goes to float64."""
HELD = 1 << 15
"""Bytes of rows that are updated at a time: they stay in the nearest cache."""
AHEAD = 8
"""Rows of a table that are asked for before they are needed: they lie far from each other."""


def bind_sum(xs: Sequence[Array], ys: Sequence[Array]) -> Sequence[Call] | None:
    """Return the calls that find the rows that ids name, and the sums of values for each.

    >>> from gradwright.cpu.llvm.compiler import available
    >>> table, values, sums = np.empty((3, 2)), np.ones((4, 2)), np.empty((3, 2))
    >>> xs, ys = [np.zeros(4, int), values, table], [np.empty(3, int), sums]
    >>> calls = bind_sum(xs, ys) if available() else None
    >>> calls is None or [operand for call in calls for _, operand in call.slots] == [0, 3, 1, 4]
    True
    """
    (ids, values, table), (rows, sums) = xs, ys
    if ids.dtype != np.int64 or values.dtype.char not in "fd" or not sums.size:
        return None
    if not all(a.flags.c_contiguous for a in (ids, values)) or ids.size >= 1 << 30:
        return None
    bits = (2 * ids.size - 1).bit_length()  # at least half of the places stay free
    size = sums[0].size
    held = [np.empty(n, np.int32) for n in (1 << bits, ids.size, len(rows) + 1, ids.size)]
    hashes, places, ends, order = held
    wide = np.empty(size)
    alarm = np.zeros(4, np.int64)
    block = numbers(
        NUMBER,
        ids=ids.ctypes.data, rows=rows.ctypes.data, hash=hashes.ctypes.data,
        places=places.ctypes.data, ends=ends.ctypes.data, order=order.ctypes.data,
        alarm=alarm.ctypes.data, count=ids.size, room=len(rows), n=len(table),
        mask=(1 << bits) - 1, shift=64 - bits,
    )  # fmt: skip
    slots, cost = [(0, 0), (1, 3)], 8.0 * ids.size
    first = Call(_compiled("number"), block, slots, held, alarm, cost=cost, tells=True)
    block = numbers(
        SUM,
        values=values.ctypes.data, sums=sums.ctypes.data, ends=ends.ctypes.data,
        order=order.ctypes.data, wide=wide.ctypes.data, rows=len(rows), size=size,
    )  # fmt: skip
    steps = [(1, sums.strides[0]), (2, ends.itemsize)]
    cut = Cut(SUM.index("rows"), len(rows), steps, 1 + 8192 // size)
    label = f"sums of rows {values.dtype.char} {size} {len(rows).bit_length()}"
    address = _compiled("sum", values.dtype.char + "s" * (size == 1))
    second = Call(
        address, block, [(0, 1), (1, 4)], (held, wide), cut=cut,
        cost=0.25 * values.size, label=label, scratch=(4, wide.nbytes),
    )  # fmt: skip
    return [first, second]


def bind_take(xs: Sequence[Array], ys: Sequence[Array]) -> Sequence[Call] | None:
    """Return the call that reads rows of a table; of negative numbers, zeros."""
    (table, rows), (values,) = xs, ys
    return _move("take", table, table, rows, values, [(0, 0), (1, 0), (2, 1), (3, 2)])


def bind_put(xs: Sequence[Array], ys: Sequence[Array]) -> Sequence[Call] | None:
    """Return the call that writes rows of a table, which may lie where it lay."""
    (old, rows, values), (table,) = xs, ys
    return _move("put", old, table, rows, values, [(0, 0), (1, 3), (2, 1), (3, 2)])


def _move(
    kind: str, old: Array, table: Array, rows: Array, values: Array, slots: list[tuple[int, int]]
) -> Sequence[Call] | None:
    if rows.dtype != np.int64 or not table.size:
        return None
    if not all(a.flags.c_contiguous for a in (old, table, rows, values)):
        return None
    n_bytes = table[0].nbytes
    word = min(table.itemsize, 8)
    alarm = np.zeros(4, np.int64)
    block = numbers(
        MOVE,
        old=old.ctypes.data, table=table.ctypes.data, rows=rows.ctypes.data,
        values=values.ctypes.data, alarm=alarm.ctypes.data, count=len(rows), n=len(table),
        size=n_bytes // word,
    )  # fmt: skip
    steps = [(2, rows.itemsize), (3, n_bytes)]
    cut = (
        Cut(MOVE.index("count"), len(rows), steps, 1 + 65536 // n_bytes) if kind == "take" else None
    )
    label = f"{kind} rows {n_bytes} {len(rows).bit_length()}"
    cost = len(rows) * (20.0 + n_bytes / 16)
    code = _compiled(kind, str(word))
    return [Call(code, block, slots, alarm, alarm, cut, cost, label, tells=True)]


BINDS = {"sum_rows": bind_sum, "take_rows": bind_take, "put_rows": bind_put}
"""What binds each op."""


def bind_update(
    kernel: Kernel, reads: Sequence[int], n_tables: int, xs: Sequence[Array], ys: Sequence[Array]
) -> Sequence[Call] | None:
    """Return the calls that update rows of tables, some at a time, which stay in cache.

    ``kernel`` reads, by number, the parameter's rows, their gradient, those of states, and then
    numbers. Tables that lie elsewhere than they did are copied first.
    """
    rows, grad = xs[1:3]
    states = range(3, 2 + n_tables)
    olds, news = (0, *states), range(len(xs), len(xs) + n_tables)
    if not (grad.size and grad.flags.c_contiguous):
        return None
    width, item = grad[0].size, grad.itemsize
    block = max(1, min(len(rows), HELD // (width * item * n_tables)))
    room = [np.empty((block, width), grad.dtype) for _ in olds]
    every = [*xs, *ys]

    def moved(kind: str, old: int, new: int, part: Array, values: Array) -> Call | None:
        slots = [(0, old), (1, new), (2, 1)]
        calls = _move(kind, every[old], every[new], part, values[: len(part)], slots)
        return calls[0] if calls else None

    def some(n: int, start: int, count: int) -> Call | None:
        part = slice(start, start + count)
        of = {0: (room[0], None), 1: (grad.reshape(len(rows), width)[part], 2)}
        of |= {k: (room[k - 1], None) for k in range(2, 1 + n_tables)}
        of |= {k: (every[k + 1], k + 1) for k in range(1 + n_tables, len(xs) - 1)}
        arrays = [a[:count] if a is not None and a.ndim else a for a, _ in (of[k] for k in reads)]
        made = bind_kernel(kernel, (count, width), [*arrays, *(r[:count] for r in room)])
        operands = {n: of[k][1] for n, k in enumerate(reads)}
        taken = [moved("take", o, o, rows[part], r) for o, r in zip(olds, room, strict=True)]
        put = [moved("put", new, new, rows[part], r) for new, r in zip(news, room, strict=True)]
        if made is None or None in taken or None in put:
            return None
        own = [
            replace(c, slots=[(s, at) for s, k in c.slots if (at := operands.get(k)) is not None])
            for c in made
        ]
        steps = dict.fromkeys(range(len(every)), 0)
        steps |= {1: block * rows.itemsize, 2: block * width * item}
        return repeated(n, [Turn(c, steps) for c in (*taken, *own, *put) if c is not None])

    whole, rest = divmod(len(rows), block)
    calls = [moved("put", old, new, rows[:0], room[0]) for old, new in zip(olds, news, strict=True)]
    calls += [some(whole, 0, block)]
    calls += [some(1, whole * block, rest)] if rest else []
    found = [call for call in calls if call is not None]
    return found if len(found) == len(calls) else None


@functools.cache
def _compiled(kind: str, of: str = "") -> int:
    from ..compiler import compile_text  # llvmlite, which no import of ours may load

    code = Code()
    {"number": _number, "sum": _sum, "take": _take, "put": _put}[kind](code, of)
    return compile_text(code.module())


def _number(code: Code, _: str) -> None:
    """Write: each row gets the next number where it is met first; then its places in order.

    ``ends[u + 1]`` counts the places of row u, then says where they begin in ``order``, and when
    they are all there where they end.
    """
    at = code.entries(NUMBER, 7)
    zero, one, none = (code.const(t, v) for t, v in (("i64", 0), ("i32", 1), ("i32", -1)))
    hashes, rows, places, ends, order = (at[k] for k in NUMBER[2:3] + NUMBER[1:2] + NUMBER[3:6])
    parallel = [code.parallel]
    with code.loop(zero, at["mask"] + 1, hints=parallel) as i:
        put(hashes, i.index, none, group=True)
    with code.loop(zero, at["room"] + 1, hints=parallel) as i:
        put(ends, i.index, one - 1, group=True)
    with code.loop(zero, at["count"], carried=[zero]) as turn:
        (known,) = turn.carried
        given = get(at["ids"], "i64", turn.index)
        row = (given < 0).where(given + at["n"], given)
        start = (row * -7046029254386353131).op("lshr", at["shift"])  # 2^64 over the golden ratio
        place, held = _probe(code, hashes, rows, row, start, at["mask"])
        is_new = held < 0
        number = is_new.where(known.to("trunc", "i32"), held)
        is_row = row.compare("ult", at["n"])
        _tell(at, is_row.where(zero, 1), row)
        fits = is_row & (number.to("sext", "i64") < at["room"])
        number = fits.where(number, -1)
        put(places, turn.index, number)
        wide = number.to("sext", "i64")
        put(ends, wide + 1, get(ends, "i32", wide + 1) + fits.to("zext", "i32"))
        known = _remember(code, is_new & fits, place, known, row, number, hashes, rows)
        turn.turned = [known]
    (known,) = turn.carried
    with code.loop(known, at["room"], hints=parallel) as i:
        put(rows, i.index, code.const("i64", -1), group=True)
    with code.loop(zero, at["room"], carried=[one - 1]) as turn:
        (begin,) = turn.carried
        count = get(ends, "i32", turn.index + 1)
        put(ends, turn.index + 1, begin)
        turn.turned = [begin + count]
    with code.loop(zero, at["count"]) as turn:
        number = get(places, "i32", turn.index)
        with code.loop(zero, (number < 0).where(zero, 1)):
            slot = number.to("sext", "i64") + 1
            end = get(ends, "i32", slot)
            put(order, end.to("sext", "i64"), turn.index.to("trunc", "i32"))
            put(ends, slot, end + 1)


def _probe(code: Code, hashes: Num, rows: Num, row: Num, start: Num, mask: Num) -> tuple[Num, Num]:
    """Write the search for a row from a place on; return where it ends, and what is there."""
    label = code.name("probe")
    code.do(f"br label %{label}.from\n{label}.from:\n  br label %{label}\n{label}:")
    place = code.let(
        "i64", f"phi i64 [ {start.name}, %{label}.from ], [ %{label}.on, %{label}.next ]"
    )
    held = get(hashes, "i32", place)
    code.do(f"%{label}.free = icmp slt i32 {held.name}, 0")
    code.do(f"br i1 %{label}.free, label %{label}.end, label %{label}.look\n{label}.look:")
    same = get(rows, "i64", held.to("sext", "i64")).equals(row)
    code.do(f"br i1 {same.name}, label %{label}.end, label %{label}.next\n{label}.next:")
    code.do(f"%{label}.step = add i64 {place.name}, 1")
    code.do(f"%{label}.on = and i64 %{label}.step, {mask.name}")
    code.do(f"br label %{label}\n{label}.end:")
    return place, held


def _remember(
    code: Code, is_new: Num, place: Num, known: Num, row: Num, number: Num, hashes: Num, rows: Num
) -> Num:
    """Write down a row that is met first; return how many are known then."""
    with code.loop(code.const("i64", 0), is_new.to("zext", "i64")):
        put(hashes, place, number)
        put(rows, known, row)
    return known + is_new.to("zext", "i64")


def _sum(code: Code, kind: str) -> None:
    """Write: of each row the sum of its values in order, some at a time; of single ones, each."""
    char, turns = kind[0], 1 if kind.endswith("s") else TURNS
    real, double = {"f": "float", "d": "double"}[char], "double"
    at = code.entries(SUM, 5)
    zero, parallel = code.const("i64", 0), [code.parallel]
    size, bytes_ = at["size"], at["size"] * (4 if char == "f" else 8)
    with code.flagged(""), code.loop(zero, at["rows"]) as row:
        sums = near(at["sums"], row.index * bytes_)
        begin, end = (
            get(at["ends"], "i32", index).to("sext", "i64") for index in (row.index, row.index + 1)
        )
        with code.loop(zero, (begin < end).where(zero, size), hints=parallel) as d:
            put(sums, d.index, code.const(real, 0.0), group=True)
        many = (end - begin > turns).where(size, 0)
        with code.loop(zero, many, hints=parallel) as d:
            put(at["wide"], d.index, code.const(double, 0.0), group=True)
        with code.loop(begin, end, step=turns) as some:
            values = _row(at, some.index, bytes_)
            with code.loop(zero, size, hints=parallel) as d:
                put(sums, d.index, get(values, real, d.index, group=True), group=True)
            last = (some.index + turns).call("smin", end)
            with code.loop(some.index + 1, last) as turn:
                values = _row(at, turn.index, bytes_)
                with code.loop(zero, size, hints=parallel) as d:
                    more = get(values, real, d.index, group=True)
                    put(sums, d.index, get(sums, real, d.index, group=True) + more, group=True)
            with code.loop(zero, many, hints=parallel) as d:
                part = get(sums, real, d.index, group=True)
                part = part.to("fpext", double) if char == "f" else part
                held = get(at["wide"], double, d.index, group=True)
                put(at["wide"], d.index, held + part, group=True)
        with code.loop(zero, many, hints=parallel) as d:
            held = get(at["wide"], double, d.index, group=True)
            held = held.to("fptrunc", real) if char == "f" else held
            put(sums, d.index, held, group=True)


def _row(at: dict[str, Num], index: Num, bytes_: Num) -> Num:
    return near(at["values"], get(at["order"], "i32", index).to("sext", "i64") * bytes_)


def _take(code: Code, word: str) -> None:
    """Write: each row that is named goes to its place, and zeros to those of the others."""
    type_, at = f"i{8 * int(word)}", code.entries(MOVE, 5)
    zero, size = code.const("i64", 0), at["size"]
    with code.loop(zero, at["count"]) as turn:
        row, is_there = _named(at, turn.index, tells=True)
        source = near(at["table"], row * size * int(word))
        target = near(at["values"], turn.index * size * int(word))
        _ask(at, turn.index, int(word))
        _copy(code, source, target, type_, is_there.where(size, 0))
        with code.loop(zero, is_there.where(zero, size), hints=[code.parallel]) as i:
            put(target, i.index, code.const(type_, 0), group=True)


def _put(code: Code, word: str) -> None:
    """Write: the table as it was, if it lies elsewhere now, and then each row that is named."""
    type_, at = f"i{8 * int(word)}", code.entries(MOVE, 5)
    zero, size = code.const("i64", 0), at["size"]
    is_home = at["old"].to("ptrtoint", "i64").equals(at["table"].to("ptrtoint", "i64"))
    _copy(code, at["old"], at["table"], type_, is_home.where(zero, size * at["n"]))
    with code.loop(zero, at["count"]) as turn:
        row, is_there = _named(at, turn.index, tells=True)
        source = near(at["values"], turn.index * size * int(word))
        target = near(at["table"], row * size * int(word))
        _ask(at, turn.index, int(word))
        _copy(code, source, target, type_, is_there.where(size, 0))


def _named(at: dict[str, Num], index: Num, *, tells: bool = False) -> tuple[Num, Num]:
    """Return the number of a row, 0 if it is none of the table's, and whether it is one."""
    row = get(at["rows"], "i64", index)
    if tells:
        _tell(at, (row < at["n"]).where(row.code.const("i64", 0), 1), row)
    is_there = row.compare("ult", at["n"])
    return is_there.where(row, 0), is_there


def _tell(at: dict[str, Num], times: Num, row: Num) -> None:
    """Tell the alarm, once or not at all, of a number that no row has."""
    code = row.code
    with code.loop(code.const("i64", 0), times):
        for place, x in enumerate((code.const("i64", 1), row, at["n"])):
            put(at["alarm"], code.const("i64", place), x)


def _ask(at: dict[str, Num], index: Num, word: int) -> None:
    """Ask for the first lines of a row that comes later."""
    later = (index + AHEAD).call("smin", at["count"] - 1)
    row, _ = _named(at, later)
    fetch(near(at["table"], row * at["size"] * word), 256)


def _copy(code: Code, source: Num, target: Num, type_: str, count: Num) -> None:
    with code.loop(code.const("i64", 0), count, hints=[code.parallel]) as i:
        put(target, i.index, get(source, type_, i.index, group=True), group=True)

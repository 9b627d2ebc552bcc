"""Packed rows times one row of x, and packed rows as floats.

A row is read once, front to back, from wherever the file is mapped: what counts is that its lines
are asked for early (twice as fast as without), one row at a time (four are a third slower).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..text import Code, Num, lanes
from .activations import records
from .codes import Group, read_bytes, read_floats
from .lanes import fetch, floats, load, near, pick, store, total, widened
from .layouts import PART, Layout, blocks_of, digits, is_signed
from .machine import Machine, dot, entries

PRODUCT = (
    "w", "x", "y", "ready", "n_rows", "w_row", "n_x", "x_row", "ready_row", "y_row", "blocks",
)  # fmt: skip
"""Block of a product: addresses, counts, and steps in bytes; a row has so many blocks."""
ROWS = ("w", "ids", "y", "alarm", "n_ids", "w_row", "y_row", "blocks", "n_rows")
"""Block of what takes rows by number."""
GROUPED = (
    "w", "x", "y", "ready", "sizes", "alarm", "n_rows", "w_row", "n_x", "x_row", "ready_row",
    "y_row", "blocks", "groups", "w_group",
)  # fmt: skip
"""Block of a product of rows in groups."""
AHEAD = 8192
"""Bytes; 512 take 15 % longer."""
TOGETHER = 4
"""Rows of x as bytes that meet a row together: of more a core's nearest cache holds too few."""
AT_ONCE = 4
"""Totals of floats: the next block need not wait for what the last one adds."""


def product(form: Layout, m: Machine, n_x: int = 1, *, as_bytes: bool) -> str:
    """Return the text of ``y = x @ Wᵀ`` for packed rows of W, one by one, and so many of x at once.

    Those are several only where x is bytes.
    """
    code = Code()
    at = entries(code, PRODUCT, 4)
    zero = code.const("i64", 0)
    with code.loop(zero, at["n_x"], step=n_x) as turn, code.loop(zero, at["n_rows"]) as row:
        w = near(at["w"], row.index * at["w_row"])
        xs = [turn.index + i for i in range(n_x)]
        _row(form, m, at, w, row.index, xs, as_bytes=as_bytes)
    return code.module(m.attributes)


def grouped(form: Layout, m: Machine, *, as_bytes: bool) -> str:
    """Return the text of ``y[e] = x[e] @ W[e]ᵀ`` for the rows of each group, one after another.

    Sizes that are not those of the rows of x are an alarm; no other rows are touched.
    """
    code = Code()
    at = entries(code, GROUPED, 6)
    zero = code.const("i64", 0)
    with code.loop(zero, at["groups"], carried=[zero, zero]) as group:
        first, wrong = group.carried
        size = load("i64", near(at["sizes"], group.index << 3))
        is_fine = size.compare("ule", at["n_x"] - first)
        stop = first + is_fine.where(size, 0)
        n_rows = stop.equals(first).where(zero, at["n_rows"])
        weight = near(at["w"], group.index * at["w_group"])
        n_x = TOGETHER if digits(form, m, as_bytes=as_bytes) else 1
        most = first + (stop - first).op("udiv", n_x) * n_x
        with code.loop(zero, n_rows) as row:  # which is read once
            w = near(weight, row.index * at["w_row"])
            with code.loop(first, most, step=n_x) as turn:
                xs = [turn.index + i for i in range(n_x)]
                _row(form, m, at, w, row.index, xs, as_bytes=as_bytes)
            with code.loop(most, stop) as turn:
                _row(form, m, at, w, row.index, [turn.index], as_bytes=as_bytes)
        group.turned = [stop, is_fine.where(wrong, 1)]
    stop, wrong = group.carried
    store(stop.equals(at["n_x"]).where(wrong, 1), at["alarm"])
    return code.module(m.attributes)


def _row(
    form: Layout,
    m: Machine,
    at: Mapping[str, Num],
    w: Num,
    row: Num,
    xs: Sequence[Num],
    *,
    as_bytes: bool,
) -> None:
    """Write the products of a row of a weight with rows of x, which are told by number."""
    ready = [near(at["ready"], x * at["ready_row"]) for x in xs]
    if n_digits := digits(form, m, as_bytes=as_bytes):
        ys = _of_bytes(form, m, n_digits, w, ready, at["blocks"])
    else:
        given = near(at["x"], xs[0] * at["x_row"])
        ys = [_of_floats(form, m, w, given, ready[0], at["blocks"])]
    for x, y in zip(xs, ys, strict=True):
        store(y, near(near(at["y"], x * at["y_row"]), row << 2))


def _of_bytes(
    form: Layout, m: Machine, n_digits: int, w: Num, ready: Sequence[Num], blocks: Num
) -> list[Num]:
    """Return the products of a row with rows of x that are bytes, or three of them a number."""
    code, parts = w.code, form.size // PART
    zero, count = code.const("i64", 0), blocks_of(form, m.lanes)

    def turn(n: int, block: Num, totals: Sequence[Num]) -> list[Num]:
        """Return the totals with a group added, in vectors of n lanes."""
        at = near(w, block * form.n_bytes)
        fetch(near(at, AHEAD), form.n_bytes * blocks_of(form, n))
        group, each = read_bytes(form, m, n, at), len(totals) // len(ready)
        found = []
        for i, x in enumerate(ready):
            found += one(n, group, x, block * parts, totals[i * each :][:each])
        return found

    def one(n: int, group: Group, x: Num, first: Num, totals: Sequence[Num]) -> list[Num]:
        """Return the totals of a row of x with a group added, whose first part has a number."""
        n_parts = blocks_of(form, n) * parts
        units, size = n_parts * PART // form.per, PART * n_parts
        q, scales = records(form, m, n_digits, x, blocks * parts, first)
        d = load(f"<{n_parts} x float>", scales)
        if form.per < PART:
            d = pick(d, [unit * form.per // PART for unit in range(units)])
        scale = group.scales * d
        *sums_of, least = totals
        for number, (vectors, of_lanes) in enumerate(group.parts):
            found = code.const(f"<{n} x i32>", 0)
            if form.signed and m.has_dots:
                found = load(found.type, q, size + vectors[0][1])
            for digit in range(n_digits):
                found = found << 8 if digit else found
                for codes, place in vectors:
                    y = load(codes.type, q, size * digit + place)
                    found = dot(m, found, codes, y, signed=is_signed(form, m))
            i = number % len(sums_of)
            sums_of[i] = floats(found).madd(pick(scale, of_lanes), sums_of[i])
        if not form.signed:  # codes that are too large have a minimum, too
            sums = load(f"<{units} x float>", scales, 4 * n_parts)
            least = (group.minima or group.scales).madd(sums, least)
        return [*sums_of, least]

    n = m.lanes
    of_each = 2 if form.size > PART and len(ready) == 1 else 1
    starts = _starts(code, n, of_each, count * form.units) * len(ready)
    whole = blocks.op("sdiv", count) * count
    with code.loop(zero, whole, step=count, carried=starts) as loop:
        loop.turned = turn(n, loop.index, loop.carried)
    ys = _each(loop.carried, len(ready))
    if count > 1:
        starts = _starts(code, 4, 1, 1) * len(ready)
        with code.loop(whole, blocks, carried=starts) as rest:
            rest.turned = turn(4, rest.index, rest.carried)
        more = _each(rest.carried, len(ready))
        ys = [y + widened(x, n) for y, x in zip(ys, more, strict=True)]
    return [total(y) for y in ys]


def _each(totals: Sequence[Num], n: int) -> list[Num]:
    """Return what is to be added up for each of n rows, as a vector."""
    each = len(totals) // n
    return [_added(totals[i * each :][:each]) for i in range(n)]


def _starts(code: Code, n: int, count: int, units: int) -> list[Num]:
    """Return zeros of what goes from turn to turn: totals, and those of minima."""
    totals = [code.const(f"<{n} x float>", 0.0)] * count
    return [*totals, code.const(f"<{units} x float>", 0.0)]


def _added(totals: Sequence[Num]) -> Num:
    """Return a vector with the sum of all, of which the last one are those of minima."""
    *vectors, least = totals
    y = vectors[0]
    for other in vectors[1:]:
        y = y + other
    return y + widened(least, lanes(y.type)[0])


def _of_floats(form: Layout, m: Machine, w: Num, x: Num, ready: Num, blocks: Num) -> Num:
    """Return the product of a row with one of x as it is."""
    code, n = w.code, m.lanes
    zero, count = code.const("i64", 0), AT_ONCE if form.size == PART else 1

    def turn(count: int, block: Num, given: Sequence[Num]) -> list[Num]:
        """Return the totals with some blocks added."""
        *totals, least = given
        first = near(w, block * form.n_bytes)
        fetch(near(first, AHEAD), form.n_bytes * count)
        for number in range(count):
            at, y = near(first, number * form.n_bytes), near(x, block * (4 * form.size))
            group = read_floats(form, m, n, at)
            for unit, sum_ in enumerate(_units(group, near(y, 4 * form.size * number))):
                i = (number + unit) % len(totals)
                totals[i] = sum_.madd(pick(group.scales, [unit] * n), totals[i])
            if group.minima is not None:
                sums = near(ready, block * (4 * form.units))
                own = load(f"<{form.units} x float>", sums, 4 * form.units * number)
                least = group.minima.madd(own, least)
        return [*totals, least]

    starts = _starts(code, n, AT_ONCE, form.units)
    whole = blocks.op("sdiv", count) * count
    with code.loop(zero, whole, step=count, carried=starts) as loop:
        loop.turned = turn(count, loop.index, loop.carried)
    with code.loop(whole, blocks, carried=loop.carried) as rest:
        rest.turned = turn(1, rest.index, rest.carried)
    return total(_added(rest.carried))


def _units(group: Group, y: Num) -> list[Num]:
    """Return for each scale the products of its codes with y, added up by lane."""
    found: dict[int, Num] = {}
    for vectors, units in group.parts:
        (codes, place), unit = vectors[0], units[0]
        given = load(codes.type, y, 4 * place)
        found[unit] = codes.madd(given, found[unit]) if unit in found else codes * given
    return [found[unit] for unit in sorted(found)]


def tile(form: Layout, m: Machine, n_x: int) -> str:
    """Return the text of ``y = x @ Wᵀ`` for a few rows of x, which meet rows of W at once.

    Those are two where registers are many, so that each vector of x is loaded for both; the last
    one may be computed twice.
    """
    code, n, pair = Code(), m.lanes, 2 if m.lanes == 16 else 1
    at = entries(code, PRODUCT, 4)
    zero, none = code.const("i64", 0), code.const(f"<{n} x float>", 0.0)
    xs = [near(at["x"], at["x_row"] * i) for i in range(n_x)]
    ys = [near(at["y"], at["y_row"] * i) for i in range(n_x)]
    last = at["n_rows"] - 1
    with code.loop(zero, at["n_rows"], step=pair) as turn:
        rows = [code.call("i64", "llvm.smin.i64", last, turn.index + i) for i in range(pair)]
        ws = [near(at["w"], row * at["w_row"]) for row in rows]
        with code.loop(zero, at["blocks"], carried=[none] * (pair * n_x)) as loop:
            totals, groups = list(loop.carried), []
            for w in ws:
                here = near(w, loop.index * form.n_bytes)
                fetch(near(here, AHEAD), form.n_bytes)
                groups.append(_numbers(read_floats(form, m, n, here), n))
            start = loop.index * (4 * form.size)
            for numbers in zip(*groups, strict=True):
                place = numbers[0][1]
                for i, x in enumerate(xs):
                    given = load(none.type, near(x, start), 4 * place)
                    for j, (of_row, _) in enumerate(numbers):
                        k = pair * i + j
                        totals[k] = of_row.madd(given, totals[k])
            loop.turned = totals
        for i, y in enumerate(ys):
            for j, row in enumerate(rows):
                store(total(loop.carried[pair * i + j]), near(y, row << 2))
    return code.module(m.attributes)


def _numbers(group: Group, n: int) -> Iterator[tuple[Num, int]]:
    """Yield the numbers of a block, in vectors, and where they stand."""
    for vectors, units in group.parts:
        (codes, place), unit = vectors[0], units[0]
        found = codes * pick(group.scales, [unit] * n)
        if group.minima is not None:
            found = found + pick(group.minima, [unit] * n)
        yield found, place


def taken(form: Layout, m: Machine) -> str:
    """Return the text of ``y[i] = W[ids[i]]`` as floats; a number that is no row's is an alarm."""
    code, n = Code(), m.lanes
    at = entries(code, ROWS, 4)
    zero = code.const("i64", 0)
    with code.loop(zero, at["n_ids"], carried=[zero]) as turn:
        number = load("i64", near(at["ids"], turn.index << 3))
        inside = number.compare("ult", at["n_rows"])
        turn.turned = [inside.where(turn.carried[0], 1)]
        w = near(at["w"], inside.where(number, 0) * at["w_row"])
        row = near(at["y"], turn.index * at["y_row"])
        with code.loop(zero, at["blocks"]) as block:
            group = read_floats(form, m, n, near(w, block.index * form.n_bytes))
            y = near(row, block.index * (4 * form.size))
            with code.flagged(""):
                for numbers, place in _numbers(group, n):
                    store(numbers, y, 4 * place)
    store(turn.carried[0], at["alarm"])
    return code.module(m.attributes)

"""A device of which nobody but itself reads memory: no addresses, copies on every transfer."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwright.program import Instr, Program
from gradwright.program.device import register_device
from gradwright.program.executor import Ask, Env, Keep, Observe
from gradwright.program.forward import explained, results
from gradwright.program.ledger import Ledger, Manager
from gradwright.program.liveness import Lifetimes
from gradwright.program.lowering import Returning, find_launch
from gradwright.program.memory import Layout
from gradwright.program.row import Row
from gradwright.spec import spec_of


class Box:
    """A value on the device, as good as bytes behind a bus."""

    def __init__(self, array: Any) -> None:
        self._held = np.array(array, copy=True)

    def host(self) -> np.ndarray[Any, Any]:
        return self._held.copy()


@dataclass(frozen=True)
class Laid:
    program: Program
    lives: Lifetimes
    layout = Layout({}, 0, 0)
    over = homes = {}  # type: ignore[var-annotated]  # noqa: RUF012


class Executor:
    state = "the device is 'copies'"

    def __init__(self, program: Program, ask: Ask) -> None:
        self.program, self._ask, self.laid = program, ask, Laid(program, Lifetimes(program))
        self._launches = [
            find_launch(
                i.op,
                Copies.name,
                [None if n is None else program.specs[n] for n in i.ins],
                [program.specs[n] for n in i.outs],
            )
            for i in program.instrs
        ]
        self._n_body = len(program.instrs) if program.n_body is None else program.n_body
        self._boxes: dict[int, Box] = {}

    def step(self, env: Env, values: Any) -> None:
        return None

    def run(self, env: Env, values: Any = None, observe: Observe = None) -> None:
        if values is not None:
            with values.lock:
                env |= {t: values[t.name] for t in self._ask.variables if t not in env}
        self._boxes = {n: Box(a) for n, a in self.program.constants.items()}
        self._boxes |= {n: Box(env[t]) for n, t in self.program.sources.items()}
        self._go(env, 0, self._n_body, observe)

    def commit(self, env: Env, values: Any, observe: Observe = None) -> bool:
        ask = self._ask
        if ask.commit_if is not None and not env[ask.commit_if]:
            return False
        self._go(env, self._n_body, len(self.program.instrs), observe)
        values.commit({v.name: Box(env[t]).host() for v, t in ask.updates.items()})
        return bool(ask.updates)

    def _go(self, env: Env, start: int, stop: int, observe: Observe) -> None:
        see = observe and observe(self.program)
        for step in range(start, stop):
            instr = self.program.instrs[step]
            try:
                ys = self._run(instr, step)
            except Exception as error:
                raise explained(error, self.program, step) from None
            for number, y in zip(instr.outs, ys, strict=True):
                self._boxes[number] = Box(y)
                if see:
                    see(number, y)
        made = {o for i in self.program.instrs[start:stop] for o in i.outs}
        for t in self.program.outputs:
            if (number := self.program.numbers[t]) in made or (not start and number in self._boxes):
                env[t] = self._boxes[number].host()

    def _run(self, instr: Instr, step: int) -> Any:
        xs = [None if n is None else self._boxes[n].host() for n in instr.ins]
        launch, specs = self._launches[step], [self.program.specs[n] for n in instr.outs]
        if launch is None or isinstance(launch, Returning):
            return results(self.program, instr, launch, xs)
        ys = [np.empty(spec.shape, spec.dtype) for spec in specs]
        launch(xs, ys)
        return ys

    def rows(self, first: int, chain: int) -> list[Row]:
        return [
            Row(first + n, "numpy", i.path, (i.op.name,), (), (), True, origins=i.origins)
            for n, i in enumerate(self.program.instrs)
        ]

    @contextlib.contextmanager
    def singly(self, env: Env) -> Iterator[Any]:
        self.run(env)
        yield [(n, functools.partial(self._run, i, n)) for n, i in enumerate(self.program.instrs)]

    def lend(self, arrays: Any) -> None:
        pass

    def drop(self) -> None:
        self._boxes = {}

    release = drop

    def ask(self) -> None:
        pass

    def buffers(self) -> dict[int, int]:
        return {id(self): sum(spec_of(b.host()).nbytes for b in self._boxes.values())}


class Copies:
    name = "copies"

    def __init__(self) -> None:
        self.ledger = Ledger()

    def configure(
        self,
        threads: Any,
        record: Any,
        *,
        deterministic: bool,
        memory: Manager = "arena",
        fallback: str | None = None,
        results: str | None = None,
    ) -> None:
        pass

    def takes(self, value: Any) -> None:
        pass

    def ahead(self, batches: Any) -> Any:
        return batches

    def nested(self) -> Copies:
        return Copies()

    def identity(self) -> str:
        return "copies"

    def executor(self, program: Program, ask: Ask, keep: Keep | None = None) -> Executor:
        return Executor(program, ask)

    def record(self) -> dict[str, Any]:
        return {"numpy": np.__version__, "bus": "copies"}

    def retune(self, record: Any, *, deterministic: bool) -> None:
        pass

    def running(self) -> Any:
        return contextlib.nullcontext()

    def wait(self, timeout: float | None = None) -> bool:
        return True

    def release(self) -> None:
        pass


register_device(Copies.name, Copies)

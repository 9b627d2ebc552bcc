"""What users can name: functions, classes, their members, and the traits of widgets."""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np

import gradwright as gw
import gradwright_widgets

PATHS = ("gradwright.errors", "gradwright.spec", "gradwright.op")
"""The modules inside the package whose paths are promised."""
OURS = ("gradwright", "gradwright_widgets")


def names() -> dict[str, Any]:
    """Return the public names of the package, of its namespaces and of the promised modules."""
    spaces = {"gw": gw}
    spaces |= {f"gw.{n}": m for n in gw.__all__ if isinstance(m := getattr(gw, n), ModuleType)}
    spaces |= {path: importlib.import_module(path) for path in PATHS}
    return {name: _members(space) for name, space in sorted(spaces.items())}


def live() -> dict[str, Any]:
    """Return the members of objects that are met without naming their classes."""
    return {type(thing).__name__: _object(thing) for thing in _things()}


def traits() -> dict[str, Any]:
    """Return the members and the traits of all widgets."""
    import anywidget

    foreign = anywidget.AnyWidget.class_trait_names()
    found: dict[str, Any] = {}
    for name in sorted(gradwright_widgets.__all__):
        cls = getattr(gradwright_widgets, name)
        own = {k: t for k, t in cls.class_traits().items() if k not in foreign and k[0] != "_"}
        members = {k: v for k, v in described(cls).items() if k not in own}
        found[name] = members | {"traits": {k: _trait(t) for k, t in sorted(own.items())}}
    return found


def described(thing: Any) -> Any:
    """Return the signature of a function, or the members of a class."""
    if not inspect.isclass(thing):
        return _signature(thing) if callable(thing) else type(thing).__name__
    found: dict[str, Any] = {"()": _signature(thing), "is a": _bases(thing)}
    if issubclass(thing, enum.Enum):
        found["members"] = list(thing.__members__)
    for name in dir(thing):
        home = next((c for c in thing.__mro__ if name in vars(c)), object)
        called = re.fullmatch("__(call|enter|iter|len|getitem|setitem|contains)__", name)
        if home.__module__.partition(".")[0] in OURS and (name[0] != "_" or called):
            found[name] = _member(thing, name)
    return found


def _members(space: ModuleType) -> dict[str, Any]:
    """Return what a module lists, else what is made in it; functions of ops in either case."""
    held = vars(space)
    listed = [n for n in {*dir(space), *held.get("__all__", ())} if n[0] != "_"]
    found = {}
    for name in sorted(listed):
        thing = getattr(space, name)
        if isinstance(thing, ModuleType):
            continue
        home = str(getattr(thing, "__module__", space.__name__ if name.isupper() else ""))
        if "__all__" in held:
            offered = name in held["__all__"] or hasattr(thing, "op")
        else:
            offered = "__dir__" in held or f"{home}.".startswith(f"{space.__name__}.")
        if offered:
            found[name] = described(thing)
    return found


def _member(cls: type, name: str) -> str:
    held = inspect.getattr_static(cls, name)
    if isinstance(held, staticmethod | classmethod) or inspect.isfunction(held):
        return f"{type(held).__name__} {_signature(getattr(cls, name))}"
    if isinstance(held, property) or type(held).__name__ in (
        "cached_property",
        "member_descriptor",
    ):
        return "value"  # it may be computed, kept or plain: who reads it sees no difference
    return _signature(held) if callable(held) else "value"


def _signature(thing: Any) -> str:
    try:
        return scrubbed(str(inspect.signature(thing)))
    except (TypeError, ValueError):
        return "callable"


def scrubbed(text: str) -> str:
    """Leave out of a text where things lie: addresses, and modules of ours before names."""
    return re.sub(r"\bgradwright(_widgets)?(\.\w+)*\.(?=\w)| at 0x[0-9a-f]+", "", text)


def _bases(cls: type) -> list[str]:
    """Return what a class is, as far as users can ask for it."""
    public = {id(getattr(space, n)) for space in (gw, gw.errors, gw.train) for n in dir(space)}
    known = (c for c in cls.__mro__[1:-1] if id(c) in public or c.__module__ == "builtins")
    return [c.__name__ for c in known]


def _trait(trait: Any) -> dict[str, Any]:
    held = trait.default_value
    facts = {"type": type(trait).__name__, "help": trait.help, "none": trait.allow_none}
    facts |= {f"tag {k}": v for k, v in trait.metadata.items() if isinstance(v, bool | str)}
    if held is None or isinstance(held, bool | int | float | str | tuple | list | dict):
        facts["default"] = repr(held)
    if hasattr(trait, "values"):
        facts["values"] = list(trait.values)
    return facts


def _object(thing: Any) -> dict[str, Any]:
    shown = sorted({*dir(thing), *getattr(thing, "__dict__", ())})
    return described(type(thing)) | {"shown": [n for n in shown if n[0] != "_"]}


def _things() -> Iterable[Any]:
    """Return one of each: what a session, a plan, a trainer and a check hand out."""
    g = gw.Graph("small")
    x, w = g.placeholder("x", ("B", 3)), g.variable("w", (3,), init=[1.0, 2.0, 3.0])
    loss = gw.mean((x @ w) ** 2.0, name="loss")
    feeds = {"x": np.ones((2, 3), "float32")}
    session = gw.Session(g, deterministic=True)
    trainer = gw.Trainer(g, loss, session=session, ema=gw.EMA())
    record = trainer.step(feeds)
    plan = session.plan(loss, {"x": (2, 3)})
    stepper = gw.Stepper(g, fetches=[loss], feeds=feeds)
    yield from (g, g.values, x, x.node, x.spec, x.shape[0], session, plan, plan.rewrites)
    yield from (plan.kernels, plan.memory(), session.prepare(loss, ["x"]), trainer, record)
    yield from (trainer.history, trainer.history.steps, trainer.config, stepper, stepper.run())
    yield from (gw.gradient_check(g, loss, feeds), gw.ops.find("relu"), gw.ops.table("loss"))
    session.close()

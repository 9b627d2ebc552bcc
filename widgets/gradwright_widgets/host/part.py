"""Parts of a widget: objects whose traits, messages and public members are the widget's own."""

from __future__ import annotations

import copy
import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import traitlets

if TYPE_CHECKING:
    from .host import Host

Method = TypeVar("Method", bound=Callable[..., Any])
G = TypeVar("G")
S = TypeVar("S")


def handles(verb: str) -> Callable[[Method], Method]:
    """Have a method answer messages of kind ``name.verb`` from the page; it gets their content."""
    return _marked("handles", verb)


def checks(*traits: str) -> Callable[[Method], Method]:
    """Have a method check a value before one of the traits takes it; it returns what is taken."""
    return _marked("checks", *traits)


def watches(*traits: str) -> Callable[[Method], Method]:
    """Call a method, without arguments, when one of the traits has changed."""
    return _marked("watches", *traits)


def _marked(mark: str, *names: str) -> Callable[[Method], Method]:
    def decorate(method: Method) -> Method:
        method.mark = mark, names  # type: ignore[attr-defined]
        return method

    return decorate


class Shared(Generic[G, S]):
    """A trait of the widget, and so of the page, as an attribute of the part that declares it."""

    def __init__(self, trait: traitlets.TraitType[G, S], late: bool) -> None:
        self.trait, self.late = trait, late

    def __set_name__(self, owner: type[Part], name: str) -> None:
        self._name = name

    def __get__(self, part: Part, owner: type[Part]) -> G:
        value: G = getattr(part.widget, self._name)
        return value

    def __set__(self, part: Part, value: S) -> None:
        setattr(part.widget, self._name, value)

    def of_widget(self, part: type[Part]) -> traitlets.TraitType[G, S]:
        """Return the trait for the class of a widget that has the part."""
        trait = copy.copy(self.trait)
        trait.metadata = {**self.trait.metadata, "sync": True}
        if self.late:
            trait.__class__ = _late(type(trait), part)
        return trait


def shared(trait: traitlets.TraitType[G, S], *, late: bool = False) -> Shared[G, S]:
    """Declare a trait that the widget and the page have, too.

    One that is ``late`` falls behind while the part is out of sight, until somebody reads it.
    """
    return Shared(trait, late)


class Part:
    """A part of a widget. What it declares, the widget has.

    - A trait that is ``shared`` is a trait of the widget, read and set here as an attribute.
    - Members that it names in ``public`` are members of the widget; where a class does not say,
      all that it adds to its bases, and whose name has no underscore.
    - ``@handles``, ``@checks`` and ``@watches`` connect methods to the page and to traits.
    """

    name: ClassVar[str]
    """What its messages begin with."""
    traits: ClassVar[Mapping[str, Shared[Any, Any]]] = {}
    public: ClassVar[tuple[str, ...]] = ()
    """Members that the widget has, too."""
    _marks: ClassVar[tuple[tuple[str, tuple[str, ...], str], ...]] = ()
    """What each marked method is connected to, and its name."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = dict(vars(cls))
        found = {name: value for name, value in own.items() if isinstance(value, Shared)}
        cls.traits = {**cls.traits, **found}
        cls._marks += tuple((*v.mark, n) for n, v in own.items() if hasattr(v, "mark"))
        if "public" not in own and "name" in own:
            known = {name for base in cls.__mro__[1:] for name in vars(base)}
            new = [n for n, v in own.items() if inspect.isfunction(v) or isinstance(v, property)]
            cls.public += tuple(n for n in new if n[0] != "_" and n not in known)

    def __init__(self, widget: Host) -> None:
        self.widget = widget
        self._waiting: dict[Callable[[], object], None] = {}
        self._putting_off = threading.Lock()

    def initial(self) -> dict[str, Any]:
        """Return traits to begin with; options of the user go before them."""
        return {}

    @classmethod
    def verbs(cls) -> set[str]:
        """Return what a page can ask of it."""
        return {verb for mark, (verb, *_), _ in cls._marks if mark == "handles"}

    def marked(self, mark: str) -> Iterator[tuple[tuple[str, ...], Callable[..., Any]]]:
        """Yield the methods with a mark, each after the names that it is connected to."""
        for known, names, method in self._marks:
            if known == mark:
                yield names, getattr(self, method)

    # -- out of sight, nothing is computed -------------------------------------------------------

    def in_sight(self) -> bool:
        """Tell whether somebody can see it."""
        return self.widget.shows(self)

    def when_shown(self, action: Callable[[], object]) -> None:
        """Do it now, or when somebody looks: at the panel, or from code at what is its own."""
        with self._putting_off:  # who shows it meanwhile finds the action
            if not self.in_sight():
                self._waiting[action] = None
                return
        action()

    def catch_up(self) -> None:
        """Do what has waited, each thing once."""
        while True:
            with self._putting_off:
                actions, self._waiting = self._waiting, {}
            if not actions:
                return
            for action in actions:
                self.widget.guarded(action, clear=False)


def _late(kind: type[Any], part: type[Part]) -> Any:
    """Return a type of traits that are up to date whenever they are read."""

    def get(self: Any, widget: Any, owner: Any = None) -> Any:
        if (held := widget._parts.get(part)) is not None:
            held.catch_up()
        return kind.get(self, widget, owner)

    return type(kind.__name__, (kind,), {"get": get, "__module__": kind.__module__})


def member_of(part: type[Part], name: str) -> Any:
    """Return a public member of a part for the class of a widget."""
    member = inspect.getattr_static(part, name)
    if isinstance(member, property):

        def get(widget: Host) -> Any:
            return getattr(widget.part(part), name)

        def put(widget: Host, value: Any) -> None:
            setattr(widget.part(part), name, value)

        return property(get, None if member.fset is None else put, doc=member.__doc__)

    @functools.wraps(member)
    def call(widget: Host, *args: Any, **options: Any) -> Any:
        return getattr(widget.part(part), name)(*args, **options)

    return call


def options_of(part: type[Part]) -> set[str]:
    """Return what the constructor of a part takes by name."""
    parameters = inspect.signature(part).parameters.values()
    return {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}

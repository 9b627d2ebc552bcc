"""What an op is: one declaration from which functions, checks, drawings and tests are derived.

A primitive op has ``forward`` (numpy in, numpy out: the reference for every device) and ``vjp``
(tensors in, tensors out: differentiable again). A composite op has ``expand``, a graph of other
ops; its gradient of every order, stepping into it and running it all come from there.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from ..errors import GraphError
from ..spec import Dim, TensorSpec
from ..spec import dtype as as_dtype
from ..words.advised import refuse_keyword
from . import seams
from .declare import (
    REQUIRED,
    Attr,
    Cotangent,
    ErrorSample,
    Frozen,
    OnnxRule,
    Sample,
    Tensor,
    WeightSite,
    freeze,
    identity,
    takes,
    written,
)
from .dependence import OPAQUE, Claims, Dependence, settled
from .facts import Autocast, Family, OfFamily, arithmetic
from .registry import OPS, enter

Array = np.ndarray[Any, Any]


class Op(Frozen):
    """One operation with its attributes; immutable, compared by type and bits.

    Subclasses declare attributes as ``axis: int = attr(-1, doc="...")`` and implement ``infer`` and
    either ``forward`` and ``vjp`` or ``expand``.
    """

    name: ClassVar[str] = ""
    namespace: ClassVar[str] = ""
    version: ClassVar[int] = 1
    registered: ClassVar[bool] = False
    attrs: ClassVar[Mapping[str, Attr]] = MappingProxyType({})
    inputs: ClassVar[tuple[inspect.Parameter, ...]] = ()
    """Parameters of ``infer``: a default of None makes an input optional, ``*xs`` variadic."""
    n_public: ClassVar[int | None] = None
    """How many outputs are visible; the rest are residuals for the gradient. None: all."""
    returns: ClassVar[tuple[str, ...]] = ()
    """Names of the visible outputs where they are several; ``*parts`` is any number of them."""
    many: ClassVar[bool] = False
    """Whether the outputs are a tuple even where there is only one, as the parts of a split."""
    shape_only: ClassVar[tuple[int, ...]] = ()
    """Inputs of which only the spec is read; they are not kept alive, nor even computed."""
    places: ClassVar[tuple[int, ...]] = ()
    """Inputs that are places or counts: a number there keeps its own dtype."""
    needs_values: ClassVar[tuple[int, ...]] = ()
    """Integer inputs whose values decide the output shape."""
    takes_ranks: ClassVar[bool] = False
    """Whether ``infer`` takes tensors whose rank is open; it is asked for each rank otherwise."""
    value_rule: ClassVar[bool] = False
    """Whether ``forward`` also works on arrays of dims, so that shape arithmetic is known early."""
    views: ClassVar[bool] = False
    """Whether ``forward`` may return views of its first input; its buffer then lives on."""
    overwrites: ClassVar[tuple[tuple[int, int], ...]] = ()
    """Pairs (output, input): ``forward_into`` may find that output in that input's memory."""
    ufunc: ClassVar[np.ufunc | None] = None
    """The numpy ufunc that is exactly this op: runs with ``out=``, in place where legal."""
    is_method: ClassVar[bool] = False
    """Whether the op is also a method of Tensor."""
    follows_mode: ClassVar[bool] = False
    """Whether the attribute ``training`` is None until the run says train or eval."""
    by_reference: ClassVar[str] = ""
    """What it takes beside numbers: ``s`` text, ``o`` sequences and optionals."""
    never_fails: ClassVar[bool] = False
    """Whether it has a result for all inputs whose specs fit, as functions of elements have."""
    array_api: ClassVar[bool] = False
    """Whether ``forward`` keeps to the Array API standard, so that other libraries run it."""
    onnx: ClassVar[OnnxRule | None] = None
    element: ClassVar[str] = ""
    """Which function of elements it is in kernels (``fuse/functions.py``), if it is just one."""
    saturates: ClassVar[tuple[float, float] | None] = None
    """The two ends between which its results lie, if its slope goes to 0 there."""
    family: ClassVar[Family] = Family("Ops of no family", drawing="math")
    """What its folder declares as ``FAMILY``."""
    drawing: ClassVar[str] = OfFamily()  # type: ignore[assignment]
    """The group of a drawing that gives its nodes their colour."""
    autocast: ClassVar[Autocast] = OfFamily()  # type: ignore[assignment]
    """What mixed precision does with its inputs, and why."""
    dependence: ClassVar[Claims] = OPAQUE
    """How the outputs depend on its inputs; a tuple: on each, the last also on all that follow."""

    def __init_subclass__(cls, *, abstract: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        folder = sys.modules.get(cls.__module__.rpartition(".")[0])
        cls.family = getattr(folder, "FAMILY", cls.family)
        own = {k: v for k, v in vars(cls).items() if isinstance(v, Attr)}
        if taken := [k for k in own if hasattr(Op, k)]:
            raise TypeError(f"{cls.__name__}: every op has a {taken[0]!r}; name it otherwise")
        hints = inspect.get_annotations(cls)
        typed = {
            k: dataclasses.replace(v, type=written(hints.get(k, "Any"))) for k, v in own.items()
        }
        for k in own:
            delattr(cls, k)
        cls.attrs = MappingProxyType({**cls.attrs, **typed})
        rule = vars(cls).get("infer") or vars(cls).get("expand")
        if rule is not None:
            cls.inputs = tuple(inspect.signature(rule).parameters.values())[1:]
        core = cls.__module__.partition(".")[0] == "gradwright"
        if "name" not in vars(cls):
            words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.__name__)
            # An op that is not registered must never be taken for one that is.
            cls.name = words.lower() if core else f"local/{words.lower()}"
        if core and not abstract and not cls.__name__.startswith("_"):
            held = OPS.get(cls.name, cls)
            where = held.__module__  # a class that only an example made is nobody's
            if where != cls.__module__ and hasattr(sys.modules[where], held.__name__):
                raise TypeError(f"{where} has an op {cls.name!r} already")
            enter(cls)

    def __new__(cls, *inputs: Any, **attrs: Any) -> Op:
        """Make the op; one without attributes is made once."""
        if inputs:
            call = f"{cls.__name__}({', '.join(f'{name}=...' for name in cls.attrs)})"
            raise TypeError(
                f"{cls.name} is made of attributes by keyword and then applied: {call}(tensor)"
            )
        if cls.attrs or attrs:
            return object.__new__(cls)
        single = cls.__dict__.get("_single")
        if single is None:
            single = cls._single = object.__new__(cls)
        return single

    def __init__(self, **attrs: Any) -> None:
        cls = type(self)
        if not cls.attrs and not attrs:
            return
        for name, declared in cls.attrs.items():
            value = attrs.pop(name, declared.default)
            if value is REQUIRED:
                refuse_keyword(cls.name, attrs, cls.attrs)
                raise TypeError(f"{cls.name} needs the attribute {name!r}: {declared.doc}")
            if name == "dtype" and value is not None:
                value = as_dtype(value)
            value = freeze(value, f"{name} of {cls.name}")
            if declared.choices and value not in declared.choices:
                from ..words.advice import hint_on_value

                need = "one of " + ", ".join(map(repr, declared.choices))
                said = f"{cls.name}: {name}={value!r} is not known"
                raise GraphError(said, need=need, hint=hint_on_value(name, value))
            if value is not declared.default and not takes(declared.type, type(value).__name__):
                need = declared.type.replace("AnyDim", "int")
                raise GraphError(f"{cls.name}: {name}={value!r} does not fit", need=need)
            if declared.bounded and not declared.fits(value):
                raise GraphError(
                    f"{cls.name}: {name}={value!r} is out of bounds", need=declared.bounds(name)
                )
            self.__dict__[name] = value
        if attrs:
            refuse_keyword(cls.name, attrs, cls.attrs)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self!r} is immutable; use op.replace({name}=...)")

    @functools.cached_property
    def _key(self) -> tuple[Any, ...]:
        return type(self), *(identity(self.__dict__[k]) for k in type(self).attrs)

    def key(self) -> tuple[Any, ...]:
        """Return a hashable identity of type and attributes."""
        return self._key

    def content(self) -> Any:
        """Return the identity: an op may be an attribute of another."""
        return self._key

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Op) and self._key == other._key)

    @functools.cached_property
    def _hash(self) -> int:
        return hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in self.attributes().items())})"

    def __call__(self, *inputs: Any, name: str | None = None) -> Any:
        """Apply the op to tensors: a Tensor, or a tuple of its public outputs."""
        return seams.builder.build(self, inputs, name)

    def attributes(self) -> dict[str, Any]:
        """Return the attributes by name."""
        return {k: self.__dict__[k] for k in type(self).attrs}

    def replace(self, **changes: Any) -> Op:
        """Return the op with some attributes changed."""
        return type(self)(**{**self.attributes(), **changes})

    @property
    def next_state(self) -> Mapping[int, int]:
        """Which inputs are state, as running means are, and the output that each becomes.

        Where such an input is a variable, a training step sets it if its loss is made of the node,
        and of several nodes in the order in which they were made.
        """
        return MappingProxyType({})

    # -- what an op implements ------------------------------------------------------------------

    def infer(self, *specs: Any) -> Any:
        """Return the spec, or tuple of specs, of the outputs; only here are inputs refused."""
        return seams.builder.expanded_specs(self, specs)

    def forward(self, *xs: Any) -> Any:
        """Compute the outputs from numpy arrays: the reference for all devices."""
        return seams.builder.interpret(self, xs, training=False)

    def forward_into(self, xs: Sequence[Any], ys: Sequence[Any]) -> None:
        """Write the outputs into given arrays, where an op can; plans then allocate none.

        Of ``overwrites`` one may be its input itself: an element is read before it is written.
        """
        raise NotImplementedError(f"{self.name} returns its outputs")

    def vjp(
        self, gs: Sequence[Any], ys: Sequence[Tensor], xs: Sequence[Tensor]
    ) -> Sequence[Cotangent]:
        """Return per input the cotangent: a Tensor, ZERO or NotDifferentiable.

        Where building it costs nodes, a function that builds it, called only if it is wanted.
        ``gs`` are the cotangents of the outputs (ZERO where nothing flows; never ZERO for an op of
        one output), ``ys`` all outputs with residuals, ``xs`` the inputs.
        """
        raise NotImplementedError(f"{self.name} has no vjp")

    def surrogate(self, xs: Sequence[Any], at: Sequence[Any]) -> Any:
        """Return the outputs of the function that ``vjp`` is the derivative of, if not this one.

        Arrays in, arrays out, as in ``forward``: where a gradient is deliberately not that of the
        op, as rounding that counts as the identity, this says which it is, and checks hold the vjp
        against it. ``at`` are the inputs of the run, for what counts as constant; so only changes
        of the result matter.
        """
        raise NotImplementedError(f"{self.name} has the gradient of what it computes")

    def pull(
        self, gs: Sequence[Any], ys: Sequence[Tensor], xs: Sequence[Tensor], wanted: Sequence[bool]
    ) -> Sequence[Cotangent]:
        """Return what ``vjp`` does; ops whose cotangents come all at once see which are wanted."""
        return self.vjp(gs, ys, xs)

    def without_residuals(self) -> Op:
        """Return the op as it runs where nothing reads its residuals."""
        return self

    def fitted(self, specs: Sequence[Any]) -> Op:
        """Return the op as it is for inputs that an edit has given other sizes.

        Ops that hold sub-graphs, which know the sizes they were built for, build them anew.
        """
        return self

    def expand(self, *xs: Any) -> Any:
        """Return the outputs as a graph of other ops; makes this a composite."""
        raise NotImplementedError(f"{self.name} is primitive")

    def divisor(self, *xs: Any) -> Any:
        """Return what a mean divides by, a scalar built of its inputs; None for what is no mean."""
        return None

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        """Return how many sums, products and other functions of numbers it takes, from specs.

        Of a composite, and of control flow, what it stands for is counted instead.
        """
        return arithmetic(self.drawing, ins, outs)

    def alias_of(self, specs: Sequence[TensorSpec | None]) -> int | None:
        """Return the input that is the (only) output unchanged on these concrete specs, if any."""
        return None

    @property
    def rounds_once(self) -> bool:
        """Whether a composite computes halves in float32 and rounds at its end, not step by step.

        What holds graphs never does: theirs are the user's steps.
        """
        return True

    @property
    def title(self) -> str:
        """What nodes of the op are called where the user gives no name."""
        return self.name.rpartition("/")[2]

    def weight_sites(self) -> tuple[WeightSite, ...]:
        """Return where this op holds weights, so that adapters find them whatever the layout."""
        return ()

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        """Yield the inputs this op is tested on."""
        raise NotImplementedError(f"{cls.name} has no samples")

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        """Yield inputs this op must refuse."""
        return iter(())

    @classmethod
    def upgrade(cls, attrs: dict[str, Any], from_version: int) -> dict[str, Any]:
        """Convert the attributes of an older version, read from an archive."""
        return attrs

    # -- what is derived ------------------------------------------------------------------------

    @classmethod
    def is_composite(cls) -> bool:
        """Tell whether the op is defined by ``expand``."""
        return cls.expand is not Op.expand

    @classmethod
    def has_vjp(cls) -> bool:
        """Tell whether the op states its own gradient."""
        return cls.vjp is not Op.vjp

    @classmethod
    def has_surrogate(cls) -> bool:
        """Tell whether the op declares a gradient that is not the one of what it computes."""
        return cls.surrogate is not Op.surrogate

    def depends(self, i: int) -> Dependence:
        """Return how the outputs depend on input ``i`` while the others are held."""
        claimed = type(self).dependence
        if isinstance(claimed, tuple):
            claimed = claimed[min(i, len(claimed) - 1)]
        return settled(claimed, self.__dict__.get("axis"))

    def current(self) -> Op:
        """Return the op as it is defined now: where its cell ran again, of another class."""
        cls = type(self)
        now = OPS.get(cls.name, cls)
        if now is cls or not cls.registered:
            return self
        return now(**{k: v for k, v in self.attributes().items() if k in now.attrs})

    def for_mode(self, training: bool) -> Op:
        """Return the op as it runs: as it is defined now, with ``training`` settled inside too."""
        cls, now = type(self), self.current()
        if now is not self:
            return now.for_mode(training)
        changes: dict[str, Any] = {
            k: v.for_mode(training)
            for k in cls.attrs  # not of __dict__: there a thread may put the hash meanwhile
            if isinstance(v := self.__dict__.get(k), Op)
        }
        if cls.follows_mode and self.__dict__["training"] is None:
            changes["training"] = training
        return self.replace(**changes) if changes else self

    def symbols(self) -> frozenset[str]:
        """Return the symbolic dimensions in the attributes."""
        found: set[str] = set()
        stack = list(self.attributes().values())
        while stack:
            value = stack.pop()
            if isinstance(value, Dim):
                found |= value.symbols
            elif isinstance(value, Frozen):
                found |= value.symbols()
            elif isinstance(value, tuple):
                stack.extend(value)
        return frozenset(found)

    def bind(self, sizes: Mapping[str, int]) -> Op:
        """Return the op with symbolic dimensions in its attributes replaced by sizes."""

        def settle(value: Any) -> Any:
            if isinstance(value, Dim):
                return value.substitute(sizes)
            if isinstance(value, Frozen):
                return value.bind(sizes)
            return tuple(map(settle, value)) if isinstance(value, tuple) else value

        if not type(self).attrs:
            return self
        changes = {
            k: s for k, v in self.attributes().items() if (s := settle(v)) is not v and s != v
        }
        return self.replace(**changes) if changes else self

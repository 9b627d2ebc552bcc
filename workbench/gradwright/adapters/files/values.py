"""What options of a file may be: numbers, names, tables of patterns; anything else is damage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import ArchiveError

MOST = 1e9
"""No size, seed or scale of an adapter is larger."""


def _number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= MOST  # no NaN either


def _whole(value: Any) -> bool:
    return type(value) is int and abs(value) <= MOST


def _maybe(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or test(value)


def _names(value: Any) -> bool:
    return isinstance(value, str) or _all(value, lambda name: isinstance(name, str))


def _layers(value: Any) -> bool:
    return _whole(value) or _all(value, _whole)


def _patterns(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return all(_number(v) or _all(v, lambda on: isinstance(on, bool)) for v in value.values())


def _all(value: Any, test: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(test, value))


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _word(value: Any) -> bool:
    return isinstance(value, bool | str)


KINDS: Mapping[str, tuple[Callable[[Any], bool], tuple[str, ...]]] = {
    "a number": (
        _number,
        (
            *("lora_alpha", "alpha", "lora_dropout", "rank_dropout", "module_dropout"),
            *("vera_dropout", "d_initial", "beta1", "beta2", "orth_reg_weight"),
            *("encoder_dropout", "scaling", "reduction_factor"),
        ),
    ),
    "a whole number": (
        _whole,
        (
            *("r", "init_r", "target_r", "tinit", "tfinal", "deltaT", "num_virtual_tokens"),
            *("projection_prng_key", "decompose_factor", "encoder_num_layers"),
        ),
    ),
    "a whole number, or null": (_maybe(_whole), ("total_step", "encoder_hidden_size")),
    "true or false": (
        _flag,
        (
            *("use_rslora", "lora_bias", "use_dora", "decompose_both", "rank_dropout_scale"),
            *("use_effective_conv2d", "save_projection", "prefix_projection", "is_parallel"),
            *("mh_adapter", "original_ln_before"),
        ),
    ),
    "true, false or a word": (_maybe(_word), ("init_lora_weights", "init_weights")),
    "a word": (
        lambda value: isinstance(value, str),
        ("bias", "encoder_reparameterization_type", "non_linearity"),
    ),
    "names, or a pattern": (
        _maybe(_names),
        (
            *("target_modules", "exclude_modules", "modules_to_save", "feedforward_modules"),
            "layers_pattern",
        ),
    ),
    "numbers of layers": (_maybe(_layers), ("layers_to_transform", "leave_out")),
    "a table of patterns": (_maybe(_patterns), ("rank_pattern", "alpha_pattern")),
}
"""What an option has to be -> how that is told, and which options."""


def check(settings: Mapping[str, Any], where: str) -> None:
    """Raise ArchiveError for an option that is none of what it may be.

    >>> check({"r": 8, "lora_alpha": 16.0, "of_tomorrow": {}}, "")
    >>> check({"r": "8"}, "a.json")
    Traceback (most recent call last):
    gradwright.errors.ArchiveError: a.json: r is '8'
      need: a whole number
    """
    for need, (fits, options) in KINDS.items():
        for key in options:
            if key in settings and not fits(settings[key]):
                raise ArchiveError(f"{key} is {settings[key]!r:.60}", where=where, need=need)

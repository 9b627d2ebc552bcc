"""Options of bottleneck adapters as the library adapters spells them, and ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import ArchiveError
from ..methods.bottleneck import Bottleneck
from .options import CONFIG, Options

PLACEMENTS: Mapping[str, Mapping[str, Any]] = {
    "pfeiffer": {"mh_adapter": False, "is_parallel": False, "original_ln_before": True},
    "houlsby": {"mh_adapter": True, "is_parallel": False, "original_ln_before": False},
    "parallel": {"mh_adapter": False, "is_parallel": True, "original_ln_before": False},
}
"""Where adapters stand, by the settings that tell it."""
_PHM = {
    **{"phm_dim": 4, "factorized_phm_W": True, "shared_W_phm": False, "shared_phm_rule": True},
    **{"factorized_phm_rule": False, "phm_c_init": "normal", "phm_init_range": 0.0001},
    **{"learn_phm": True, "hypercomplex_nonlinearity": "glorot-uniform", "phm_rank": 1},
    "phm_bias": True,
}
ROW = Options(
    "Bottleneck",
    "",
    {
        **{"reduction_factor": "reduction_factor", "non_linearity": "activation"},
        **{"scaling": "scaling", "init_weights": "init"},
    },
    {
        **_PHM,
        **{"dropout": 0.0, "stochastic_depth": 0.0, "init_weights_seed": None, "leave_out": []},
        **PLACEMENTS["pfeiffer"],
        "inv_adapter_reduction_factor": None,
    },
    {
        **{"output_adapter": True, "original_ln_after": True, "residual_before_ln": True},
        **{"ln_before": False, "ln_after": False, "use_gating": False, "phm_layer": False},
        **{"adapter_residual_before_ln": False, "cross_adapter": False, "inv_adapter": None},
        "architecture": None,
    },
)
"""Options of a network, as those of peft."""
INITS = {"bert": "bert", "mam_adapter": "mam"}


def check_config(config: Mapping[str, Any]) -> None:
    """Raise ArchiveError for settings of another kind of adapter."""
    if config.get("architecture") is not None or "mh_adapter" not in config:
        kind = str(config.get("architecture"))[:40]
        raise ArchiveError(
            f"adapters of the kind {kind!r} of this library are not read",
            where=CONFIG,
            need="bottlenecks; peft has the others",
        )


def fields_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a method; raises ArchiveError for what is none.

    >>> fields_of({**written_config(Bottleneck("parallel")), "non_linearity": "gelu"})["activation"]
    'gelu'
    """
    told = {
        name
        for name, rules in PLACEMENTS.items()
        if all(config.get(key, False) == value for key, value in rules.items())
    }
    if not told:
        keys = ", ".join(f"{key} = {config.get(key)}" for key in PLACEMENTS["houlsby"])
        raise ArchiveError(f"no placement has {keys}", where=CONFIG, need=", ".join(PLACEMENTS))
    found = {ours: config[key] for key, ours in ROW.fields.items() if key in config}
    init = found.get("init", "bert")
    found["init"] = INITS.get(init, init) if isinstance(init, str) else init
    return {"placement": told.pop(), **found}


def written_config(method: Bottleneck) -> dict[str, Any]:
    """Return the settings of a method, all that the library has."""
    preset, words = method.settings, {ours: theirs for theirs, ours in INITS.items()}
    return {
        **ROW.kept,
        **{key: value for key, value in ROW.only.items() if key != "architecture"},
        **PLACEMENTS[method.placement],
        "reduction_factor": preset.reduction_factor,
        "non_linearity": preset.activation,
        "scaling": preset.scaling,
        "init_weights": words[preset.init],
    }

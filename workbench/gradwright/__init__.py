"""gradwright: declare an autodiff graph, see it, step through it, check it, train it."""

from importlib import import_module
from typing import Any

from . import ops
from .shared import first_use

__version__ = "0.1.0"

CORE = {
    "spec": "Dim TensorSpec",
    "spec.containers": "OptionalSpec SequenceSpec",
    "op": "ZERO ErrorSample NotDifferentiable OnnxRule Op Sample WeightSite attr register",
    "graph": "Graph Node Tensor Values clone",
    "ops.control.call": "function",
    "ops.define": "define_op",
    "gradient": "gradients",
    "program.lowering": "lowering",
    "session": "Listener Session",
}
"""Home -> its names that stand here. A type checker reads ``__init__.pyi``, written from this."""
LATER = {
    "gradient.jacobian": "hvp jacobian per_example_gradients",
    "tracing": "compile cond loop map_fn scan trace while_loop",
    "rewrite.recognition": "recognize",
    "debug": "Stepper explain_gradient gradient_check",
    "files.trusted": "disk_cache",
    "formats.archive": "load load_state save",
    "formats.comparing": "compare_files",
    "formats.inspecting": "inspect",
    "formats.opening": "open",
    "evaluation": "evaluate",
    "evaluation.predict": "predict",
    "train": (
        "EMA SWA Accumulation Callback EarlyStopping GradientAccumulator GradientWatch Group"
        " History ParameterStatistics Trainer TrainingConfig"
    ),
    "train.checkpoints": "Checkpoints resume",
    "train.precision": "FP8 LossScale LossScaler Precision",
    "recipes.depth": "CheckpointedStack DeepTrainer backward_from",
    "models.sequential": "Sequential",
    "recipes.mapped": "MappedTrainer",
    "recipes.unrolled_trainer": "UnrolledTrainer",
    "recording": "Run runs",
    "recording.report": "report reporting",
}
"""The same for what is imported when first asked for: it takes longer than all the rest."""
MODULES = {
    **{name: name for name in ("adapters", "align", "data", "evaluation", "init", "models")},
    **{name: name for name in ("ops", "testing", "train")},
    "constraints": "train.constraints",
    "distillation": "recipes.distillation",
    "metrics": "evaluation.metrics",
    "onnx": "formats.onnx",
    "optim": "train.optim",
    "safetensors": "formats.safetensors",
    "schedules": "train.schedules",
    "transfer": "recipes.transfer",
}
"""Public name -> the module that it is, imported when first asked for."""
ROOMS = ("debug", "tracing")
"""Modules that are found here, but not listed."""
TOP = ("base", "math", "linalg")
"""Namespaces whose functions stand here, too, as numpy has them at its top level: exp, matmul."""

for _home, _names in CORE.items():
    _module = import_module(f".{_home}", __name__)
    globals().update({name: getattr(_module, name) for name in _names.split()})
_spaces, _functions = ops.modules(), ops.loaded(*TOP)
globals().update(_spaces)
globals().update(_functions)

_homes = {name: home for home, names in LATER.items() for name in names.split()}
__all__ = [
    *(name for names in CORE.values() for name in names.split()),
    *_homes,
    *MODULES,
    *_spaces,
    *_functions,
]
_member, __dir__ = ops.surface(__name__, *TOP, also=__all__)


def __getattr__(name: str) -> Any:
    with first_use:
        if name in MODULES or name in ROOMS:
            found = import_module(f".{MODULES.get(name, name)}", __name__)
        elif name in _homes:
            found = getattr(import_module(f".{_homes[name]}", __name__), name)
        else:
            return _member(name)
    globals()[name] = found
    return found

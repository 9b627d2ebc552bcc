"""Folders that peft saves and loads, beside the same tiny Llama as a decoder."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwright.models import from_pretrained
from tests.models.theirs import made_of, torch_of

Array = np.ndarray[Any, Any]
IDS = np.arange(12).reshape(2, 6) % 11
CAUSAL = {"task_type": "CAUSAL_LM"}
QV = {"target_modules": ["q_proj", "v_proj"], **CAUSAL}
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


def peft() -> Any:
    """Return peft; skip where it is missing."""
    return pytest.importorskip("peft", reason="pip install -e '.[oracle]'")


def base(folder: Path, name: str = "Llama", **more: Any) -> Any:
    """Return a model of transformers after it was saved to a folder, without its path."""
    theirs = made_of(name, {"tie_word_embeddings": False, **more}, 0)
    if not (folder / "config.json").exists():
        theirs.save_pretrained(folder)
    theirs.name_or_path = theirs.config._name_or_path = ""
    return theirs


def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fixture: a folder with the model that adapters are for."""
    folder = tmp_path_factory.mktemp("base") / "tiny"
    base(folder, attention_bias=True)
    return folder


def at(folder: Path) -> Any:
    """Return the model of that folder."""
    return base(folder, attention_bias=True)


def ours(folder: Path) -> Any:
    """Return the decoder of a folder."""
    return from_pretrained(folder)


def wrapped(theirs: Any, config: Any, seed: int = 1) -> Any:
    """Return a model with an adapter of peft, all of whose trained numbers are drawn."""
    torch = torch_of()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = peft().get_peft_model(theirs, config)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in made.parameters():
            if p.requires_grad:
                p += torch.randn(p.shape, generator=draw) * 0.2
    return made.eval()


def saved(made: Any, folder: Path) -> Path:
    """Return a folder of peft."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.save_pretrained(folder)
    return folder


def loaded(theirs: Any, folder: Path) -> Any:
    """Return a model with the adapter of a folder, as peft loads it; its warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message=".*(missing|unexpected|not initialized)")
        return peft().PeftModel.from_pretrained(theirs, str(folder)).eval()


def theirs_says(model: Any, ids: Array = IDS) -> Array:
    """Return the logits of real tokens."""
    torch = torch_of()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: Array = model(input_ids=torch.tensor(ids)).logits.numpy()
    return found[:, -ids.shape[1] :]


def ours_says(model: Any, ids: Array = IDS) -> Array:
    """Return logits of a decoder."""
    found: Array = model.graph.output({"ids": ids}, model.logits)["logits"]
    return found


def settings(folder: Path) -> dict[str, Any]:
    """Return the settings of a folder; lists that peft keeps as sets are sorted."""
    found = json.loads((folder / CONFIG).read_text())
    for key in ("target_modules", "feedforward_modules", "exclude_modules"):
        if isinstance(found.get(key), list):
            found[key] = sorted(found[key])
    return found


def distance(a: Array, b: Array) -> float:
    """Return the largest difference, of the largest number."""
    return float(np.abs(a - b).max() / np.abs(b).max())

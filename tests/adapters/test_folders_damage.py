"""Settings that are none: an error of ours that names them, and a model that is as it was."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import gradwright as gw
from gradwright import adapters
from gradwright.errors import ArchiveError
from tests.adapters.folders import CONFIG
from tests.formats.damaged_weights import _base

ODD = [None, True, -1, 2.5, 10**30, "(", [1], ["("], [None], {"(": 1}, {"q_proj": "x"}, {"q": None}]
METHODS = {
    "LoRA": (adapters.LoRA(r=2), "q|up"),
    "AdaLoRA": (adapters.AdaLoRA(init_r=3, target_r=2, total_step=9), "q"),
    "LoKr": (adapters.LoKr(r=2), "q"),
    "IA3": (adapters.IA3(feedforward="down"), "q|down"),
    "VeRA": (adapters.VeRA(r=2), "q"),
    "Prefix": (adapters.Prefix(tokens=2), None),
    "Bottleneck": (adapters.Bottleneck(), None),
}


@pytest.mark.parametrize("name", METHODS)
def test_odd_settings_are_refused_or_mean_nothing(name, tmp_path):
    method, where = METHODS[name]
    adapters.save(adapters.add(_base(), method, where), tmp_path)
    told = json.loads((tmp_path / CONFIG).read_text())
    options = told.get("config", told)
    draw, refused = random.Random(5), 0
    for _ in range(12):
        key, odd = draw.choice(list(options)), draw.choice(ODD)
        was, options[key] = options[key], odd
        (tmp_path / CONFIG).write_text(json.dumps(told))
        options[key] = was
        model = _base()
        before = {n: a.copy() for n, a in model.graph.values.items()}
        try:
            gw.inspect(tmp_path).to_json()
            repr(gw.open(tmp_path))
            adapters.load(model, tmp_path)
        except ArchiveError:
            refused += 1
            assert not adapters.of(model) and before.keys() == dict(model.graph.values).keys()
            assert all(np.array_equal(model.graph.values[n], a) for n, a in before.items())
    assert refused

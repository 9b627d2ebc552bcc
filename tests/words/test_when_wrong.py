"""Advice is for what is wrong: who makes no mistake does not wait for its tables."""

import subprocess
import sys

import pytest

TRAINING = """
import numpy as np
import gradwright as gw

with gw.Graph() as g:
    x = g.placeholder("x", ("B", 2))
    w = g.variable("w", init=np.ones(2, np.float32))
    loss = gw.mean((x @ w) ** 2)
gw.Trainer(g, loss).fit({"x": np.ones((4, 2), np.float32)})
"""
MISTAKE = """
try:
    x.unsqueeze(0)
except AttributeError:
    pass
"""


@pytest.mark.parametrize(("script", "asked"), [(TRAINING, False), (TRAINING + MISTAKE, True)])
def test_advice_is_loaded_when_something_is_wrong(script, asked):
    loaded = "import sys; print('gradwright.words.advice' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script + loaded], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == [str(asked)], done.stderr

"""Every op is held against its own samples; adding an op adds its tests."""

from __future__ import annotations

import pytest

import gradwright as gw
from gradwright.gradient import Pullback
from gradwright.graph import Source
from gradwright.op import OPS
from gradwright.testing import CLASS_CHECKS, SAMPLE_CHECKS, samples

CLASSES = [
    pytest.param(cls, id=name)
    for name, cls in OPS.items()
    if "/" not in name
    and not issubclass(cls, Source)  # made by the graph
    and cls is not Pullback  # its attribute is another op: checked with each composite
]


@pytest.mark.parametrize("check", CLASS_CHECKS)
@pytest.mark.parametrize("cls", CLASSES)
def test_declaration(cls: type[gw.Op], check: str) -> None:
    CLASS_CHECKS[check](cls)


@pytest.mark.parametrize("check", SAMPLE_CHECKS)
@pytest.mark.parametrize("cls", CLASSES)
def test_samples(cls: type[gw.Op], check: str) -> None:
    for number, sample in enumerate(samples(cls)):
        try:
            SAMPLE_CHECKS[check](cls, sample)
        except Exception as error:
            error.add_note(f"sample {number} of {cls.name}: {sample}")
            raise

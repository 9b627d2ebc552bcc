"""Optimizers: dataclasses of numbers, each with an update op that moves a parameter.

Several functions of ``gw.training`` are found here, too: ``gw.optim.clip_by_global_norm`` ...

==================  ==========================================================  ==================
optimizer           paper                                                       state per weight
==================  ==========================================================  ==================
SGD                 Robbins & Monro 1951                                        0
SGD(momentum=)      Polyak 1964; ``nesterov``: Sutskever et al. 2013, as torch  1
Nesterov            Sutskever et al. 2013, learning rate in the velocity        1
AdaGrad             Duchi, Hazan & Singer 2011                                  1
AdaDelta            Zeiler 2012, arXiv:1212.5701                                2
RMSProp             Tieleman & Hinton 2012; ``centered``: Graves 2013           1; +1 centered,
                                                                                +1 with momentum
Adam, AdamW         Kingma & Ba 2015; Loshchilov & Hutter 2019                  2
SparseAdam          Adam of the rows that a batch looks up, as torch            2
AMSGrad             Reddi, Kale & Kumar 2018                                    3
AdaMax              Kingma & Ba 2015, §7.1                                      2
Nadam               Dozat 2016                                                  2
RAdam               Liu et al. 2020, arXiv:1908.03265                           2
AdaBelief           Zhuang et al. 2020, arXiv:2010.07468                        2
LAMB                You et al. 2020, arXiv:1904.00962                           2
Lion                Chen et al. 2023, arXiv:2302.06675                          1
Adafactor           Shazeer & Stern 2018, arXiv:1804.04235                      1/n + 1/m of n·m
Adam8bit            Dettmers et al. 2022, arXiv:2110.02861                      2 bytes + 1/32
Muon                Jordan et al. 2024                                          1
ScheduleFreeAdamW   Defazio et al. 2024, arXiv:2405.15682                       3
NoOp                -                                                           0
==================  ==========================================================  ==================

State is float32 (float64 of float64 parameters), 4 bytes a number but for ``Adam8bit``. Each number
may be a schedule, and may be set while a trainer runs: ``SGD(0.1, momentum=schedule)``.
"""

from __future__ import annotations

from typing import Any

from ...ops import member
from .adaptive import (
    LAMB,
    AdaBelief,
    Adam,
    Adam8bit,
    AdaMax,
    AdamW,
    AMSGrad,
    Nadam,
    RAdam,
    SparseAdam,
)
from .averaged import ScheduleFreeAdamW
from .base import Optimizer, Slot
from .descent import SGD, Lion, Nesterov, NoOp
from .matrices import Adafactor, Muon
from .named import get
from .scaled import AdaDelta, AdaGrad, RMSProp

__all__ = [
    "LAMB",
    "SGD",
    "AMSGrad",
    "AdaBelief",
    "AdaDelta",
    "AdaGrad",
    "AdaMax",
    "Adafactor",
    "Adam",
    "Adam8bit",
    "AdamW",
    "Lion",
    "Muon",
    "Nadam",
    "Nesterov",
    "NoOp",
    "Optimizer",
    "RAdam",
    "RMSProp",
    "ScheduleFreeAdamW",
    "Slot",
    "SparseAdam",
    "get",
]


def __getattr__(name: str) -> Any:
    """Return what an optimizer does as a function: adam_update, clip_by_global_norm ..."""
    return member(__name__, name, "training", also=__all__)

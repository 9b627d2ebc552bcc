"""Control flow: ops whose attributes hold sub-graphs, with gradients of every order."""

from ...op import Family

FAMILY = Family("Control flow", drawing="control", kind="control")

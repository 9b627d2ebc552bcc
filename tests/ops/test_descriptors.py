"""The description of all ops: schema, bytes, what it says of each, and a C header made of it."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError
from gradwright.op import OPS
from gradwright.op.calling import HIDDEN, public_outputs, public_returns
from gradwright.ops.reference.description import FILE, SCHEMA, plain, written
from gradwright.ops.reference.kinds import KINDS
from gradwright.testing import samples
from tests.ops.c_header import header


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    return gw.ops.descriptors()


@pytest.fixture(scope="module")
def ops(description: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {op["name"]: op for op in description["ops"]}


@pytest.mark.parametrize("texts", [True, False])
def test_it_fits_its_schema(texts: bool) -> None:
    schema = json.loads(SCHEMA.read_text("utf-8"))
    checker = jsonschema.Draft202012Validator(schema)
    checker.check_schema(schema)
    found = [e.message for e in checker.iter_errors(gw.ops.descriptors(texts=texts))]
    assert not found
    assert [*schema["$defs"]["op"]["properties"]["kind"]["enum"]] == [*KINDS]


def test_the_schema_refuses_what_is_wrong(description: dict[str, Any]) -> None:
    checker = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text("utf-8")))
    op = description["ops"][0]
    axis = {"name": "axis", "types": ["int"], "required": True}
    for wrong in (
        {**op, "kind": "nice"},
        {**op, "version": 0},
        {**op, "outputs": []},
        {**op, "attributes": [{**axis, "default": 1}]},
        {**op, "attributes": [{**axis, "required": False}]},
        {**op, "attributes": [{**axis, "types": ["tensor"]}]},
    ):
        assert not checker.is_valid({**description, "ops": [wrong]}), wrong


def test_its_bytes_are_the_same_in_every_process() -> None:
    code = "import sys; from gradwright.ops.__main__ import main; sys.exit(main(['describe']))"
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=True,
        ).stdout.decode()
        for seed in ("1", "2")
    }
    assert texts == {FILE.read_text("utf-8")}


def test_it_is_written_to_a_file_and_read_again(tmp_path: Path, description: Any) -> None:
    path = tmp_path / "ops.json"
    assert gw.ops.descriptors(path) == description == json.loads(path.read_text("utf-8"))
    lines = path.read_text("utf-8").splitlines()
    assert sum(line.startswith('{"name"') for line in lines) == len(description["ops"])


def test_every_op_of_ours_is_there(ops: dict[str, Any]) -> None:
    assert [*ops] == sorted(ops) and len(ops) > 700
    assert {name for name, op in ops.items() if op["public"]} == {e.name for e in gw.ops.table()}
    for name, op in ops.items():
        assert op["summary"].endswith("."), name
        assert op["version"] == OPS[name].version


def test_an_op_of_the_users_or_of_another_world_is_not(ops: dict[str, Any]) -> None:
    assert gw.onnx.operators() and "onnx_op" in OPS and "onnx_op" not in ops
    try:
        gw.define_op("test/described", lambda x: x)
        assert gw.ops.descriptors()["ops"] == [*ops.values()]
    finally:
        del OPS["test/described"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("relu", "elementwise"), ("cast", "elementwise"), ("gelu", "elementwise")),
        *(("add", "broadcasting"), ("where", "broadcasting"), ("less", "broadcasting")),
        *(("sum", "reduction"), ("argmax", "reduction"), ("std", "reduction")),
        *(("uniform", "random"), ("dropout", "random"), ("token_sample", "random")),
        *(("split_to_sequence", "list"), ("optional_get_element", "list")),
        *(("cond", "control"), ("scan", "control"), ("while", "control"), ("call", "control")),
        *(("linear", "composite"), ("layer_norm", "composite"), ("matmul", "general")),
    ],
)
def test_kinds(ops: dict[str, Any], name: str, kind: str) -> None:
    assert ops[name]["kind"] == kind == gw.ops.find(name).kind


def test_kinds_are_what_ops_do_on_their_samples(ops: dict[str, Any]) -> None:
    """Elementwise ops keep the shape, broadcasting ones that of all tensors, reductions lose it."""
    held = dict.fromkeys(("elementwise", "broadcasting", "reduction"), 0)
    for name, op in ops.items():
        if op["kind"] not in held or name in LIKE:
            continue
        for sample in samples(OPS[name]):
            shapes = [np.shape(x) for x in sample.inputs if x is not None]
            y = _specs(name, sample)[0]
            if op["kind"] != "reduction":
                assert y.shape == np.broadcast_shapes(*shapes), name
            elif not sample.attrs.get("keepdims"):
                axis = sample.attrs.get("axis")
                axes = range(y.rank and 0) if axis is None else np.atleast_1d(axis)
                rank = len(np.broadcast_shapes(*shapes))
                lost = rank if axis is None else len(axes)
                assert y.rank == rank - lost, (name, sample)
            held[op["kind"]] += 1
    assert all(count >= 80 for count in held.values()), held


LIKE = {"broadcast_to", "broadcast_like", "apply_alibi", "surrogate", "with_gradient"}
"""Ops whose further inputs are shapes, or are not read."""


def _specs(name: str, sample: Any) -> list[gw.TensorSpec]:
    """Return the specs of the public outputs on a sample."""
    graph = gw.Graph("described", scratch=True)
    with graph:
        given = [
            None if x is None else graph.placeholder(f"x{i}", np.shape(x), np.asarray(x).dtype)
            for i, x in enumerate(sample.inputs)
        ]
        made = OPS[name](**sample.attrs)(*given)
    return [t.spec for t in (made if isinstance(made, tuple) else (made,))]


def test_outputs_are_as_many_as_are_named(ops: dict[str, Any]) -> None:
    counted = 0
    for name in ops:
        cls = OPS[name]
        names = public_returns(cls)
        if len(names) == 1 and not names[0].startswith("*"):
            continue
        assert cls.returns, f"{name} does not name its outputs"
        assert cls.n_public in (None, public_outputs(cls)), name
        for sample in samples(cls) if cls.by_reference == "" else ():
            found = len(_specs(name, sample))
            variadic = sum(n.startswith("*") for n in names)
            assert found == len(names) if not variadic else found >= len(names) - variadic, name
            counted += 1
    assert counted > 150


def test_types_take_the_defaults_and_what_samples_give(ops: dict[str, Any]) -> None:
    for name, op in ops.items():
        declared = {a["name"]: a for a in op["attributes"]}
        for key, attribute in declared.items():
            if not attribute["required"]:
                default = OPS[name].attrs[key].default
                assert _fits(default, attribute["types"]), (name, attribute)
                assert plain(default) == attribute["default"]
        if not op["namespace"] or name == "pullback":
            continue
        for sample in samples(OPS[name]):
            made = OPS[name](**sample.attrs)
            for key, value in made.attributes().items():
                assert _fits(value, declared[key]["types"]), (name, key, value)


def _fits(value: Any, types: list[Any]) -> bool:
    """Tell whether an attribute is of one of the neutral types."""
    for kind in types:
        if isinstance(kind, dict):
            right = isinstance(value, tuple) and all(_fits(v, kind["list"]) for v in value)
            if right and kind.get("length", len(value)) == len(value):
                return True
        elif kind == "any" or isinstance(value, PYTHON[kind]):
            return kind != "int" or not isinstance(value, bool)
    return False


PYTHON: dict[str, Any] = {
    "int": int,
    "float": (float, int),
    "bool": bool,
    "string": str,
    "null": type(None),
    "dim": gw.Dim,
    "dtype": (np.dtype, str),  # a default may be its name
    "op": gw.Op,
    "graph": object,
}


def test_bounds_and_choices_are_those_that_are_refused_beyond(ops: dict[str, Any]) -> None:
    tried = 0
    for name, op in ops.items():
        needed = {a["name"]: 1 for a in op["attributes"] if a["required"]}
        for attribute in op["attributes"]:
            beyond = [attribute[k] + d for k, d in (("least", -1), ("most", 1)) if k in attribute]
            beyond += ["no such choice"] if "choices" in attribute else []
            for value in beyond if not needed else ():
                with pytest.raises((GraphError, TypeError)):
                    OPS[name](**{attribute["name"]: value})
                tried += 1
    assert tried > 120


def test_functions_are_those_of_the_namespaces(description: dict[str, Any]) -> None:
    for function in description["functions"]:
        space = gw if function["namespace"] == "base" else getattr(gw, function["namespace"])
        assert callable(getattr(space, function["name"]))
    named = {f["op"] for f in description["functions"]} - {None}
    public = {op["name"] for op in description["ops"] if op["public"]}
    assert public - named == {name for name in public if OPS[name].namespace == "control"}
    assert (
        not {op["name"] for op in description["ops"]}
        - public
        - {name for name, cls in OPS.items() if cls.namespace in HIDDEN}
    )


def test_numbers_that_json_lacks_are_texts() -> None:
    assert plain((math.inf, -math.inf, 1.5)) == ["inf", "-inf", 1.5]
    json.loads(written(gw.ops.descriptors()), parse_constant=pytest.fail)


# -- another language ------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_c_header_is_made_of_it(tmp_path: Path, ops: dict[str, dict[str, Any]]) -> None:
    """It compiles without a warning, and a program sees ops, counts and all defaults in it."""
    (tmp_path / "ops.h").write_text(header([*ops.values()]), "utf-8")
    made = [n for n, op in ops.items() if any("default" in a for a in op["attributes"])]
    fields = [
        (name, attribute["name"], attribute["default"])
        for name in made
        for attribute in ops[name]["attributes"]
        if not attribute["required"] and attribute["types"] in (["int"], ["float"])
    ]
    program = [
        *("#include <stdio.h>", '#include "ops.h"', "int main(void) {"),
        *(f"  struct gw_{name} of_{name} = {{GW_{name.upper()}_DEFAULTS}};" for name in made),
        *(f'  printf("%.17g\\n", (double)of_{name}.{key}_);' for name, key, _ in fields),
        "  gw_shape svd = gw_shapes[GW_SVD];",
        '  printf("%d %s %d\\n", GW_OPS, svd.name, (int)svd.outputs);',
        *("  return 0;", "}"),
    ]
    (tmp_path / "main.c").write_text("\n".join(program), "utf-8")
    flags = ["-std=c11", "-Wall", "-Werror", "-Wno-unused", "-o", "main"]
    done = subprocess.run(["cc", *flags, "main.c"], cwd=tmp_path, capture_output=True, text=True)
    assert not done.returncode, done.stderr[:2000]
    found = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    *values, last = found.splitlines()
    assert last == f"{len(ops)} svd 3"
    assert [float(v) for v in values] == [float(default) for _, _, default in fields]
    assert len(values) > 300

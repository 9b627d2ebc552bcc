"""What broke between two descriptions of the ops, and that nothing broke since the kept one."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gradwright as gw
from gradwright.errors import ArchiveError
from gradwright.ops.__main__ import main
from gradwright.ops.reference.description import written

KEPT = Path(__file__).parent / "kept_ops.json"
"""The description that programs and archives of users rely on; CONTRIBUTING says when it moves."""


@pytest.fixture(scope="module")
def today() -> dict[str, Any]:
    return gw.ops.descriptors(texts=False)


def test_nothing_broke_since_the_kept_description() -> None:
    changes = gw.ops.check(KEPT)
    assert changes.ok, f"{changes}\nmeant? python -m gradwright.ops describe --bare {KEPT}"


def op_of(description: dict[str, Any], name: str) -> dict[str, Any]:
    return next(op for op in description["ops"] if op["name"] == name)


def attribute_of(description: dict[str, Any], op: str, name: str) -> dict[str, Any]:
    return next(a for a in op_of(description, op)["attributes"] if a["name"] == name)


def removed_op(d: dict[str, Any]) -> None:
    d["ops"].remove(op_of(d, "relu"))


def renamed_op(d: dict[str, Any]) -> None:
    op_of(d, "relu")["name"] = "rectify"


def hidden_op(d: dict[str, Any]) -> None:
    op_of(d, "relu")["public"] = False


def other_kind(d: dict[str, Any]) -> None:
    op_of(d, "relu")["kind"] = "general"


def other_namespace(d: dict[str, Any]) -> None:
    op_of(d, "relu")["namespace"] = "math"


def lower_version(d: dict[str, Any]) -> None:
    op_of(d, "relu")["version"] = 0


def removed_attribute(d: dict[str, Any]) -> None:
    del op_of(d, "conv2d")["attributes"][3]


def renamed_attribute(d: dict[str, Any]) -> None:
    attribute_of(d, "conv2d", "groups")["name"] = "parts"


def other_default(d: dict[str, Any]) -> None:
    attribute_of(d, "leaky_relu", "negative_slope")["default"] = 0.2


def default_of_another_type(d: dict[str, Any]) -> None:
    attribute_of(d, "conv2d", "groups")["default"] = True


def no_default(d: dict[str, Any]) -> None:
    groups = attribute_of(d, "conv2d", "groups")
    del groups["default"]
    groups["required"] = True


def needed_attribute(d: dict[str, Any]) -> None:
    op_of(d, "relu")["attributes"].append({"name": "n", "types": ["int"], "required": True})


def narrower_types(d: dict[str, Any]) -> None:
    attribute_of(d, "conv2d", "stride")["types"] = ["int"]


def narrower_range(d: dict[str, Any]) -> None:
    attribute_of(d, "dropout", "p")["most"] = 0.5


def new_bound(d: dict[str, Any]) -> None:
    attribute_of(d, "leaky_relu", "negative_slope")["least"] = 0.0


def fewer_choices(d: dict[str, Any]) -> None:
    attribute_of(d, "conv2d", "data_format")["choices"].pop()


def attribute_order(d: dict[str, Any]) -> None:
    op_of(d, "conv2d")["attributes"].reverse()


def input_order(d: dict[str, Any]) -> None:
    op_of(d, "sub")["inputs"].reverse()


def removed_input(d: dict[str, Any]) -> None:
    op_of(d, "conv2d")["inputs"].pop()


def needed_input(d: dict[str, Any]) -> None:
    op_of(d, "conv2d")["inputs"][2]["optional"] = False


def input_in_the_midst(d: dict[str, Any]) -> None:
    extra = {"name": "scale", "optional": True, "variadic": False}
    op_of(d, "conv2d")["inputs"].insert(1, extra)


def one_output_less(d: dict[str, Any]) -> None:
    op_of(d, "top_k")["outputs"].pop()


def outputs_swapped(d: dict[str, Any]) -> None:
    op_of(d, "top_k")["outputs"].reverse()


def no_name_in_samediff(d: dict[str, Any]) -> None:
    op_of(d, "relu")["samediff"] = []


def no_operator(d: dict[str, Any]) -> None:
    op_of(d, "relu")["onnx"] = None


BROKEN = {
    removed_op: ("relu", "removed"),
    renamed_op: ("relu", "renamed"),
    hidden_op: ("relu", "public"),
    other_kind: ("relu", "kind"),
    other_namespace: ("relu", "namespace"),
    lower_version: ("relu", "version"),
    removed_attribute: ("conv2d", "attribute removed"),
    renamed_attribute: ("conv2d", "attribute renamed"),
    other_default: ("leaky_relu", "default of negative_slope"),
    default_of_another_type: ("conv2d", "default of groups"),
    no_default: ("conv2d", "attribute groups"),
    needed_attribute: ("relu", "new attribute"),
    narrower_types: ("conv2d", "types of stride"),
    narrower_range: ("dropout", "most p"),
    new_bound: ("leaky_relu", "least negative_slope"),
    fewer_choices: ("conv2d", "choices of data_format"),
    attribute_order: ("conv2d", "attribute order"),
    input_order: ("sub", "input order"),
    removed_input: ("conv2d", "inputs"),
    needed_input: ("conv2d", "inputs"),
    input_in_the_midst: ("conv2d", "inputs"),
    one_output_less: ("top_k", "outputs"),
    outputs_swapped: ("top_k", "outputs"),
    no_name_in_samediff: ("relu", "SameDiff's names"),
    no_operator: ("relu", "ONNX operator"),
}


@pytest.mark.parametrize("change", BROKEN, ids=lambda change: change.__name__)
def test_what_breaks_is_told(change: Callable[[Any], None], today: dict[str, Any]) -> None:
    """Each change alone is one broken row; nothing else is said."""
    new = copy.deepcopy(today)
    change(new)
    changes = gw.ops.check(today, new)
    assert [(c.op, c.what) for c in changes.broken] == [BROKEN[change]]
    assert not changes.ok and not changes.added


def test_what_is_only_more_is_told_apart(today: dict[str, Any]) -> None:
    """Taken the other way round, a change that takes less is one that takes more."""
    more = {
        **dict.fromkeys((removed_op, hidden_op, lower_version, no_name_in_samediff), 1),
        **dict.fromkeys((no_default, narrower_types, narrower_range, new_bound), 1),
        **dict.fromkeys((fewer_choices, removed_input, needed_input, no_operator), 1),
        removed_attribute: 1,
    }
    for change in more:
        old = copy.deepcopy(today)
        change(old)
        changes = gw.ops.check(old, today)
        assert changes.ok and len(changes.added) == 1, change.__name__


def test_an_attribute_with_a_default_and_an_optional_input_are_only_more(today: Any) -> None:
    new = copy.deepcopy(today)
    relu = op_of(new, "relu")
    relu["attributes"] += [{"name": "n", "types": ["int"], "required": False, "default": 1}]
    relu["inputs"] += [{"name": "scale", "optional": True, "variadic": False}]
    changes = gw.ops.check(today, new)
    assert changes.ok and [c.what for c in changes.added] == ["inputs", "new attribute"]


def test_texts_and_functions_are_not_compared(today: Any) -> None:
    whole = gw.ops.descriptors()
    assert not [*gw.ops.check(whole, today).broken, *gw.ops.check(whole, today).added]
    assert "the ops are the same" in str(gw.ops.check(whole))


def test_changes_print_and_show_as_a_table(today: Any) -> None:
    new = copy.deepcopy(today)
    other_default(new)
    removed_op(new)
    new["ops"].append({**op_of(new, "sub"), "name": "zzz", "kind": "<b>"})
    changes = gw.ops.check(today, new)
    lines = str(changes).splitlines()
    assert lines[0] == "what changed in the ops"
    assert [line.split()[:2] for line in lines[2:]] == [
        ["broken", "leaky_relu"], ["broken", "relu"], ["added", "zzz"]
    ]  # fmt: skip
    assert "&lt;b&gt;" in changes._repr_html_() and "<b>" not in changes._repr_html_()


def test_the_command_fails_where_something_broke(tmp_path: Path, today: Any, capsys: Any) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    assert main(["describe", "--bare", str(old)]) == 0
    assert main(["check", str(old)]) == 0 and "the same" in capsys.readouterr().out
    changed = copy.deepcopy(today)
    removed_op(changed)
    new.write_text(written(changed), "utf-8")
    assert main(["check", str(old), str(new)]) == 1
    assert capsys.readouterr().out.splitlines()[-1].split() == [
        *("broken", "relu", "removed", "elementwise")
    ]
    assert main(["check", str(new), str(old)]) == 0
    assert main(["check", str(tmp_path / "none.json")]) == 2
    assert "none.json is not read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not read"),
        ("[]", "is no description of ops"),
        ('{"format": "other"}', "is no description of ops"),
        ('{"format": "gradwright-ops", "version": 3}', "of version 3"),
        ('{"format": "gradwright-ops", "version": 2}', "is damaged"),
        ('{"format": "gradwright-ops", "version": 2, "ops": [3]}', "is damaged"),
        ('{"format": "gradwright-ops", "version": 2, "ops": [{"kind": "x"}]}', "is damaged"),
        ('{"format": "gradwright-ops", "version": 2, "ops": [{"name": "add", "inputs": [3]}]}',
         "is damaged"),
        ('{"format": "gradwright-ops", "version": 2, "ops": [{"name": "add", "attributes": 3}]}',
         "is damaged"),
    ],
)  # fmt: skip
def test_what_is_no_description_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "ops.json"
    path.write_text(text, "utf-8")
    with pytest.raises(ArchiveError, match=message):
        gw.ops.check(path)
    if text.startswith("{") and text != "{":
        with pytest.raises(ArchiveError, match=message):
            gw.ops.check(json.loads(text))

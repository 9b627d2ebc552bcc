"""A C header of all ops, made of their description: what another language needs is in it."""

import json
from typing import Any

TEXT = "const char *"
TYPES = {
    '"int"': "int64_t",
    '"float"': "double",
    '"bool"': "bool",
    '{"list": ["int"]}': "gw_ints",
    '{"list": ["float"]}': "gw_floats",
}
HEAD = """#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
typedef struct { size_t length; const int64_t *items; } gw_ints;
typedef struct { size_t length; const double *items; } gw_floats;
typedef struct { const char *name; size_t inputs, needed, outputs; bool variadic; } gw_shape;
"""


def c_type(types: list[Any]) -> str:
    """Return the type of a field: a pointer where null may stand, JSON text where nothing fits."""
    kinds = [json.dumps(kind) for kind in types if kind != "null"]
    found = TYPES.get(kinds[0], TEXT) if len(kinds) == 1 else TEXT
    return f"const {found} *" if "null" in types and found != TEXT else found


def c_value(value: Any, declared: str) -> str:
    """Return a default as what follows the equals sign."""
    if value is None:
        return "NULL"
    if declared == TEXT:
        return json.dumps(value if isinstance(value, str) else json.dumps(value))
    text = str(value).lower().replace("inf", "(1.0/0.0)").replace("nan", "(0.0/0.0)")
    if isinstance(value, list):
        items = "int64_t" if "ints" in declared else "double"
        held = f"({items}[]){{{', '.join(map(str, value))}}}" if value else "NULL"
        text = f"{{{len(value)}, {held}}}"
    return f"&({declared[:-2]}){{{text}}}" if declared.endswith("*") else text


def header(ops: list[dict[str, Any]]) -> str:
    """Return an enum of ops, a table of what they take and give, a struct of attributes each."""
    lines = [HEAD, "enum gw_op {", *(f"  GW_{op['name'].upper()}," for op in ops), "  GW_OPS };"]
    lines += ["static const gw_shape gw_shapes[] = {"]
    for op in ops:
        needed = sum(not i["optional"] and not i["variadic"] for i in op["inputs"])
        counts = f"{len(op['inputs'])}, {needed}, {len(op['outputs'])}"
        variadic = str(any(i["variadic"] for i in op["inputs"])).lower()
        lines += [f'  {{"{op["name"]}", {counts}, {variadic}}},']
    lines += ["};"]
    for op in ops:
        fields = [(a, c_type(a["types"])) for a in op["attributes"]] or [({"name": "none"}, "bool")]
        lines += [f"struct gw_{op['name']} {{", *(f"  {c} {a['name']}_;" for a, c in fields), "};"]
        given = (f".{a['name']}_ = {c_value(a['default'], c)}" for a, c in fields if "default" in a)
        lines += [f"#define GW_{op['name'].upper()}_DEFAULTS {', '.join(given)}"]
    return "\n".join([*lines, ""])

"""Ensembles of decision trees: all rows go down all trees at once, one level after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....errors import ArchiveError
from ..node import OnnxNode, op, reads

Array = np.ndarray[Any, Any]

LESS_EQUAL, LESS, GREATER_EQUAL, GREATER, EQUAL, NOT_EQUAL, MEMBER = range(7)
_COMPARE = {
    LESS_EQUAL: "less_equal", LESS: "less", GREATER_EQUAL: "greater_equal", GREATER: "greater",
    EQUAL: "equal", NOT_EQUAL: "not_equal",
}  # fmt: skip


@reads("TreeEnsemble", since=5, domain="ai.onnx.ml")
def tree_ensemble(node: OnnxNode, x: Any) -> Any:
    """Walk down: leaves are nodes behind the last one that lead to themselves."""
    features = np.array(node["nodes_featureids"], np.int64)
    n = len(features)
    yes, no = (_children(node, side, n) for side in ("true", "false"))
    modes = np.asarray(node["nodes_modes"]).reshape(-1)
    splits = np.asarray(node["nodes_splits"]).reshape(-1).astype(x.dtype)
    targets = np.array(node["leaf_targetids"], np.int64)
    n_leaves = len(targets)
    if len({n, len(yes), len(no), len(modes), len(splits)}) > 1:
        raise ArchiveError("the nodes of the trees are not described alike")
    itself = np.arange(n, n + n_leaves)
    yes, no = np.concatenate([yes, itself]), np.concatenate([no, itself])
    roots = np.array(node["tree_roots"], np.int64)
    depth = _depth(yes, no, roots, n)
    tracks = np.array(node.get("nodes_missing_value_tracks_true", (0,) * n), bool)
    members = _members(node, modes, x.dtype)

    graph = x.graph
    pad = np.zeros(n_leaves, np.int64)
    constant = graph.constant
    feature_of = constant(np.concatenate([features, pad]))
    split_of = constant(np.concatenate([splits, pad.astype(x.dtype)]))
    mode_of = constant(np.concatenate([modes.astype(np.int64), pad]))
    missing_of = constant(np.concatenate([tracks, pad.astype(bool)]))
    yes_of, no_of = constant(yes), constant(no)
    take = op("gather", axis=0)
    at = op("broadcast_to", shape=(x.shape[0], len(roots)))(constant(roots))
    for _ in range(depth):
        value = op("take_along_axis", axis=1)(x, take(feature_of, at))
        split, mode = take(split_of, at), take(mode_of, at)
        goes: Any = None
        for code in np.unique(modes).tolist():
            fits = (
                _is_member(value, take(constant(members), at))
                if code == MEMBER
                else op(_COMPARE[code])(value, split)
            )
            goes = fits if goes is None else op("where")(mode == code, fits, goes)
        if tracks.any():
            goes = op("logical_or")(
                goes, op("logical_and")(op("is_nan")(value), take(missing_of, at))
            )
        at = op("where")(goes, take(yes_of, at), take(no_of, at))
    return _aggregate(node, x, at - n, targets)


def _children(node: OnnxNode, side: str, n: int) -> Array:
    """Return per node where it leads; leaves are numbered behind the nodes."""
    places = np.array(node[f"nodes_{side}nodeids"], np.int64)
    leaf = np.array(node[f"nodes_{side}leafs"], bool)
    if len(places) != n or len(leaf) != n:
        raise ArchiveError("the nodes of the trees are not described alike")
    return np.where(leaf, places + n, places)


def _depth(yes: Array, no: Array, roots: Array, n: int) -> int:
    """Return the longest way to a leaf; trees that go round in circles are refused."""
    size = len(yes)
    level = np.unique(roots)
    for depth in range(n + 1):
        if level.size and (level.min() < 0 or level.max() >= size):
            raise ArchiveError("a node of a tree leads to nowhere")
        level = level[level < n]
        if not level.size:
            return depth
        level = np.unique(np.concatenate([yes[level], no[level]]))
    raise ArchiveError("the nodes of a tree go round in a circle")


def _members(node: OnnxNode, modes: Array, d: Any) -> Array:
    """Return per node the values of its set, filled up with NaN."""
    values = np.asarray(node.get("membership_values", np.zeros(0))).reshape(-1)
    ends = np.flatnonzero(np.isnan(values))
    sets = np.split(values, ends)
    parts = [part[~np.isnan(part)] for part in sets][: int((modes == MEMBER).sum())]
    table = np.full(
        (len(modes) + len(node["leaf_targetids"]), max(map(len, parts), default=1)), np.nan
    )
    for row, part in zip(np.flatnonzero(modes == MEMBER), parts, strict=True):
        table[row, : len(part)] = part
    return table.astype(d)


def _is_member(value: Any, members: Any) -> Any:
    return op("any", axis=-1)(op("expand_dims", axis=-1)(value) == members)


def _aggregate(node: OnnxNode, x: Any, leaves: Any, targets: Array) -> Any:
    """Return per row and target what the leaves of all trees say of it."""
    weights = np.asarray(node["leaf_weights"]).reshape(-1).astype(x.dtype)
    n_targets = node.get("n_targets", 1)
    how = node.get("aggregate_function", 1)
    if not 0 <= how <= 3 or (targets.size and not 0 <= targets.min() <= targets.max() < n_targets):
        raise ArchiveError("targets or their aggregation are not understood")
    nothing = (0.0, 0.0, np.inf, -np.inf)[how]
    table = np.full((len(targets), n_targets), nothing, x.dtype)
    table[np.arange(len(targets)), targets] = weights
    said = op("gather", axis=0)(x.graph.constant(table), leaves)
    y = op({2: "min", 3: "max"}.get(how, "sum"), axis=1)(said)
    if how == 0:
        y = y / len(node["tree_roots"])
    return _transformed(node.get("post_transform", 0), y)


def _transformed(how: int, y: Any) -> Any:
    """Return scores as NONE, SOFTMAX, LOGISTIC or SOFTMAX_ZERO wants them."""
    if how == 1:
        return op("softmax", axis=-1)(y)
    if how == 2:
        return op("sigmoid")(y)
    if how == 3:
        share = op("softmax", axis=-1)(op("where")(y == 0.0, -np.inf, y))
        return op("where")(y == 0.0, 0.0, share)
    if how != 0:
        raise ArchiveError(f"post_transform {how} is not known")
    return y

"""Ensembles of decision trees: all rows go down all trees at once, one level after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....errors import ArchiveError
from ..node import OnnxNode, op, reads
from .classical import POST_TRANSFORMS, class_names, transformed

Array = np.ndarray[Any, Any]

LESS_EQUAL, LESS, GREATER_EQUAL, GREATER, EQUAL, NOT_EQUAL, MEMBER = range(7)
_COMPARE = {
    LESS_EQUAL: "less_equal", LESS: "less", GREATER_EQUAL: "greater_equal", GREATER: "greater",
    EQUAL: "equal", NOT_EQUAL: "not_equal",
}  # fmt: skip
_BRANCHES = {
    "BRANCH_LEQ": LESS_EQUAL, "BRANCH_LT": LESS, "BRANCH_GTE": GREATER_EQUAL,
    "BRANCH_GT": GREATER, "BRANCH_EQ": EQUAL, "BRANCH_NEQ": NOT_EQUAL,
}  # fmt: skip
_NOTHING = {"AVERAGE": 0.0, "SUM": 0.0, "MIN": np.inf, "MAX": -np.inf}
_AGGREGATES = tuple(_NOTHING)
MAX_TABLE = 1 << 26
"""Numbers in a table of leaves and targets at most: half a gigabyte."""


@dataclass
class Forest:
    """Trees whose leaves are numbered behind the nodes; per leaf a row of what it says."""

    features: Array
    modes: Array
    splits: Array
    yes: Array
    no: Array
    roots: Array
    tracks: Array
    members: Array
    leaves: Array

    def said(self, x: Any) -> Any:
        """Return per row of ``x`` and tree what the leaf says that it comes to."""
        n, n_leaves = len(self.features), len(self.leaves)
        if {n} != {len(self.yes), len(self.no), len(self.modes), len(self.splits)}:
            raise ArchiveError("the nodes of the trees are not described alike")
        itself = np.arange(n, n + n_leaves)
        yes, no = np.concatenate([self.yes, itself]), np.concatenate([self.no, itself])
        depth = _depth(yes, no, self.roots, n)
        pad = np.zeros(n_leaves, np.int64)
        constant = x.graph.constant
        feature_of = constant(np.concatenate([self.features, pad]))
        split_of = constant(np.concatenate([self.splits, pad]).astype(x.dtype))
        mode_of = constant(np.concatenate([self.modes.astype(np.int64), pad]))
        missing_of = constant(np.concatenate([self.tracks, pad.astype(bool)]))
        yes_of, no_of = constant(yes), constant(no)
        take = op("gather", axis=0)
        at = op("broadcast_to", shape=(x.shape[0], len(self.roots)))(constant(self.roots))
        for _ in range(depth):
            value = op("take_along_axis", axis=1)(x, take(feature_of, at))
            split, mode = take(split_of, at), take(mode_of, at)
            goes: Any = None
            for code in np.unique(self.modes).tolist():
                fits = (
                    _is_member(value, take(constant(self.members.astype(x.dtype)), at))
                    if code == MEMBER
                    else op(_COMPARE[code])(value, split)
                )
                goes = fits if goes is None else op("where")(mode == code, fits, goes)
            if self.tracks.any():
                goes = op("logical_or")(
                    goes, op("logical_and")(op("is_nan")(value), take(missing_of, at))
                )
            at = op("where")(goes, take(yes_of, at), take(no_of, at))
        return take(constant(self.leaves.astype(x.dtype)), at - n)


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


def _is_member(value: Any, members: Any) -> Any:
    return op("any", axis=-1)(op("expand_dims", axis=-1)(value) == members)


def _aggregated(said: Any, how: str) -> Any:
    """Return per row and target what all trees say together."""
    y = op({"MIN": "min", "MAX": "max"}.get(how, "sum"), axis=1)(said)
    return y / said.shape[1] if how == "AVERAGE" else y


def _leaf_table(leaves: Array, targets: Array, weights: Array, shape: Any, how: str) -> Array:
    """Return per leaf and target what the leaf says."""
    if targets.size and not 0 <= targets.min() <= targets.max() < shape[1]:
        raise ArchiveError("a target of the leaves is none", need=f"0 to {shape[1] - 1}")
    if not 0 < shape[0] * shape[1] <= MAX_TABLE:
        raise ArchiveError(
            f"{shape[0]} leaves for {shape[1]} targets", need=f"at most {MAX_TABLE:,}"
        )
    table = np.full(shape, _NOTHING[how])
    combine = {"MIN": np.minimum, "MAX": np.maximum}.get(how, np.add)
    combine.at(table, (leaves, targets), weights)
    return table


# -- TreeEnsemble --------------------------------------------------------------------------------


@reads("TreeEnsemble", since=5, domain="ai.onnx.ml")
def tree_ensemble(node: OnnxNode, x: Any) -> Any:
    features, targets = (
        np.array(node[k], np.int64) for k in ("nodes_featureids", "leaf_targetids")
    )
    n, n_leaves = len(features), len(targets)
    how = dict(enumerate(_AGGREGATES)).get(node.get("aggregate_function", 1))
    post = dict(enumerate(POST_TRANSFORMS)).get(node.get("post_transform", 0))
    if how is None or post is None:
        raise ArchiveError("the aggregation of the trees is not understood")
    modes = np.asarray(node["nodes_modes"]).reshape(-1)
    weights = np.asarray(node["leaf_weights"]).reshape(-1)
    forest = Forest(
        features,
        modes,
        np.asarray(node["nodes_splits"]).reshape(-1),
        _children(node, "true", n),
        _children(node, "false", n),
        np.array(node["tree_roots"], np.int64),
        np.array(node.get("nodes_missing_value_tracks_true", (0,) * n), bool),
        _members(node, modes),
        _leaf_table(
            np.arange(n_leaves), targets, weights, (n_leaves, node.get("n_targets", 1)), how
        ),
    )
    return transformed(post, _aggregated(forest.said(x), how))


def _children(node: OnnxNode, side: str, n: int) -> Array:
    """Return per node where it leads; leaves are numbered behind the nodes."""
    places = np.array(node[f"nodes_{side}nodeids"], np.int64)
    leaf = np.array(node[f"nodes_{side}leafs"], bool)
    if len(places) != n or len(leaf) != n:
        raise ArchiveError("the nodes of the trees are not described alike")
    return np.where(leaf, places + n, places)


def _members(node: OnnxNode, modes: Array) -> Array:
    """Return per node the values of its set, filled up with NaN."""
    values = np.asarray(node.get("membership_values", np.zeros(0))).reshape(-1)
    sets = np.split(values, np.flatnonzero(np.isnan(values)))
    parts = [part[~np.isnan(part)] for part in sets][: int((modes == MEMBER).sum())]
    table = np.full(
        (len(modes) + len(node["leaf_targetids"]), max(map(len, parts), default=1)), np.nan
    )
    for row, part in zip(np.flatnonzero(modes == MEMBER), parts, strict=True):
        table[row, : len(part)] = part
    return table


# -- its forerunners, in which leaves are nodes, and may speak of several targets ----------------


@reads("TreeEnsembleRegressor", since=1, domain="ai.onnx.ml")
def tree_ensemble_regressor(node: OnnxNode, x: Any) -> Any:
    x = op("cast", dtype="float32")(x)
    how = node.get("aggregate_function", "SUM")
    y = _aggregated(_forest(node, "target", node["n_targets"], how).said(x), how)
    return transformed(node.get("post_transform", "NONE"), _based(node, y))


@reads("TreeEnsembleClassifier", since=1, domain="ai.onnx.ml")
def tree_ensemble_classifier(node: OnnxNode, x: Any) -> Any:
    """Return labels and scores; leaves that speak of one class alone say what the other has not."""
    x = op("cast", dtype="float32")(x)
    named, n_classes = class_names(node, "classlabels_int64s")
    how, one_class = node.get("post_transform", "NONE"), len(set(node["class_ids"])) == 1
    scores = _based(node, op("sum", axis=1)(_forest(node, "class", n_classes, "SUM").said(x)))
    if one_class and n_classes <= 2:
        of_it = scores[:, :1]
        other = 1.0 - of_it if how in ("NONE", "PROBIT") else -of_it
        scores = op("concat", axis=1)(other, of_it)
    scores = transformed(how, scores)
    return named(op("argmax", axis=1)(scores)), scores


def _based(node: OnnxNode, y: Any) -> Any:
    base = _stated(node, "base_values")
    return y if base is None else y + base.astype(y.dtype)


def _stated(node: OnnxNode, key: str) -> Array | None:
    """Return numbers that are a list, or since version 3 a tensor."""
    found = node.get(key) or node.get(f"{key}_as_tensor")
    return None if found is None else np.asarray(found).reshape(-1)


def _forest(node: OnnxNode, what: str, n_targets: int, how: str) -> Forest:
    names = node["nodes_modes"]
    inner = np.array([name in _BRANCHES for name in names])
    if how not in _NOTHING or not all(name in _BRANCHES or name == "LEAF" for name in names):
        raise ArchiveError("modes or aggregation of the trees are not understood")
    n, trees = int(inner.sum()), node["nodes_treeids"]
    number = np.where(inner, np.cumsum(inner) - 1, n + np.cumsum(~inner) - 1)
    place = dict(zip(zip(trees, node["nodes_nodeids"], strict=True), number.tolist(), strict=True))
    places = np.flatnonzero(inner)

    def leads(side: str) -> Array:
        ids = node[f"nodes_{side}nodeids"]
        return np.array([place[trees[i], ids[i]] for i in places], np.int64)

    yes, no = leads("true"), leads("false")
    roots = np.setdiff1d(number, np.concatenate([yes, no]))
    ids, at = (node[f"{what}_{k}"] for k in ("ids", "nodeids"))
    leaves = np.array([place[k] for k in zip(node[f"{what}_treeids"], at, strict=True)]) - n
    shape = (len(names) - n, n_targets)
    if roots.size != len(set(trees)) or (leaves.size and leaves.min() < 0):
        raise ArchiveError("the nodes of the trees are not described alike")
    weights, values = _stated(node, f"{what}_weights"), _stated(node, "nodes_values")
    if weights is None or values is None:
        raise ArchiveError("the trees have no weights, or no values")
    tracks = np.array(node.get("nodes_missing_value_tracks_true", (0,) * len(names)), bool)
    return Forest(
        np.array(node["nodes_featureids"], np.int64)[places],
        np.array([_BRANCHES[names[i]] for i in places], np.int64),
        values[places],
        yes,
        no,
        roots,
        tracks[places],
        np.zeros((len(names), 1)),
        _leaf_table(leaves, np.array(ids, np.int64), weights, shape, how),
    )

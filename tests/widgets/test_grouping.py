"""Cards, blocks and repeats of graphs that come without scopes of their own."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import gradwright as gw
from gradwright import Graph, Node
from gradwright.models import Decoder, DecoderConfig
from gradwright_widgets import GraphView
from gradwright_widgets.drawing.flow import MAIN, SHAPE, STORED, Flow
from gradwright_widgets.drawing.grouping import Groups, grouped, groups_of, scope_paths
from gradwright_widgets.drawing.nodes import drawn_nodes
from gradwright_widgets.drawing.spec import graph_spec
from tests.support import large_models
from tests.widgets import unnamed_models
from tests.widgets.unnamed_models import Flat

BLOCK, CARD, RUN = 0, 1, 2


def of(graph: Graph) -> Groups:
    found = groups_of(graph)
    assert found is not None
    return found


def inside(groups: Groups, parent: int = -1) -> list[int]:
    return [k for k, around in enumerate(groups.parent) if around == parent]


def outline(groups: Groups) -> list[str]:
    """Return what a reader finds at the top level: titles, or rows where there are none."""
    return [groups.titles[k] or "; ".join(groups.rows[k]) for k in inside(groups)]


def named(scopes: Callable[[int], str], weights: Callable[[int], str]) -> Graph:
    """Return nine layers of a product, a bias and a relu, with names of nodes and weights."""
    g = gw.Graph("named")
    x = g.placeholder("x", ("B", 8))
    for k in range(9):
        for part in ("up", "down"):
            w = g.constant(np.ones((8, 8), np.float32), weights(k).format(f"{part}.weight"))
            b = g.constant(np.ones(8, np.float32), weights(k).format(f"{part}.bias"))
            at = scopes(k).format(part)
            x = gw.matmul(x, w, name=f"{at}MatMul_{k}{part}")
            x = gw.nn.relu(gw.add(x, b, name=f"{at}Add_{k}{part}"), name=f"{at}Relu_{k}{part}")
    g.known_as = {"x": g["x"]}  # as a graph that was read from a file
    return g


# -- without any names -----------------------------------------------------------------------------


def test_dense_blocks_are_found_without_names():
    groups = of(unnamed_models.densenet((3, 6, 12)))
    transition = "batch norm; scale, shift; relu; conv 1×1, {} → {}"
    assert outline(groups) == [
        "conv 3×3, 3 → 8; batch norm; scale, shift; relu",
        "max pool 3×3, stride 2",
        "2 conv, concat × 3",
        transition.format(20, 10),
        "avg pool 2×2, stride 2",
        "2 conv, concat × 6",
        transition.format(34, 17),
        "avg pool 2×2, stride 2",
        "2 conv, concat × 12",
        "batch norm; scale, shift; relu",
        "global avg pool",
        "conv 1×1, 65 → 10",
    ]
    run = groups.titles.index("2 conv, concat × 6")
    layers = inside(groups, run)
    assert groups.kind[run] == RUN and len(layers) == 6
    assert len({groups.like[k] for k in layers}) == 1, "whatever their channels"
    assert groups.notes[run] == "→ 34×8×8"


def test_bottlenecks_are_found_without_names():
    groups = of(unnamed_models.resnet((3, 4, 5)))
    stages = [(groups.titles[k], len(inside(groups, k))) for k in inside(groups)][1:-1]
    assert stages == [
        *(("4 conv, residual", 5), ("3 conv, residual × 2", 2)),
        *(("4 conv, residual", 5), ("3 conv, residual × 3", 3)),
        *(("4 conv, residual", 5), ("3 conv, residual × 4", 4)),
    ]
    first = inside(groups, inside(groups)[1])
    assert groups.rows[first[1]] == ("conv 3×3, 8 → 8", "batch norm", "scale, shift", "relu")
    assert groups.notes[first[1]] == "7 w" and groups.rows[first[-1]] == ("add", "relu")


def test_layers_of_a_decoder_are_found_without_names():
    groups = of(unnamed_models.decoder(12))
    assert outline(groups) == [
        "embedding 50 × 16",
        "attention, 4 heads + mlp × 12",
        "layer norm; linear 16 → 50, bias",
    ]
    rows = Counter(groups.rows)
    assert rows["matmul", "scale", "softmax"] == 12
    assert groups.notes[groups.rows.index(("matmul", "scale", "softmax"))] == "shape"
    assert rows["linear 16 → 16, bias", "reshape, transpose"] == 36


def test_steps_of_an_unrolled_network_are_cells():
    titles = outline(of(large_models.lstm(24)))
    assert [title for title in titles if "×" in title] == ["lstm cell × 23"] * 2


def test_tasks_of_meta_learning_are_copies_and_their_updates_no_weights():
    graph = large_models.maml(8)
    groups = of(graph)
    assert outline(groups)[0] == "3 linear × 8"
    copies = inside(groups, inside(groups)[0])
    assert len({groups.like[k] for k in copies}) == 1
    flow = Flow.of(drawn_nodes(graph))
    updates = [i for i, n in enumerate(flow.nodes) if any(t.node.derived for t in n.inputs)]
    assert updates and {flow.role[i] for i in updates} == {MAIN}


def test_half_of_a_u_net_mirrors_the_other():
    groups = of(large_models.u_net(5))
    assert [groups.notes[k] for k in inside(groups)[:2]] == [
        "5 × (2 conv) → B×128×8×8",
        "5 × (2 conv, concat) → B×8×256×256",
    ]


@pytest.mark.parametrize("name", ["densenet121", "resnet50"])
def test_names_of_nodes_that_tell_nothing_give_way_to_those_of_weights(name):
    groups = of(large_models.light(name))
    titles = outline(groups)
    expected = {
        "densenet121": ["conv2_1 … conv2_6", "conv3_1 … conv3_12", "conv4_1 … conv4_24"],
        "resnet50": ["res2_1 … res2_2", "res3_1 … res3_3", "res4_1 … res4_5"],
    }[name]
    assert [title for title in titles if " … " in title][:3] == expected
    assert not {"n0", "r1", "gpu_0"} & set(titles)
    assert {"conv2_1", "conv2_1/x1"} <= set(groups.names) or "res2_0/branch2a" in groups.names


# -- what holds of any graph -----------------------------------------------------------------------


def wild(seed: int, count: int = 160) -> Graph:
    """Return a graph of anything: skips, splits, sizes, shared weights, ends that none reads."""
    draw = random.Random(seed)
    m = Flat(f"wild {seed}")
    xs = [m.graph.placeholder(f"x{k}", (4, 8)) for k in range(2)]
    weights = [m.weight(8, 8) for _ in range(4)]
    sizes = [gw.size_at(xs[0], axis=0)]
    for _ in range(count):
        x = draw.choice(xs[-12:])
        match draw.randrange(9):
            case 0:
                made = m.node(gw.matmul, x, draw.choice(weights))
            case 1 | 2:
                made = m.node(gw.add, x, draw.choice(xs))
            case 3:
                made = m.node(gw.concat, gw.split(x, 2, axis=1)[::-1], axis=1)
            case 4:
                weights.append(m.node(gw.tanh, draw.choice(weights)))
                continue
            case 5:
                sizes.append(m.node(gw.add, draw.choice(sizes), gw.size_at(x, axis=1)))
                continue
            case 6:
                made = m.node(gw.mul, x, gw.cast(draw.choice(sizes), "float32"))
            case _:
                made = m.relu(x)
        xs.append(made)
    return m.graph


MODELS = {
    **{f"wild {seed}": lambda seed=seed: wild(seed) for seed in range(8)},
    "densenet": lambda: unnamed_models.densenet((2, 3, 4)),
    "resnet": unnamed_models.resnet,
    "decoder": lambda: unnamed_models.decoder(4),
    "maml": lambda: large_models.maml(4),
    "fan out": lambda: large_models.fan_out(200),
    "fan in": lambda: large_models.fan_in(200),
    "named": lambda: named(lambda k: f"layers.{k}/{{}}/", lambda k: f"w{k}_{{}}"),
}
models = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def test_inputs_of_the_same_reader_stand_in_one_block():
    groups = of(large_models.fan_in(200))
    assert (groups.titles[0], groups.notes[0]) == ("x0 … x199", "200 inputs → B×8")
    g = Graph()
    few = [g.placeholder(f"x{k}", ("B", 8)) for k in range(9)]
    for _ in range(60):
        few[0] = gw.tanh(few[0])
    gw.stack(few)
    groups = of(g)
    assert {groups.of(x.node) for x in few[1:]} == {-1}


@models
def test_every_node_stands_in_one_place(model):
    graph = model()
    nodes, groups = drawn_nodes(graph), grouped(drawn_nodes(graph))
    alone = [n for n in nodes if groups.of(n) < 0 or groups.kind[groups.of(n)] != CARD]
    assert {node.kind for node in alone} <= {"placeholder"}
    assert all(around < k for k, around in enumerate(groups.parent)), "parents come first"
    assert len(set(groups.names)) == len(groups.names) == len(groups.kind) == len(groups.like)
    held = {groups.of(node) for node in nodes}
    assert all(k in held for k, kind in enumerate(groups.kind) if kind == CARD)
    direct = Counter(groups.of(node) for node in alone)
    for k, kind in enumerate(groups.kind):
        assert kind == CARD or len(inside(groups, k)) + direct[k] > 1
    for k, first in enumerate(groups.like):
        assert first <= k and groups.like[first] == first and groups.kind[first] == groups.kind[k]


@models
def test_groups_need_each_other_in_no_circle(model):
    nodes = drawn_nodes(model())
    groups = grouped(nodes)

    def chain(node: Node) -> list[object]:
        found: list[object] = [node.name]
        at = groups.of(node)
        while at >= 0:
            found.append(at)
            at = groups.parent[at]
        return [-1, *found[::-1]] if groups.of(node) >= 0 else [-1, *found]

    lines: dict[object, set[object]] = {}
    drawn = {id(node) for node in nodes if not groups.role[id(node)]}
    for node in nodes:
        for t in node.inputs:
            if t is None or not {id(node), id(t.node)} <= drawn:
                continue
            ours, theirs = chain(node), chain(t.node)
            split = next(k for k, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)
            lines.setdefault(ours[split], set()).add(theirs[split])
    order: dict[object, int] = {}

    def visit(item: object, above: frozenset[object] = frozenset()) -> None:
        assert item not in above, f"{item} needs itself"
        if item not in order:
            for other in lines.get(item, ()):
                visit(other, above | {item})
            order[item] = len(order)

    sys.setrecursionlimit(10_000)
    for item in list(lines):
        visit(item)


@models
def test_the_same_graph_is_grouped_the_same(model):
    one, other = grouped(drawn_nodes(model())), grouped(drawn_nodes(model()))
    assert (one.names, one.titles, one.rows, one.like) == (
        *(other.names, other.titles, other.rows, other.like),
    )


def shuffled(nodes: Sequence[Node], seed: int) -> list[Node]:
    """Return nodes in another order in which each comes after what it reads."""
    draw = random.Random(seed)
    left, done, out = list(nodes), set[int](), list[Node]()
    own = {id(node) for node in nodes}
    while left:
        ready = [
            n for n in left
            if all(t is None or id(t.node) in done or id(t.node) not in own for t in n.inputs)
        ]  # fmt: skip
        node = draw.choice(ready)
        left.remove(node)
        done.add(id(node))
        out.append(node)
    return out


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "model", [lambda: unnamed_models.densenet((2, 3)), lambda: unnamed_models.resnet((2, 3))]
)
def test_another_order_of_creation_gives_the_same_titles(model, seed):
    nodes = drawn_nodes(model())
    one, other = grouped(nodes), grouped(shuffled(nodes, seed))
    assert Counter(zip(one.kind, one.titles, one.rows, strict=True)) == Counter(
        zip(other.kind, other.titles, other.rows, strict=True)
    )


def test_nodes_that_an_edit_has_put_out_of_order_are_grouped_as_well():
    nodes = drawn_nodes(unnamed_models.resnet())
    assert grouped(nodes[::-1]).rows and len(grouped(nodes[::-1]).group) == len(nodes)


@pytest.mark.parametrize("model", [unnamed_models.decoder, large_models.lstm])
def test_work_grows_with_the_graph_and_no_faster(model):
    def calls(graph: Graph) -> float:
        nodes, count = drawn_nodes(graph), 0

        def counts(*_: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(counts)
        try:
            grouped(nodes)
        finally:
            sys.setprofile(None)
        return count / len(nodes)

    assert calls(model(96)) < 1.15 * calls(model(24))


# -- roles -----------------------------------------------------------------------------------------


def test_roles():
    g = gw.Graph()
    x, w = g.placeholder("x", ("B", 4)), g.constant(np.ones((4, 4), np.float32), "w")
    with g:
        noise = gw.random.normal((4, 4), name="noise")
    nodes = {
        "x": (x, MAIN),
        "w": (w, STORED),
        "turned": (gw.transpose(w, name="turned"), STORED),
        "noise": (noise, MAIN),
        "size": (gw.size_at(x, axis=0, name="size"), SHAPE),
        "half": (gw.floor_div(g["size"], 2, name="half"), SHAPE),
        "y": (gw.matmul(x, gw.transpose(w), name="y"), MAIN),
    }
    flow = Flow.of(g.nodes)
    found = {node.name: flow.role[i] for i, node in enumerate(flow.nodes)}
    assert {name: found[name] for name in nodes} == {name: r for name, (_, r) in nodes.items()}


def test_without_an_input_only_what_is_stored_is_stored():
    g = gw.Graph()
    w = g.variable("w", (4, 4))
    gw.tanh(w @ w)
    assert Flow.of(g.nodes).role == [STORED, MAIN, MAIN]


# -- gates, gradients, and what the views say of it ------------------------------------------------


def test_scopes_that_were_declared_are_left_alone():
    graph = large_models.decoder(12)
    assert groups_of(graph) is None and "groups" not in graph_spec(graph)
    assert groups_of(gw.Graph("empty")) is None


def test_gradients_change_no_group():
    g = gw.Graph()
    x = g.placeholder("x", ("B", 8))
    ws = [g.variable(f"w{k}", (8, 8)) for k in range(30)]
    for w in ws:
        x = gw.nn.relu(x @ w)
    loss = gw.mean(x, name="loss")
    before = of(g)
    gw.gradients(loss, ws)
    spec = graph_spec(g, gradients=True)
    assert (of(g).names, spec["groups"]["names"]) == (before.names, before.names)
    derived = np.frombuffer(spec["derived"], np.uint8) == 1
    group = np.frombuffer(spec["group"], "<i4")
    assert (group[derived] == -1).all() and (group[~derived] >= 0).sum() == len(g.nodes) - 1
    assert "grad/loss/linear 8 → 8 × 30" in scope_paths(g)


def test_a_view_calls_groups_by_their_paths():
    view = GraphView(large_models.light("resnet50"))
    view.selected = "res2_0/"
    view.expanded = ["res2_0", "res2_1 … res2_2"]
    with pytest.raises(gw.errors.GraphError, match="nothing is called 'gpu_0/'"):
        view.selected = "gpu_0/"
    assert "4 conv, residual → 256×56×56" in view.to_svg()
    assert "<td>res3_1 … res3_3</td>" in view.to_table()
    dot = view.to_dot()
    assert dot.count("subgraph") == len(of(view.graph).names) and "label=res2_0" in dot
    assert dot.count("{") == dot.count("}")


def test_what_nothing_reads_stands_apart():
    g = Flat()
    x = g.graph.placeholder("x", ("B", 8))
    for _ in range(50):
        x = g.relu(x)
    lost = g.node(gw.tanh, g.weight(3))
    groups = grouped(drawn_nodes(g.graph))
    assert groups.titles[groups.of(lost.node)] == "read by nothing"
    assert groups.notes[groups.of(lost.node)] == "2 nodes"


def test_what_only_training_reads_stands_with_its_adapter():
    model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=3, heads=2))
    method = gw.adapters.AdaLoRA(init_r=2, target_r=1, total_step=4)
    gw.adapters.add(model, method, where="q|v", name="story")
    groups = of(model.graph)
    top = {groups.title(k) for k in inside(groups)}
    assert "layer0 … layer2" in top and "story" in top and "read by nothing" not in top
    kept = model.graph["layer1/q/story/lora_A.mean"].node
    assert groups.names[groups.of(kept)] == "layer1/q/story/unread"


def test_names_are_only_text():
    evil = "<img src=x onerror=alert(1)>"
    g = named(lambda k: f"{evil}.{k}/{{}}/", lambda k: f"w{k}_{{}}")
    page = GraphView(g).to_html()
    assert "<img src=x" not in page and "<img src=x" not in GraphView(g).to_svg()

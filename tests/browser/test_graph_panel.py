"""The drawing in a browser: search, paths, links along edges, colours, marks, map, files."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
import traitlets

import gradwright as gw
from gradwright_widgets import GraphView
from tests.browser.lab import EVIL, NOTE, expect, place, redraw, wait_for

pytestmark = pytest.mark.browser


class Marked(GraphView):
    """A drawing with the traits that the stepper and the gradient check share with it."""

    current = traitlets.Unicode("").tag(sync=True)
    stops = traitlets.List(traitlets.Unicode()).tag(sync=True)
    blamed = traitlets.List(traitlets.Unicode()).tag(sync=True)


def layers():
    g = gw.Graph("digits")
    h = g.placeholder("x", ("B", 64))
    for k in range(3):
        with g.scope(f"layer{k}"):
            w = g.variable("w", (64, 64), init=gw.init.he_normal(seed=k))
            h = gw.nn.relu(h @ w)
    gw.sum(gw.exp(h, name=EVIL), name="loss")
    return g


class View:
    """A drawing on a page of its own."""

    def __init__(self, page):
        self.page = page
        self.page.locator(".gw-graph[data-ready]").wait_for()
        self.stage = self.page.locator(".gw-stage")
        self.status = self.page.locator(".gw-status")

    def place(self, name):
        return place(self.stage, name)

    def drawn(self, name):
        return self.stage.evaluate("(stage, name) => Boolean(stage.locate(name))", name)

    def assert_selected(self, *names):
        expect(self.status.locator("strong")).to_have_text(list(names))

    def color(self, x, y):
        """Return red, green, blue and opacity at a point of the page, once something is there."""
        return wait_for(lambda: self._pixel(x, y), f"something to be painted at {x}, {y}")

    def _pixel(self, x, y):
        return self.stage.evaluate(
            """(stage, [x, y]) => {
              const canvas = stage.querySelector(".gw-canvas");
              const box = canvas.getBoundingClientRect();
              const [px, py] = [x - box.x, y - box.y].map((v) => v * canvas.width / box.width);
              const pixel = [...canvas.getContext("2d").getImageData(px, py, 1, 1).data];
              return pixel[3] ? pixel : null;
            }""",
            [x, y],
        )


@pytest.fixture
def show(saved):
    return lambda widget, *size, **options: View(saved(widget, *size, **options))


def test_search_finds_reveals_and_leaves(show, screens):
    view = show(GraphView(layers(), expanded=[]), 900, 620)
    keys = view.page.keyboard
    view.stage.focus()
    keys.press("/")
    field = view.page.get_by_role("combobox", name="Find nodes and scopes")
    field.fill("relu")
    rows = view.page.get_by_role("option")
    expect(rows).to_have_count(3)
    for k in range(3):
        expect(rows.nth(k)).to_have_attribute("title", f"layer{k}/relu")
    count = view.page.locator(".gw-search-count")
    expect(count).to_have_text("1 of 3")
    keys.press("ArrowUp")
    expect(count).to_have_text("3 of 3")
    expect(rows.nth(2)).to_have_attribute("aria-selected", "true")
    keys.press("ArrowUp")
    expect(count).to_have_text("2 of 3")
    assert not view.drawn("layer1/relu")
    keys.press("Enter")
    wait_for(lambda: view.drawn("layer1/relu"), "the scope around the hit to open")
    view.assert_selected("layer1/relu")
    assert not view.drawn("layer2/relu"), "other scopes stay as they were"
    box = view.stage.bounding_box()
    x, y = view.place("layer1/relu")
    assert abs(x - box["x"] - box["width"] / 2) < 2
    assert abs(y - box["y"] - box["height"] / 2) < 2
    field.fill("/[/")
    expect(count).to_have_text("not a regular expression")
    expect(field).to_have_attribute("aria-invalid", "true")
    field.fill("op:matmul")
    expect(rows).to_have_count(3)
    view.page.locator(".gw").screenshot(path=screens / "graph_search.png")
    keys.press("Escape")
    expect(field).to_be_hidden()
    expect(view.stage).to_be_focused()
    keys.press("Control+f")
    expect(field).to_be_visible()
    field.fill("<img")
    expect(rows).to_have_count(1)


def test_edges_lead_to_their_ends_by_pointer_and_keys(show):
    g = layers()
    view = show(GraphView(g, expanded=["layer0"]), 900, 700)
    x, y = view.place("x")
    view.page.mouse.click(x, y + 22)  # right below the box
    view.assert_selected("f32[B, 64]")
    view.page.get_by_role("button", name="Consumer layer0/matmul").click()
    view.assert_selected("layer0/matmul")
    view.page.get_by_role("button", name="Input layer0/w").click()
    view.assert_selected("layer0/w")
    view.stage.focus()
    for key, name in (
        ("]", "layer0/matmul"),
        ("]", "layer0/relu"),
        ("Alt+ArrowDown", "layer1/matmul"),
        ("[", "layer0/relu"),
        ("Alt+ArrowUp", "layer0/matmul"),
        ("Alt+ArrowUp", "x"),
        ("Alt+ArrowRight", "layer0/w"),
    ):
        view.page.keyboard.press(key)
        view.assert_selected(name)
    wait_for(lambda: view.drawn("layer1/matmul"), "the scope of a node that was gone to to open")
    view.page.keyboard.press("Escape")
    view.assert_selected()


def test_paths_dim_all_else(show, screens):
    g = layers()
    view = show(
        GraphView(g, expanded=["layer1"], selected="layer1/w", height=620),
        800,
        700,
    )
    box = view.page.locator(".gw")

    def corner(name):  # of the stripe at the left edge of an op, which has its colour
        x, y = view.place(name)
        return view.color(x - 32, y)

    clear, below = corner("layer1/relu"), corner("layer1/matmul")
    view.page.get_by_role("button", name="Paths").click()
    view.page.get_by_role("menuitemradio", name="All that leads into it").click()
    wait_for(lambda: corner("layer1/relu") != clear, "what comes after to be dimmed")
    view.page.get_by_role("button", name="Paths").press("ArrowDown")
    chosen = view.page.get_by_role("menuitemradio", checked=True)
    expect(chosen).to_have_text("All that leads into it")
    expect(chosen).to_be_focused()
    view.page.keyboard.press("ArrowDown")
    view.page.keyboard.press("Enter")
    wait_for(lambda: corner("layer1/relu") == clear, "what comes after to stand out")
    view.page.keyboard.down("Shift")
    view.page.mouse.click(*view.place("layer1/matmul"))
    view.page.keyboard.up("Shift")
    wait_for(lambda: corner("layer1/relu") != clear, "only the path to stand out")
    assert corner("layer1/matmul") == below
    expect(view.status).to_contain_text("paths to layer1/matmul: 2 nodes")
    view.assert_selected("layer1/w")
    box.screenshot(path=screens / "graph_path.png")
    view.page.mouse.click(*view.place("layer0/"))
    view.assert_selected("layer0")
    expect(view.status).not_to_contain_text("paths")  # a click ends the path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_marks_map_and_files(show, screens, scheme):
    g = layers()
    widget = Marked(
        g,
        expanded=["layer0", "layer1", "layer2"],
        current="layer0/relu::max",
        stops=["layer0/w"],
        blamed=["layer1/matmul"],
        height=460,
    )
    widget.set_overlay("gradient norm", {f"layer{k}/w": 10.0**k for k in range(3)}, scale="log")
    view = show(widget, 520, 520, theme=scheme)
    scale = view.page.get_by_role("img", name="gradient norm: 1 to 100, log scale")
    words = ["gradient", "norm", "1", "100", "10"]
    wait_for(lambda: scale.inner_text().split() == words, "the scale")
    w0, w1 = (view.color(*(lambda p: (p[0], p[1] - 9))(view.place(f"layer{k}/w"))) for k in (0, 1))
    assert w0 != w1
    view.page.mouse.click(*view.place("layer0/w"))
    for text in ("gradient norm 1", "breakpoint", "inherits a wrong gradient"):
        expect(view.status).to_contain_text(text)
    view.page.mouse.click(*view.place("layer0/relu"))
    expect(view.status).to_contain_text("runs next")
    view.page.locator(".gw").screenshot(path=screens / f"graph_marks_{scheme}.png")

    # The map shows where the window is, and moves it.
    chart = view.page.locator(".gw-minimap")
    expect(chart).to_be_visible()
    box = chart.bounding_box()
    before = view.place("loss")
    view.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] - 4)
    wait_for(lambda: view.place("loss") != before, "the window to move")
    view.page.get_by_role("button", name="Fit the drawing").click()
    expect(chart).to_be_hidden()  # all is in sight

    view.page.get_by_role("button", name="Colour by").click()
    view.page.get_by_role("menuitemradio", name="Kind of op").click()
    expect(scale).to_have_count(0)

    def file(kind):
        view.page.get_by_role("button", name="More").click()
        with view.page.expect_download() as download:
            view.page.get_by_role("menuitem", name=kind).click()
        assert download.value.suggested_filename == f"digits.{kind.lower()}"
        return download.value.path().read_bytes()

    svg = ElementTree.fromstring(file("SVG"))
    assert EVIL[:20] in "".join(t for t in svg.itertext())
    png = file("PNG")
    assert png.startswith(b"\x89PNG")
    width = int.from_bytes(png[16:20], "big")
    assert width == pytest.approx(2 * float(svg.get("width")), abs=2)
    dot = file("DOT").decode()
    assert dot.count("subgraph") == 3
    assert dot.count("->") == sum(len(n.inputs) for n in g.nodes)


CELLS = [
    f"""
{NOTE}
import gradwright as gw, traitlets
from gradwright_widgets import GraphView
g = gw.Graph("live")
h = g.placeholder("x", ("B", 8))
for k in range(30):
    with g.scope(f"layer{{k}}"):
        h = gw.exp(h)
class View(GraphView):
    current = traitlets.Unicode("").tag(sync=True)
view = View(g, expanded=[], follow=True)
for trait in ("selected", "expanded", "color_by", "paths", "path_to"):
    view.observe(lambda c: note(c["name"], value=c["new"]), trait)
view
""",
    "view.current = 'layer29/exp'",
    "view.set_overlay('time', {n.name: k for k, n in enumerate(g.nodes)}, unit='ms')",
]


def test_kernel_and_drawing_follow_each_other(page, lab):
    lab.write_notebook("graph.ipynb", CELLS)
    page.open_notebook("graph.ipynb")
    view = page.page
    page.run_cell(0)
    stage = view.locator(".gw-stage")
    view.locator(".gw-graph[data-ready]").wait_for()

    # What runs next comes into sight, out of its scope.
    page.run_cell(1)
    lab.event("expanded", value=["layer29"])
    (_, y), box = place(stage, "layer29/exp"), stage.bounding_box()
    assert box["y"] < y < box["y"] + box["height"]

    # Colours from the kernel, and back to it.
    page.run_cell(2)
    lab.event("color_by", value="overlay")
    view.get_by_role("img", name="time (ms): 0 to 30, linear scale").wait_for()
    view.get_by_role("button", name="Colour by").click()
    view.get_by_role("menuitemradio", name="Output size").click()
    lab.event("color_by", value="size")

    # What is found is selected in the kernel.
    stage.focus()
    view.keyboard.press("/")
    view.keyboard.type("layer3/e")
    view.keyboard.press("Enter")
    lab.event("selected", value="layer3/exp")
    lab.event("expanded", value=["layer29", "layer3"])

    # Chords are JupyterLab's, but for those that the drawing has; letters never are.
    view.keyboard.press("Escape")
    expect(stage).to_be_focused()
    unsaved = "() => window.jupyterapp.shell.currentWidget.context.model.dirty"
    assert view.evaluate(unsaved)
    view.keyboard.press("Control+s")
    wait_for(lambda: not view.evaluate(unsaved), "the notebook to be saved")
    view.keyboard.press("Control+Shift+c")
    palette = view.locator("#modal-command-palette")
    expect(palette).to_be_visible()
    view.keyboard.press("Escape")
    expect(palette).to_be_hidden()
    stage.focus()
    view.keyboard.press("Control+f")
    field = view.get_by_role("combobox", name="Find nodes and scopes")
    expect(field).to_be_focused()
    field.fill("exp")
    view.keyboard.press("Control+a")
    view.keyboard.press("Backspace")
    expect(field).to_have_value("")
    view.keyboard.press("Control+s")
    view.keyboard.press("Escape")
    expect(stage).to_be_focused()
    cells = view.locator(".jp-Notebook .jp-Cell")
    before = cells.count()
    view.keyboard.press("b")
    redraw(view)
    expect(cells).to_have_count(before)
    expect(view.locator(".jp-DocumentSearch-overlay")).to_have_count(0)
    page.assert_clean()

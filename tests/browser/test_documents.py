"""Models as documents: each kind of file by double click in a real JupyterLab, without a kernel."""

from __future__ import annotations

import importlib.util
import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import gradwright as gw
from tests.browser.hosts import MODEL
from tests.browser.lab import EVIL, Lab, Page, expect, missing, points, wait_for
from tests.browser.lab_scenes import network
from tests.browser.test_accessible import assert_accessible
from tests.browser.test_hosts import use

pytestmark = pytest.mark.browser

GIGABYTES = 3
KERNEL = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel"
EVIL_FILE = EVIL.replace("/", "") + ".gw"


def sparse(path: Path, size: int, last: int = 64 << 20) -> None:
    """Write a safetensors file of that many bytes, of which the disk holds a few.

    What is looked at lies behind all else: to read the whole would take 10 s.
    """
    rows = {"rest": [0, size - last], "big": [size - last, size]}
    header = json.dumps(
        {
            name: {"dtype": "F32", "shape": [(end - begin) // 4], "data_offsets": [begin, end]}
            for name, (begin, end) in rows.items()
        }
    ).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)


def unknown(path: Path) -> None:
    """Write a model with an operator that only its author knows."""
    of = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", 4])  # noqa: E731
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="first"),
        helper.make_node("Fancy", ["a"], ["y"], name="odd/one", domain="com.acme"),
    ]
    graph = helper.make_graph(nodes, "strange", [of("x")], [of("y")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())


@pytest.fixture
def models(lab: Lab) -> Iterator[Path]:
    """Return a folder of models of every kind, below the server's root."""
    folder = lab.root / "models"
    folder.mkdir()
    gw.save(network(), folder / "small.gw")
    gw.onnx.save(network(), folder / "small.onnx")
    gw.onnx.save(network(seed=3, squash=True), folder / "other.onnx")
    hostile = gw.Graph(EVIL)
    gw.nn.relu(hostile.variable(EVIL, (3,)) * 2.0, name="x" + EVIL)
    hostile.constant(np.array([EVIL, "b"], np.dtypes.StringDType()), "words")
    gw.save(hostile, folder / EVIL_FILE)
    sparse(folder / "large.safetensors", GIGABYTES << 30)
    (folder / "damaged.onnx").write_bytes((folder / "small.onnx").read_bytes()[:300])
    (folder / "renamed.bin").write_bytes((folder / "small.gw").read_bytes())
    unknown(folder / "unknown.onnx")
    run = gw.Run(folder / "run", name="first", store=None)
    trainer, data = training(run)
    trainer.fit(data, epochs=2, progress=False)
    yield folder
    shutil.rmtree(folder)


def training(run: gw.Run) -> tuple[gw.Trainer, dict[str, Any]]:
    g = gw.Graph("line")
    x, t = g.placeholder("x", ("B", 4)), g.placeholder("t", ("B", 1))
    loss = gw.mean((x @ g.variable("w", (4, 1)) - t) ** 2, name="loss")
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=(8, 4)), "t": rng.normal(size=(8, 1))}
    callbacks = [run, gw.Checkpoints(run)]
    return gw.Trainer(g, loss, optimizer=gw.optim.SGD(1e-3), callbacks=callbacks), data


class Documents:
    """The documents of a page: opened by double click, as a person opens them."""

    def __init__(self, page: Page) -> None:
        self.page, self.lab = page, page.lab
        self.asked: list[str] = []
        page.page.on("request", lambda r: self.asked.append(f"{r.method} {r.url}"))

    def start(self) -> None:
        """Open JupyterLab on the folder of models."""
        self.page.open_lab()
        self.page.command("filebrowser:open-path", {"path": "models"})

    def item(self, name: str) -> Any:
        return self.page.page.locator(f'.jp-DirListing-item[title^="Name: {name}"]')

    def open(self, name: str) -> Any:
        """Double-click a file, and return its document."""
        self.item(name).dblclick()
        return self.current()

    def current(self) -> Any:
        found = self.page.page.locator(".gw-document:not(.lm-mod-hidden *) > .gw-file:visible")
        expect(found).to_have_count(1)
        return found

    def choose(self, what: str) -> None:
        """Choose from the open context menu."""
        self.page.page.locator(".lm-Menu-item", has_text=what).click()


def tab(document: Any, name: str) -> Any:
    """Bring a tab of a document to the front, and return its page."""
    document.locator("> .gw-file-body > .gw-tabs").get_by_role("tab", name=name).click()
    return document.locator("> .gw-file-body > .gw-page:visible")


def drawn(document: Any, nodes: int) -> None:
    expect(document.locator(".gw-graph .gw-subtitle").first).to_contain_text(f"{nodes} node")


def inspected(page: Any, graph: Any, node: str) -> Any:
    """Find a node in a drawing, and return the open sheet about it."""
    stage = graph.locator(".gw-stage")
    stage.press("/")
    graph.get_by_role("combobox", name="Find nodes and scopes").fill(node)
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    stage.press("i")
    return graph.get_by_role("complementary", name="Inspector")


def test_every_kind_of_file_opens_by_double_click(
    page: Page, lab: Lab, models: Path, screens: Path
) -> None:
    documents = Documents(page)
    documents.start()
    before = written(models)

    small = documents.open("small.gw")
    drawn(small, 8)
    page.page.screenshot(path=screens / "document_drawing_light.png")
    sheet = inspected(page.page, small.locator(".gw-graph"), "hidden/w")
    expect(sheet).to_contain_text("in the file")
    expect(sheet.locator(".gw-sheet-bars")).to_be_visible()
    assert_accessible(small)
    page.page.screenshot(path=screens / "document_inspector_light.png")

    tensors = tab(small, "Tensors")
    expect(tensors.locator("[data-at]")).to_have_count(3)
    tensors.get_by_role("button", name="tensor", exact=True).click()
    first = tensors.locator("[data-at] .gw-link").first
    expect(first).to_have_text("hidden/b")
    first.click()
    first.press("ArrowDown")
    expect(tensors.locator(".gw-tensor .gw-title")).to_have_text("hidden/w")
    slice = tensors.get_by_label("Slice")
    slice.fill("[:8, ::2]")
    slice.press("Enter")
    expect(tensors.locator(".gw-tensor-readout")).to_be_visible()
    wait_for(
        lambda: (
            "[:8, ::2]" in (tensors.locator(".gw-tensor-stage").get_attribute("aria-label") or "")
        ),
        "the slice",
    )
    slice.fill("[99]")
    slice.press("Enter")
    expect(tensors.locator(".gw-tensor-problem")).to_be_visible()
    tensors.get_by_role("searchbox").fill("w2")
    expect(tensors.locator("[data-at]")).to_have_count(1)
    page.page.screenshot(path=screens / "document_tensors_light.png")

    memory = tab(small, "Memory")
    memory.get_by_label("B", exact=True).fill("1000000")
    expect(memory.locator("tbody tr")).to_have_count(1)
    expect(memory.locator("tbody td").first).to_have_text("1,000,000")
    tab(small, "About")
    expect(small.locator(".gw-facts")).to_contain_text("matmul 2")
    assert_accessible(small)
    page.page.keyboard.press("Control+s")  # there is nothing to save

    onnx = documents.open("small.onnx")
    drawn(onnx, 8)
    expect(onnx.locator("> .gw-toolbar")).to_contain_text("ONNX")

    large = documents.open("large.safetensors")
    large.locator("[data-at] .gw-link", has_text="big").click()
    values = large.locator(".gw-tensor-readout")
    large.locator(".gw-tensor-stage").hover()
    expect(values).to_contain_text("min 0.0 at [")  # of the elements under the pointer
    for _ in range(12):
        large.locator(".gw-tensor-stage").press("+")
    expect(values).not_to_contain_text("cells of about")
    page.page.screenshot(path=screens / "document_zoomed_light.png")
    expect(large.locator("[data-at]")).to_have_count(2)
    expect(large.locator("> .gw-toolbar")).to_contain_text(f"{GIGABYTES * 2**30 / 1e9:.2f} GB")

    damaged = documents.open("damaged.onnx")
    expect(damaged.get_by_role("alert")).to_contain_text("damaged")
    expect(damaged.locator("> .gw-toolbar")).to_contain_text("300 B")
    assert_accessible(damaged)

    strange = documents.open("unknown.onnx")
    rows = tab(strange, "Not supported (1)").locator("tbody tr")
    expect(rows).to_contain_text(["com.acme:Fancy"])
    assert_accessible(strange)
    rows.get_by_role("button", name="odd/one").click()
    drawn(strange, 3)
    expect(strange.locator(".gw-graph .gw-status strong")).to_have_text("odd/one")
    notes = strange.locator(".gw-page:visible > .gw-message")
    expect(notes).to_contain_text("com.acme Fancy")
    assert notes.bounding_box()["height"] < 120, "what is left out leaves room for the drawing"

    documents.item("renamed.bin").click(button="right")
    documents.choose("Open with gradwright")
    drawn(documents.current(), 8)

    hostile = documents.open(EVIL_FILE[:12])
    drawn(hostile, 5)
    expect(hostile.locator("> .gw-toolbar .gw-title")).to_have_text(EVIL_FILE)
    names = tab(hostile, "Tensors").locator("[data-at] .gw-link")
    expect(names.first).to_have_text(EVIL)
    names.filter(has_text="words").click()
    expect(hostile.locator(".gw-texts li")).to_have_text([EVIL, "b"])

    documents.item("run").click(button="right")
    documents.choose("Open as a Run")
    curves = documents.current().locator(".gw-plot")
    wait_for(lambda: points(curves) > 0, "the curves of the run")
    tensors = tab(documents.current(), "Tensors")
    expect(tensors.locator("[data-at] .gw-link").first).to_be_visible()

    assert before == written(models), "nothing is changed, and nothing copied as a checkpoint"
    assert not list(models.rglob(".ipynb_checkpoints"))
    models_only = [what for what in documents.asked if "/models/" in what]
    fetched = [what for what in models_only if "/files/" in what or not what.startswith("GET")]
    assert not fetched, "documents are shown by reference"
    refused = ("status of 422", "status of 400")  # the damaged file, and a slice out of bounds
    page.errors = [error for error in page.errors if not any(r in error for r in refused)]
    page.assert_clean()


def test_documents_follow_their_files_and_outlive_the_server(
    page: Page, lab: Lab, models: Path, screens: Path
) -> None:
    documents = Documents(page)
    page.load_lab()
    documents.start()
    # A part of the extension that is loaded now, and is not there any more.
    page.page.route("**/gradwright/static/*", lambda route: route.abort())
    documents.item("small.gw").dblclick()
    stale = page.page.locator(".gw-document:visible")
    expect(stale.get_by_role("alert")).to_contain_text("Reload the page")
    page.page.screenshot(path=screens / "document_stale_light.png")
    page.page.unroute("**/gradwright/static/*")
    stale.get_by_role("button", name="Try again").click()
    small = documents.current()
    drawn(small, 8)
    other = Documents(Page(page.page.context, lab))
    other.start()
    drawn(other.open("small.gw"), 8)

    gw.save(network(squash=True), models / "small.gw")
    for either in (documents, other):
        either.page.page.bring_to_front()
        drawn(either.current(), 9)
    other.page.close()

    page.page.bring_to_front()
    for theme in ("JupyterLab Dark", "JupyterLab Dark High Contrast", "JupyterLab Light"):
        page.set_theme(theme)
        mode = "light" if "Light" in theme else "dark"
        expect(small).to_have_attribute("data-gw-theme", mode)
        page.page.screenshot(path=screens / f"document_{theme.replace(' ', '_').lower()}.png")

    held = (models / "small.gw").read_bytes()
    (models / "small.gw").unlink()
    expect(small.locator("> .gw-notice")).to_be_visible()
    drawn(small, 9)
    with page.page.expect_response("**/gradwright/drawing?*"):  # it is read again
        (models / "small.gw").write_bytes(held)
    expect(small.locator("> .gw-notice")).to_be_hidden()

    lab.stop()
    expect(small.locator("> .gw-notice")).to_contain_text("does not answer")
    drawn(small, 9)
    lab.start()
    expect(small.locator("> .gw-notice")).to_be_hidden()

    page.page.wait_for_function("() => window.jupyterapp.serviceManager.workspaces")
    wait_for(lambda: "small.gw" in workspace(page), "the layout to be saved")
    page.page.goto(f"{lab.base}/lab?token={lab.token}")
    page.restored()
    drawn(documents.current(), 9)
    assert page.page.evaluate("window.executed") is None


def written(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def workspace(page: Page) -> str:
    return str(
        page.page.evaluate(
            """() => window.jupyterapp.serviceManager.workspaces.fetch('default')
              .then((kept) => JSON.stringify(kept.data), () => '')"""
        )
    )


def test_a_run_is_opened_by_its_record_grows_and_has_checkpoints(
    page: Page, lab: Lab, models: Path
) -> None:
    trainer, data = training(gw.Run(models / "live", name="live", store=None))
    trainer.fit(data, epochs=2, progress=False)
    documents = Documents(page)
    documents.start()
    documents.item("live").dblclick()
    run = documents.open("events.jsonl")
    label = page.page.locator("#jp-main-dock-panel .lm-TabBar-tab.lm-mod-current")
    expect(label).to_have_text("live")
    curves = run.locator(".gw-plot")
    wait_for(lambda: points(curves) > 0, "the curves of the run")
    before = points(curves)
    tab(run, "Drawing")
    drawn(run, 8)
    trainer.fit(data, epochs=3, progress=False)
    tab(run, "Curves")
    wait_for(lambda: points(curves) > before, "the curves to grow")

    assert (models / "live/events.jsonl").is_file(), "a title is no new name"

    # JupyterLab itself cannot open a folder of this name.
    documents.item("checkpoints").dblclick()
    checkpoint = documents.open("step-000000005.gw")
    drawn(checkpoint, 8)
    expect(checkpoint.locator("> .gw-toolbar")).to_contain_text("checkpoint")
    expect(tab(checkpoint, "Tensors").locator("[data-at]").first).to_be_visible()
    assert not list(models.rglob(".ipynb_checkpoints"))
    page.assert_clean()


def test_two_files_are_compared_and_one_opens_in_a_notebook(
    page: Page, lab: Lab, models: Path, screens: Path
) -> None:
    documents = Documents(page)
    documents.start()
    documents.item("small.onnx").click()
    documents.item("other.onnx").click(modifiers=["Control"], button="left")
    documents.item("other.onnx").click(button="right")
    documents.choose("Compare Models")
    comparison = page.page.locator(".gw-comparison")
    expect(comparison.locator("> .gw-toolbar")).to_contain_text("1 of 3 tensors differ")
    changes = comparison.locator(".gw-changes")
    expect(changes).to_contain_text("squash")
    page.page.screenshot(path=screens / "documents_compared.png")
    weights = tab(comparison, "Weights")
    weights.get_by_label("Only what differs").check()
    expect(weights.locator("tbody tr")).to_have_count(1)
    expect(weights.locator("tbody tr")).to_contain_text("hidden/w")

    small = documents.open("small.onnx")
    small.get_by_role("button", name="Open in a notebook").click()
    cell = page.page.locator(".jp-Notebook:visible .jp-Cell").first
    expect(cell).to_contain_text("gw.onnx.load(path)")
    assert (models / "small.ipynb").is_file()
    page.page.wait_for_function(f"() => {KERNEL}?.status === 'idle'")
    page.run_cell(0)
    drawn(page.page.locator(".jp-Notebook:visible"), 8)
    page.assert_clean()


def test_notebook_7_has_documents_the_panel_and_the_workbench(
    browser: Any, tmp_path: Path, screens: Path
) -> None:
    if importlib.util.find_spec("notebook") is None:
        missing("no Notebook 7: pip install -e '.[test]'")
    server = Lab(tmp_path / "notebook", app="notebook")
    gw.save(network(), server.root / "small.gw")
    server.start()
    try:
        context = browser.new_context(viewport={"width": 1366, "height": 768})
        tree = Page(context, server)
        tree.page.goto(f"{server.base}/tree?token={server.token}")
        file = tree.page.locator('.jp-DirListing-item[title^="Name: small.gw"]')
        with context.expect_page() as opened:
            file.dblclick()
        document = opened.value.locator(".gw-file")
        drawn(document, 8)
        opened.value.screenshot(path=screens / "document_notebook_7.png")
        expect(tab(document, "Tensors").locator("[data-at]")).to_have_count(3)
        with context.expect_page() as opened:
            document.get_by_role("button", name="Open in a notebook").click()
        expect(opened.value.locator(".jp-Cell").first).to_contain_text("gw.load(path)")
        assert (server.root / "small.ipynb").is_file()

        # Its cell runs, and the panel at the side tells of what it has made.
        view = opened.value
        view.wait_for_function(f"() => {KERNEL}?.status === 'idle'")
        command = "(name) => window.jupyterapp.commands.execute(name).then(() => null)"
        view.evaluate(command, "notebook:run-all-cells")
        drawn(view.locator(".jp-Notebook"), 8)
        view.evaluate(command, "gradwright:show-panel")
        panel = view.locator("#gradwright-panel")
        expect(panel).to_contain_text("8 nodes")
        panel.get_by_role("button", name="parameters").click()
        expect(panel.locator("tr[data-name]")).to_have_count(3)
        view.screenshot(path=screens / "side_panel_notebook_7.png")

        # So does the Workbench: trained and checked.
        write = """(source) => {
          const {sharedModel} = window.jupyterapp.shell.currentWidget.content.model;
          sharedModel.cells[0].setSource(source);
        }"""
        view.evaluate(write, f"{MODEL}\nmade()")
        view.evaluate(command, "notebook:run-all-cells")
        use(view, "light")
        assert not tree.outside
        context.close()
    finally:
        server.stop()

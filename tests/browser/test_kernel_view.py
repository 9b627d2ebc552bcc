"""Kernels in JupyterLab: looked into, walked, an element asked for, a fault; a bench's tab."""

from __future__ import annotations

import pytest

from tests.browser.lab import EVIL, NOTE, VIEW, expect
from tests.browser.test_accessible import assert_accessible

pytest.importorskip("triton", reason="Triton has wheels for Linux only")
pytestmark = pytest.mark.browser

SETUP = f"""
{NOTE}
import numpy as np
import triton, triton.language as tl
import gradwright as gw
from gradwright_kernels import check_kernel, prepare
from gradwright_widgets import KernelView, Workbench

g = gw.Graph("net")
x, w = g.placeholder("x", (None, 12)), g.variable("w", (12, 20))
p = gw.nn.softmax(gw.nn.gelu(x @ w), name={EVIL!r})
loss = gw.mean(gw.square(p), name="loss")
feeds = {{"x": np.random.default_rng(0).standard_normal((40, 12)).astype("f4")}}

doubled = gw.define_op("browser/doubled", lambda x: 2 * x, vjp=lambda g, y, x: 2 * g)

@triton.jit
def doubled_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at <= n
    x = tl.load(x_ptr + at, mask=inside)
    tl.store(y_ptr + at, 2 * x, mask=inside)

@gw.lowering("browser/doubled", device="cuda")
def lower(op, ins, outs):
    n = ins[0].size
    args = {{"x_ptr": ins[0].dtype, "y_ptr": ins[0].dtype, "n": n, "BLOCK": 64}}
    run = prepare(doubled_kernel, triton.cdiv(n, 64), args)
    return lambda xs, ys: run(*xs, *ys)
"""
SHOW = """
view = KernelView(g, loss=p, feeds=feeds)
view.observe(lambda change: note("state", value=change["new"]), "kernel_state")
view.observe(lambda change: note("program", value=change["new"]), "kernel_program")
view
"""
WRONG = """
found = check_kernel(doubled, np.ones((13, 23), "f4"))
KernelView(found.graph, seen=found, height=480)
"""
BENCH = """
bench = Workbench(g, gw.Trainer(g, loss, gw.optim.SGD(0.1)), data=feeds, tab="kernels")
bench.observe(lambda change: note("bench", value=change["new"]), "kernel_state")
bench
"""


def test_a_kernel_is_looked_into(page, lab, screens):
    lab.write_notebook("kernels.ipynb", [SETUP, SHOW, WRONG, BENCH])
    page.open_notebook("kernels.ipynb")
    view = page.page
    page.run_cell(0)
    page.run_cell(1)
    panel = view.locator(".gw-kernels").first
    panel.get_by_role("button", name="Look", exact=True).click()
    lab.event("state", value="done")
    panel.get_by_label("Step", exact=True).select_option("1")
    expect(panel).to_contain_text("computes")
    expect(panel.locator(".gw-kernels-program")).to_have_count(2)
    assert view.evaluate("window.executed") is None  # names are text

    # It stands where memory is read first; forwards and back, lines show what they have set.
    current = panel.locator(".gw-kernels-line[aria-current]")
    expect(current).to_contain_text("tl.load")
    expect(panel.locator("figcaption", has_text="loads in0")).to_be_visible()
    number = current.locator(".gw-kernels-number").inner_text()
    panel.get_by_role("button", name="A line on").click()
    expect(current.locator(".gw-kernels-number")).not_to_have_text(number)
    panel.get_by_role("button", name="A line back").click()
    expect(current.locator(".gw-kernels-number")).to_have_text(number)
    expect(current.locator(".gw-kernels-set")).to_contain_text("x0 =")
    panel.get_by_role("button", name="inside").click()
    expect(panel.get_by_role("img", name="inside: 0 to 1")).to_be_visible()

    # Another program, by its number; an element, and who touches it.
    panel.get_by_role("button", name="1", exact=True).click()
    lab.event("program", value=1)
    result = panel.locator(".gw-kernels-operand[data-parameter=out2] canvas")
    expect(result).to_have_attribute("aria-label", "out2: program 1 touches 160 of 800 elements")
    result.click(position={"x": 2, "y": 2})
    users = panel.locator(".gw-kernels-users")
    expect(users).to_contain_text("out2[0, 0] is written by 0")
    result.press("ArrowDown")
    expect(users).to_contain_text("out2[1, 0] is written by 0")
    result.press("ArrowRight")
    expect(users).to_contain_text("out2[1, 1] is written by 0")
    for theme in ("Light", "Dark"):
        page.set_theme(f"JupyterLab {theme}")
        assert_accessible(panel, f"JupyterLab {theme}")
        view.locator(VIEW).first.screenshot(path=screens / f"kernels_{theme.lower()}.png")

    # What it takes on a GPU.
    panel.get_by_role("tab", name="Cost").click()
    expect(panel).to_contain_text("Occupancy")
    expect(panel).to_contain_text("bound by memory")
    panel.get_by_role("tab", name="PTX").click()
    expect(panel.locator(".gw-kernels-machine")).to_contain_text(".visible .entry")

    # A kernel of one's own, with a mask that is too long.
    page.run_cell(2)
    wrong = view.locator(".gw-kernels").nth(1)
    expect(wrong.get_by_role("alert")).to_contain_text("x_ptr (input 0) loads element 299 of 299")
    wrong.get_by_role("button", name="line", exact=False).first.click()
    expect(wrong).to_contain_text("1 outside")
    expect(wrong.locator(".gw-kernels-line[data-wrong]")).to_have_count(2)
    view.locator(VIEW).nth(1).screenshot(path=screens / "kernels_wrong.png")

    # As a tab of the Workbench: the update of its trainer.
    page.run_cell(3)
    bench = view.locator(".gw-bench")
    bench.get_by_role("button", name="Look", exact=True).click()
    lab.event("bench", value="done")
    expect(bench.locator(".gw-kernels-line[aria-current]")).to_be_visible()
    bench.screenshot(path=screens / "kernels_bench.png")

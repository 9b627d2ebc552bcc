"""The reference of ops: search, pages, and examples that run where they are read."""

from __future__ import annotations

import ipywidgets
import pytest
from ipywidgets.widgets.widget import _instances

import gradwright as gw
from gradwright_widgets import GraphView, OpReference
from gradwright_widgets.panels.ops.panel import page, run_example


@pytest.fixture
def reference():
    made = OpReference()
    yield made
    made.close()


def calls(reference):
    return [label for label, _ in reference._list.options]


def test_search_narrows_and_ranks(reference):
    everything = len(calls(reference))
    assert everything == len(gw.ops.table())
    reference._search.value = "soft max"
    assert calls(reference)[0] == "nn.softmax"
    assert "nn.log_softmax" in calls(reference) and len(calls(reference)) < everything
    assert reference._count.value == f"{len(calls(reference))} of {everything}"
    reference._space.value = "loss"
    assert calls(reference) and all(c.startswith("loss.") for c in calls(reference))


@pytest.mark.parametrize("name", ["maxPooling2d", "max_pool2d", "cnn.maxPooling2d"])
def test_any_spelling_leads_to_the_op(reference, name):
    reference._search.value = name
    assert reference.entry.call == "gw.cnn.max_pool2d"


@pytest.mark.parametrize(
    ("name", "call"),
    [("masked_fill", "gw.where"), ("Dense", "gw.nn.linear"), ("unsqueeze", "gw.expand_dims")],
)
def test_a_name_of_torch_or_keras_leads_to_the_op(reference, name, call):
    reference._search.value = name
    assert reference.entry.call == call


def test_the_page_says_what_there_is_to_choose_from(reference):
    reference._search.value = "resize"
    assert "How to interpolate. One of &#x27;nearest&#x27;, &#x27;linear&#x27;" in (
        reference._page.value
    )


def test_an_operator_of_onnx_leads_to_all_that_it_can_be(reference):
    reference._search.value = "MaxPool"
    assert {"cnn.max_pool1d", "cnn.max_pool2d", "cnn.max_pool3d"} <= set(calls(reference)[:4])


def test_nothing_found(reference):
    reference._search.value = "<b>zebra crossing</b>"
    assert reference.entry is None
    assert reference._page.value == "" and not reference._drawing.children
    reference._search.value = ""
    assert reference.entry is not None


def test_the_page_shows_the_example_as_it_ran_and_its_graph(reference):
    reference._search.value = "leaky_relu"
    assert "[-1.0, 2.0]" in reference._page.value
    (view,) = reference._drawing.children
    assert isinstance(view, GraphView)
    reference._search.value = "conv2d"
    assert view.comm is None, "the drawing of the last op is closed"


def test_text_is_never_html():
    class Bad(gw.Op):
        """Smaller than <script>alert(1)</script>.

        y < x & z
        """

        level: int = gw.attr(1, doc="<img src=x>")

        def infer(self, x):
            return x

    shown = page(gw.ops.Entry(Bad), "<b>printed</b>")
    assert "&lt;script&gt;" in shown and "y &lt; x &amp; z" in shown
    assert not {"<script", "<img", "<b>"} & {
        shown[i : i + n] for n in (3, 4, 7) for i in range(len(shown))
    }


def test_an_example_that_fails_says_so():
    class Broken(gw.Op):
        """Fails.

        >>> gw.nn.softmax(1, 2, 3, 4)
        """

    printed, graph = run_example(gw.ops.Entry(Broken))
    assert "TypeError: softmax takes" in printed and graph is None


def test_closing_leaves_no_widget():
    before = set(_instances)
    OpReference("conv2d").close()
    left = [_instances[k] for k in set(_instances) - before]
    assert not [w for w in left if isinstance(w, (GraphView, ipywidgets.Box, ipywidgets.HTML))]

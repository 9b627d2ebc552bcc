"""Writes the gallery: networks that everyone knows, declared here and drawn by the product."""

from __future__ import annotations

import html
import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import networks

from gradwright import Graph
from gradwright_widgets import GraphView


class Picture(NamedTuple):
    """One network of the gallery: how it is made, and what of it is open."""

    make: Callable[[], Graph]
    expanded: tuple[str, ...] = ()
    height: int = 560

    @property
    def title(self) -> str:
        """First sentence of the documentation, without its full stop."""
        return inspect.cleandoc(self.make.__doc__ or "").split("\n")[0].rstrip(".")

    @property
    def text(self) -> str:
        """The rest of it."""
        return inspect.cleandoc(self.make.__doc__ or "").partition("\n")[2].strip()


PICTURES = (
    Picture(networks.perceptron, ("hidden",)),
    Picture(networks.convolutional, ("features0",)),
    Picture(networks.residual, ("block0",)),
    Picture(networks.u_net),
    Picture(networks.lstm, ("read::",)),
    Picture(networks.attention),
    Picture(networks.transformer, ("layer0",), 640),
    Picture(networks.autoencoder, ("encoder",)),
    Picture(networks.adversarial),
    Picture(networks.maml),
    Picture(networks.mixture_of_experts),
    Picture(networks.from_onnx),
)


def write(source: Path) -> None:
    """Write a page a network below ``source``, and one with all of them side by side."""
    folder = source / "gallery"
    pictures = source / "_pictures/gallery"
    for made in (folder, pictures):
        made.mkdir(parents=True, exist_ok=True)
    cards = []
    for picture in PICTURES:
        name = picture.make.__name__
        view = GraphView(picture.make(), height=picture.height)
        (pictures / f"{name}.svg").write_text(view.to_svg(), "utf-8")
        if picture.expanded:
            view.expanded = list(picture.expanded)
        (folder / f"{name}.md").write_text(_page(picture, view), "utf-8")
        view.close()
        cards.append(
            f'<a class="site-card" href="{name}.html"><img src="{name}.svg" alt="">'
            f"<span>{html.escape(picture.title)}</span></a>"
        )
    names = "\n".join(picture.make.__name__ for picture in PICTURES)
    (folder / "index.md").write_text(
        "# Gallery\n\nNetworks that everyone knows, declared in a few lines each and drawn by "
        "`GraphView`. Each page has the code, and the drawing, which can be explored: open boxes, "
        "zoom, search.\n\n"
        f'<div class="site-cards">\n{"".join(cards)}\n</div>\n\n'
        f"```{{toctree}}\n:hidden:\n\n{names}\n```\n",
        "utf-8",
    )


def _page(picture: Picture, view: GraphView) -> str:
    code = textwrap.dedent(inspect.getsource(picture.make))
    frame = (
        f'<iframe class="site-view" loading="lazy" title="The drawing of {picture.title}" '
        f'style="height: {picture.height + 20}px" srcdoc="{html.escape(view.to_html())}"></iframe>'
    )
    helpers = "`dense` and `conv` make a layer with its weights; they stand at the end.\n\n"
    made = [f for f in (networks.dense, networks.conv) if f"{f.__name__}(" in code]
    ends = "\n\n\n".join(inspect.getsource(f).rstrip() for f in made)
    return (
        f"# {picture.title}\n\n{picture.text}\n\n{frame}\n\n{helpers if made else ''}"
        f"```python\n{code}```\n" + (f"\n```python\n{ends}\n```\n" if made else "")
    )

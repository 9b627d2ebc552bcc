"""What still pictures are written with: text, paper, the colours of both."""

from __future__ import annotations

import html

INK, QUIET, LINE, PAPER = "#1f2430", "#5b6472", "#c4cad2", "#ffffff"
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"


def svg_text(text: str, x: float, y: float, size: int, color: str, anchor: str = "middle") -> str:
    """Return a line of text with its middle at ``y``; whatever stands in it is text."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" text-anchor="{anchor}" '
        f'dominant-baseline="central">{_xml(text)}</text>'
    )


def svg_page(width: float, height: float, body: str, title: str) -> str:
    """Return a whole picture: ``body`` on paper."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{_FONT}" role="img">'
        f"<title>{_xml(title)}</title>"
        f'<rect width="100%" height="100%" fill="{PAPER}"/>{body}</svg>'
    )


def _xml(text: str) -> str:
    """Escape text for XML, which has no place for most control characters."""
    return html.escape("".join(c if c >= " " or c in "\t\n\r" else "\ufffd" for c in text))

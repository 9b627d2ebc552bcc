"""axe-core finds nothing serious in what the extension shows, in light, dark and high contrast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.lab import Page, missing
from tests.browser.lab_scenes import SCENES, THEMES, Extension

pytestmark = pytest.mark.browser

AXE = Path(__file__).parents[2] / "widgets/frontend/node_modules/axe-core/axe.min.js"


def assert_accessible(shown: Any, theme: str = THEMES[0]) -> None:
    """Hold what is shown against axe-core's rules: nothing serious.

    In another theme than the first only contrast is looked at: all else is the same there.
    """
    page = shown.page
    if not AXE.is_file():
        missing("no axe-core: npm ci in widgets/frontend")
    if not page.evaluate("() => Boolean(window.axe)"):
        page.evaluate(AXE.read_text("utf-8"))
    serious = shown.evaluate(
        """async (root, rules) => (await axe.run(
            root, {resultTypes: ['violations'], ...(rules.length ? {runOnly: rules} : {})},
          )).violations
          .filter((v) => ['serious', 'critical'].includes(v.impact))
          .map((v) => [v.id, ...v.nodes.map((n) => n.html.slice(0, 200) + n.failureSummary)])""",
        [] if theme == THEMES[0] else ["color-contrast"],
    )
    assert not serious, serious


def test_every_scene_in_every_theme(page: Page) -> None:
    extension = Extension(page)
    for theme in THEMES:
        page.set_theme(theme)
        for scene in SCENES:
            assert_accessible(extension.show(scene), theme)
    page.set_theme(THEMES[0])

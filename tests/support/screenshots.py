"""The pictures of both pages that are kept: of one run that leaks, in a browser that draws without a graphics card."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from msmemscope.cli.main import main
from tests.support.browser import BrowserPage, find_browser
from tests.support.pictures import SIZE, Picture, read_png, small
from tests.support.recorded_runs import write_run
from tests.support.viewer import running_viewer

if TYPE_CHECKING:
    from collections.abc import Iterator

KEPT = Path(__file__).parents[1] / "golden" / "screenshots"
PROGRAM = "train.py"
STEPS = 40
REPORT = {"findings": "#finding-1", "memory": "#memory-0-0", "stacks": ".icicle"}
"""Pictures of the report, and the element that each begins with."""
VIEWS = ("map", "flame", "owners", "blocks")
NAMES = (*(f"report-{name}" for name in REPORT), "report-dark", *(f"viewer-{name}" for name in VIEWS), "viewer-dark")

WITH_WEBGL = "viewer-webgl"
"""The map as graphics cards, or what stands for one, draw it: not kept, it must look like `viewer-map`."""


def take(folder: Path) -> Iterator[tuple[str, Picture]]:
    """Take all pictures, as small as they are compared.

    Args:
        folder: An empty one.

    Yields:
        The name of each and the picture.
    """
    (folder / PROGRAM).write_text("".join(f"line_{number} = keep()\n" for number in range(1, 31)), encoding="utf-8")
    write_run(folder / "runs", program=PROGRAM, steps=STEPS)
    browser = find_browser()
    assert browser is not None
    with _current(folder), BrowserPage(browser, folder / "profile") as page:
        width, height = SIZE
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        page.call("Emulation.setScrollbarsHidden", hidden=True)
        yield from _report(page, folder)
        yield from _viewer(page, folder)


@contextlib.contextmanager
def _current(folder: Path) -> Iterator[None]:
    """Names in pictures, and the colours that follow from them, must not depend on where the folder is."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _report(page: BrowserPage, folder: Path) -> Iterator[tuple[str, Picture]]:
    assert main(["report", "runs", "-o", "report.html"]) == 0
    page.open(folder / "report.html")
    page.value("document.querySelector('[data-source]').open = true")
    for name, first in REPORT.items():
        page.value(f"document.querySelector('{first}').scrollIntoView()")
        yield f"report-{name}", _taken(page)
    page.value("document.documentElement.setAttribute('data-theme', 'dark'); scrollTo(0, 0)")
    yield "report-dark", _taken(page)


def _viewer(page: BrowserPage, folder: Path) -> Iterator[tuple[str, Picture]]:
    with running_viewer(folder / "cache", folder / "runs") as viewer:
        page.open(f"{viewer.address}#by=site&map.colour=site&view=findings")
        while page.value("typeof msmemscopeView") != "object":
            pass
        page.value("msmemscopeView.idle()")
        _show(page, "[data-tab='map']")
        yield WITH_WEBGL, _taken(page)
        page.value("document.documentElement.setAttribute('data-painter', 'plain')")
        _show(page, "[data-tab='findings']")
        for view in VIEWS:
            _show(page, f"[data-tab='{view}']")
            yield f"viewer-{view}", _taken(page)
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        _show(page, "[data-tab='map']")
        yield "viewer-dark", _taken(page)


def _show(page: BrowserPage, selector: str) -> None:
    page.value("msmemscopeView.idle()")
    page.click(selector)
    page.point(1, SIZE[1] - 1)
    page.value("msmemscopeView.idle()")


def _taken(page: BrowserPage) -> Picture:
    # A change of a moment ago is drawn in the frame after the next.
    page.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return small(read_png(page.picture(is_quick=True)))

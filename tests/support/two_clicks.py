"""From the first sentence of a report to a line of source, as somebody with a mouse goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msmemscope.cli.main import main
from tests.support.browser import BrowserPage, find_browser

if TYPE_CHECKING:
    from pathlib import Path

IS_SEEN = (
    "((one) => { const box = one.getBoundingClientRect();"
    " return one.checkVisibility() && box.bottom > 0 && box.top < innerHeight; })"
)
"""A function of the page: whether an element is on the screen."""


def planted_line(program: Path, text: str) -> str:
    """Return the only line of a program that has a text, as a page shows it: its number, then the line.

    Args:
        program: Its source.
        text: Part of the line.
    """
    lines = program.read_text(encoding="utf-8").splitlines()
    (found,) = (f"{number}{line}" for number, line in enumerate(lines, 1) if text in line)
    return found


def line_after_two_clicks(capture: Path, folder: Path, source: str = "[data-source='site']") -> str:
    """Write the report of a capture, click its first sentence, then the source of the first call site.

    Args:
        capture: The folder of a process.
        folder: A folder for the report and the browser's files.
        source: The selector, within the finding, of the excerpt that is opened.

    Returns:
        The marked line of the excerpt, without its number.
    """
    report = folder / "report.html"
    assert main(["report", str(capture), "-o", str(report)]) == 0
    browser = find_browser()
    assert browser is not None
    with BrowserPage(browser, folder / "profile") as page:
        page.open(report)
        assert page.value("document.querySelector('.verdicts a').textContent").startswith("leak: ")
        page.click(".verdicts a")
        finding = page.value("location.hash")
        assert finding == "#finding-1"
        assert page.value(f"{IS_SEEN}(document.querySelector('{finding}'))")
        blamed = f'document.querySelector("{finding} {source} .blamed")'
        assert not page.value(f"{IS_SEEN}({blamed})")
        page.click(f"{finding} {source} summary")
        assert page.value(f"{IS_SEEN}({blamed})")
        assert page.messages == []
        return str(page.value(f"{blamed}.textContent"))

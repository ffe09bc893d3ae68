"""The viewer in a real browser: each view, the linked selection, the address, the keys, and hostile texts."""

from __future__ import annotations

import csv
import io
import shutil
import time
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("uvicorn", reason="needs starlette and uvicorn: pip install 'msmemscope[view]'")

from tests.support.browser import BrowserPage, find_browser
from tests.support.recorded_runs import KEPT_BYTES, write_run
from tests.support.viewer import RunningViewer, running_viewer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BROWSER = find_browser()
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here: the viewer is not looked at in a browser")

STEPS = 40
PATIENCE_S = 20
HOSTILE = "<img src=x onerror=alert(1)>\u202e\x1b"
VIEWS = ("map", "flame", "owners", "pool", "calls", "difference", "comparison", "blocks", "events", "findings")


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningViewer]:
    """A viewer of a run that leaks at line 11 of a program with a hostile name."""
    folder = tmp_path_factory.mktemp("view")
    program = folder / f"train{HOSTILE.replace('/', '')}.py"
    program.write_text("".join(f"line_{number} = keep()\n" for number in range(1, 31)), encoding="utf-8")
    write_run(folder, program=str(program), steps=STEPS)
    with running_viewer(folder / "cache", folder) as running:
        yield running


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserPage]:
    """A browser."""
    assert BROWSER is not None
    profile = tmp_path_factory.mktemp("profile")
    with BrowserPage(BROWSER, profile) as opened:
        yield opened
    shutil.rmtree(profile, ignore_errors=True)


@pytest.fixture
def page(viewer: RunningViewer, browser: BrowserPage) -> BrowserPage:
    """The viewer's page, at its begin."""
    show(browser, viewer.address)
    return browser


def show(browser: BrowserPage, address: str) -> None:
    """Open an address and wait until all of it is drawn."""
    browser.call("Page.navigate", url="about:blank")
    browser.open(address)
    while browser.value("typeof msmemscopeView") != "object":
        pass
    rest(browser)


def rest(browser: BrowserPage) -> None:
    """Wait until nothing is asked or drawn."""
    browser.value("msmemscopeView.idle()")


def click(browser: BrowserPage, selector: str) -> None:
    """Click an element, and wait."""
    browser.click(selector)
    rest(browser)


def until(browser: BrowserPage, condition: str) -> None:
    """Wait until a condition holds, as for the address, which follows what is shown after a moment."""
    deadline = time.monotonic() + PATIENCE_S
    while not browser.value(condition):
        assert time.monotonic() < deadline, f"never: {condition}"


def until_address(browser: BrowserPage, part: str) -> None:
    """Wait until the address has a part."""
    until(browser, f"location.hash.includes({part!r})")


def text(browser: BrowserPage, selector: str) -> str:
    """The text of an element."""
    return str(browser.value(f"document.querySelector({selector!r}).textContent"))


def errors(browser: BrowserPage) -> list[object]:
    """Errors in the page: exceptions and refusals of its policy, not the notes of a graphics driver."""
    return [one for one in browser.messages if "exceptionDetails" in one or "Content Security" in str(one)]


def test_two_clicks_lead_to_the_leaking_line(page: BrowserPage) -> None:
    """The first sentence is the leak; the link beside it opens its source."""
    assert text(page, "[data-verdict='0'] .sentence").startswith("leak: 19.0 MiB in 38 blocks")
    click(page, "[data-verdict='0'] .sentence")
    until_address(page, "view=findings")
    click(page, "[data-verdict='0'] [data-site]")
    source = text(page, "[data-source]")
    assert "line_11 = keep()" in source


def test_each_view_is_drawn(page: BrowserPage) -> None:
    """Without an error, and hostile names are texts: nothing of them runs, and nothing was refused, because it was never tried."""
    for view in VIEWS:
        click(page, f"[data-tab='{view}']")
        assert page.value(f"document.querySelector('[data-tab={view}]').getAttribute('aria-selected')") == "true", view
        assert len(page.value("document.querySelector('#page').textContent")) > 10, view
        assert errors(page) == [], view
    assert "<img src=x onerror=alert(1)>" in text(page, "[data-verdicts]") + text(page, "#page")
    assert page.value("document.images.length") == 0
    assert page.value("document.querySelectorAll('script:not([src]), [onerror], [onclick]').length") == 0


def test_a_shared_address_restores_what_is_shown(page: BrowserPage, viewer: RunningViewer) -> None:
    """View, window, moment, grouping; and the button back goes to the one before."""
    click(page, "[data-tab='flame']")
    click(page, "[data-action='previous-event']")
    click(page, "[data-action='pin-a']")
    until_address(page, "a=0")
    hash_of_it = page.value("location.hash")
    moment, readout = text(page, "[data-moment]"), text(page, "#page")
    show(page, viewer.address)
    assert text(page, "[data-moment]") != moment
    show(page, viewer.address + hash_of_it)
    assert (text(page, "[data-moment]"), text(page, "#page")) == (moment, readout)
    assert page.value("document.querySelector('[data-action=pin-a]').getAttribute('aria-pressed')") == "true"
    click(page, "[data-tab='blocks']")
    until_address(page, "view=blocks")
    page.value("history.back()")
    until_address(page, "view=flame")
    rest(page)
    assert page.value("document.querySelector('[data-tab=flame]').getAttribute('aria-selected')") == "true"


def test_the_selection_is_linked(page: BrowserPage) -> None:
    """A moment that is clicked in the curve is that of the flame graph, and the window that of the tables."""
    click(page, "[data-tab='flame']")
    before = text(page, "[data-view='flame']")
    x, y, width, height = page.value(
        "(() => { const box = document.querySelector('[data-curve] .u-over, [data-curve]').getBoundingClientRect();"
        " return [box.left, box.top, box.width, box.height]; })()"
    )
    for kind in ("mousePressed", "mouseReleased"):
        page.point(x + width * 0.3, y + height * 0.5, kind, button="left", clickCount=1)
    rest(page)
    assert page.value("document.querySelector('[data-moment]').dataset.row") != ""
    assert text(page, "[data-view='flame']") != before
    until_address(page, "row=")
    page.value("document.querySelector('[data-curve]').focus()")
    page.press("+")
    rest(page)
    until_address(page, "window=")


def test_the_last_row_of_a_table_is_reached(page: BrowserPage, viewer: RunningViewer) -> None:
    """By scrolling, however many there are; a filter leaves what passes, and says how many."""
    click(page, "[data-tab='events']")
    events = viewer.content("session")["processes"][0]["counts"]["events"]
    assert f"{events} of {events}" in text(page, "#page").replace(",", "")
    page.value(
        "(() => { const rows = [...document.querySelectorAll('#page *')]"
        ".filter((one) => one.scrollHeight > one.clientHeight + 50 && getComputedStyle(one).overflowY !== 'visible');"
        " for (const one of rows) one.scrollTop = one.scrollHeight; })()"
    )
    page.value("new Promise((resolve) => setTimeout(resolve, 100))")
    rest(page)
    assert page.value(f"document.querySelector('#page [data-row=\"{events - 1}\"]') !== null")
    click(page, "[data-tab='blocks']")
    page.value("document.querySelector('[data-filter=size]').focus()")
    page.write(f"> {KEPT_BYTES >> 10}K")
    page.value("document.activeElement.blur()")
    until(page, f"document.querySelector('#page').textContent.includes('{STEPS} of ')")
    rest(page)
    click(page, "#page [data-row]")
    assert "1.00 MiB" in text(page, "[data-block]")


def test_a_click_on_the_map_opens_the_right_block(page: BrowserPage, viewer: RunningViewer) -> None:
    """A click on a block shows the block that the server has at that place."""
    click(page, "[data-tab='map']")
    x, y, width, height = page.value(
        "(() => { const box = document.querySelector('[data-field=map]').getBoundingClientRect();"
        " return [box.left, box.top, box.width, box.height]; })()"
    )
    found = None
    for step in range(1, 60):
        px, py = x + width * 0.97, y + height * step / 60
        for kind in ("mousePressed", "mouseReleased"):
            page.point(px, py, kind, button="left", clickCount=1)
        rest(page)
        found = page.value("document.querySelector('[data-block]')?.dataset.block ?? null")
        if found is not None:
            break
    assert found is not None
    detail = viewer.content(f"block?block={found}")
    shown = text(page, "[data-block]")
    assert detail["address"] in shown
    assert detail["site"].rpartition("/")[2][-8:] in shown


def test_a_server_that_is_gone_is_told(tmp_path: Path, browser: BrowserPage) -> None:
    """In words, and the page stays."""
    write_run(tmp_path / "run")
    with running_viewer(tmp_path / "cache", tmp_path / "run") as other:
        show(browser, other.address)
        other.process.kill()
        other.process.wait(30)
        browser.click("[data-tab='events']")
        rest(browser)
        assert browser.value("document.querySelector('[role=alert], .failure, .error') !== null")


def test_dark_light_and_chinese(page: BrowserPage) -> None:
    """Each has its own colours or words, and none loses a view."""
    light = page.value("getComputedStyle(document.querySelector('header')).backgroundColor")
    page.call(
        "Emulation.setEmulatedMedia",
        features=[
            {"name": "prefers-color-scheme", "value": "dark"},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ],
    )
    until(page, f"getComputedStyle(document.querySelector('header')).backgroundColor != {light!r}")
    tabs = page.value("document.querySelectorAll('[data-tab]').length")
    english = text(page, "[data-tab='flame']")
    click(page, "[data-value='zh']")
    assert text(page, "[data-tab='flame']") != english
    assert page.value("document.querySelectorAll('[data-tab]').length") == tabs == len(VIEWS)
    assert page.value("document.documentElement.lang").startswith("zh")
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    click(page, "[data-value='en']")


def test_groups_have_the_same_colours_in_two_loads(page: BrowserPage, viewer: RunningViewer) -> None:
    """Also where another group is the largest of what the second one shows."""
    colours = (
        "Object.fromEntries([...document.querySelectorAll('[data-legend] li:not(.total)')].map((one) =>"
        " [one.querySelector('.name').title, one.querySelector('.swatch').style.background]))"
    )
    show(page, f"{viewer.address}#by=site")
    whole = page.value(colours)
    assert len(set(whole.values())) == len(whole) > 1
    show(page, f"{viewer.address}#by=site&axis=events&window=0~12&view=blocks")
    part = page.value(colours)
    assert list(part) != list(whole)
    assert part == {name: whole[name] for name in part}


def test_a_difference_is_saved(page: BrowserPage, tmp_path: Path) -> None:
    """As a file of all its rows, in the view of pinned moments and in the comparison."""
    page.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    click(page, "[data-action='pin-a']")
    click(page, "[data-action='previous-event']")
    click(page, "[data-action='pin-b']")
    click(page, "[data-tab='difference']")
    click(page, "[data-view='difference'] [data-tool='csv']")
    file = tmp_path / "difference.csv"
    deadline = time.monotonic() + PATIENCE_S
    while not (file.is_file() and file.stat().st_size):
        assert time.monotonic() < deadline
    rows = list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"))))
    shown = page.value("document.querySelectorAll('[data-view=difference] tbody tr').length")
    assert len(rows) == shown > 0
    assert set(rows[0]) >= {"name", "bytes", "other_bytes", "difference"}
    click(page, "[data-tab='comparison']")
    assert page.value("document.querySelector('[data-view=comparison] [data-tool=csv]') !== null")
    click(page, "[data-tab='owners']")
    assert page.value("document.querySelectorAll('[data-view=owners] a[data-tool]').length") == 2

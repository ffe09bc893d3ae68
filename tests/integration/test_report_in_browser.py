"""The HTML report in a real browser: two clicks to the source line, keys, and nothing that its policy forbids."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from msmemscope.cli.main import main
from msmemscope.launch.html_report import report_parts, report_text, write_report
from tests.fakes.traces import Trace
from tests.support.browser import BrowserPage, find_browser
from tests.support.english import english
from tests.support.recorded_runs import write_run

BROWSER = find_browser()
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here: the page is not looked at in a browser")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserPage]:
    """The report of a run that leaks at line 11 of a program that is there."""
    folder = tmp_path_factory.mktemp("report")
    program = folder / "train<b>.py"
    program.write_text("".join(f"line_{number} = keep()\n" for number in range(1, 31)), encoding="utf-8")
    write_run(folder, program=str(program))
    report = folder / "report.html"
    assert main(["report", str(folder), "-o", str(report)]) == 0
    assert BROWSER is not None
    with BrowserPage(BROWSER, folder / "profile") as opened:
        opened.open(report)
        yield opened
    shutil.rmtree(folder / "profile", ignore_errors=True)


def is_on_screen(selector: str) -> str:
    """A script: whether the element begins within the window."""
    return (
        f"(() => {{ const top = document.querySelector('{selector}').getBoundingClientRect().top;"
        " return top >= 0 && top < innerHeight; })()"
    )


def test_two_clicks_lead_to_the_leaking_line(page: BrowserPage) -> None:
    """The first goes to the finding, the second opens its source with the line to blame."""
    assert page.value("document.querySelector('.verdicts a').textContent").startswith("leak: 2.00 MiB in 4 blocks")
    page.click(".verdicts a")
    assert page.value("location.hash") == "#finding-1"
    assert page.value(is_on_screen("#finding-1"))
    blamed = "document.querySelector('#finding-1 .source .blamed')"
    assert page.value(f"{blamed}.checkVisibility()") is False
    page.click("#finding-1 .source summary")
    assert page.value(f"{blamed}.checkVisibility()") is True
    assert page.value(f"{blamed}.textContent") == "11line_11 = keep()"


def test_the_time_cursor_moves_by_keys(page: BrowserPage) -> None:
    """Home goes to the begin, p to the exact peak."""
    page.value("document.querySelector('.picture svg').focus()")
    page.press("Home")
    readout = "document.querySelector('.readout').textContent"
    at_begin = page.value(readout)
    page.press("ArrowRight")
    assert page.value("document.querySelector('.picture svg').getAttribute('aria-valuenow')") == "1"
    page.press("p")
    assert page.value(readout) != at_begin
    assert "in use 4.00 MiB (4,198,400)" in page.value(readout)


def test_a_click_zooms_the_stacks_and_escape_zooms_out(page: BrowserPage) -> None:
    """The focus stays on what was clicked."""
    count = "document.querySelectorAll('.icicle button').length"
    before = page.value(count)
    page.value("document.querySelectorAll('.icicle button')[2].click()")
    assert page.value("document.activeElement.style.width") == "100%"
    page.press("Escape")
    page.press("Escape")
    assert page.value(count) == before


def test_tables_are_sorted_by_a_click(page: BrowserPage) -> None:
    """Sizes the other way round at the second click."""
    head = "#leaks-0 th button"
    page.click(head)
    assert page.value("document.querySelector('#leaks-0 th').getAttribute('aria-sort')") == "descending"
    page.click(head)
    assert page.value("document.querySelector('#leaks-0 th').getAttribute('aria-sort')") == "ascending"


def test_names_are_text(page: BrowserPage) -> None:
    """The program's name has a tag in it, which is shown and is none."""
    assert page.value("document.querySelectorAll('b').length") == 0
    assert "train<b>.py" in page.value("document.querySelector('#finding-1').textContent")


def test_nothing_was_refused_or_failed(page: BrowserPage) -> None:
    """No violation of the policy, no error, and not a single request besides the file itself."""
    page.value("1")
    assert page.messages == []
    assert page.value("performance.getEntriesByType('resource').length") == 0


HOSTILE = (
    "</script><script>window.wasHit = 1</script>",
    "<img src=x onerror=window.wasHit=1>",
    "<svg onload=window.wasHit=1>",
    "\u202egnp.exe",
)


def test_hostile_names_run_nothing_and_add_nothing(page: BrowserPage, tmp_path: Path) -> None:
    """In names, stacks, marks, facts and holders; whatever is opened, sorted and zoomed."""
    text = "".join(HOSTILE)
    trace = Trace()
    for _ in range(6):
        trace.mark(text)
        trace.malloc(
            1 << 20, f"/app/{text}.py(11): {text}\n/app/run.py(2): main", operator=text, native=f"{text}(f) [0x1]"
        )
        trace.step()
    recording = dataclasses.replace(trace.recording(), facts={"argument": (text,)}, problems=(text,))
    path = write_report(report_text(report_parts([recording]), source=text), tmp_path / "hostile.html")
    page.messages.clear()
    page.open(path)
    page.value(
        "document.querySelectorAll('details').forEach((one) => { one.open = true; });"
        "document.querySelectorAll('th button, .icicle button').forEach((one) => one.click()); 1"
    )
    assert page.value("window.wasHit === undefined") is True
    assert page.value("document.querySelectorAll('script').length") == 2
    assert page.value("document.querySelectorAll('img, iframe, object, embed, svg[onload], [onerror]').length") == 0
    assert page.value("document.body.textContent.includes('<img src=x onerror=window.wasHit=1>')") is True
    assert page.messages == []


def test_a_chinese_page_has_no_english_sentence(page: BrowserPage, tmp_path: Path) -> None:
    """Whatever is unfolded: what the script puts together is Chinese as well."""
    capture = write_run(tmp_path, analysis="leaks,inefficient")
    report = tmp_path / "report.html"
    assert main(["report", str(capture), "-o", str(report), "--language=zh"]) == 0
    page.open(report)
    page.value("document.querySelectorAll('details').forEach((one) => { one.open = true; }); 1")
    texts = page.value(
        "[...document.querySelectorAll('body *:not(script, code)')].flatMap((one) => [one.title, one.getAttribute('aria-label') ?? '',"
        " ...[...one.childNodes].filter((child) => child.nodeType === 3).map((child) => child.data)])"
        ".filter((text) => (text ?? '').trim())"
    )
    assert len(texts) > 100
    assert [text for text in texts if english(text)] == []


def test_tables_and_findings_lead_to_each_other(page: BrowserPage, tmp_path: Path) -> None:
    """From a finding to the table of its question, and from the row of a call site to its card, also a folded one."""
    trace = Trace()
    for _ in range(6):
        for line in range(6):
            trace.malloc((line + 1) << 20, f"/app/train.py({line + 11}): keep", operator="aten.mm")
        trace.step()
    path = write_report(report_text(report_parts([trace.recording()]), source="runs"), tmp_path / "linked.html")
    page.open(path)
    page.click("#finding-1 .in-tables a")
    assert page.value("location.hash") == "#leaks-0"
    assert page.value(is_on_screen("#leaks-0"))
    # The smallest leak is the last row, and its card is not among the first three.
    page.click("#leaks-0 tbody tr:last-child td.site a")
    assert page.value("location.hash") == "#finding-1-6"
    card = "document.querySelector('#finding-1-6')"
    while not page.value(f"{card}.checkVisibility()"):
        pass
    assert page.value(is_on_screen("#finding-1-6"))
    assert page.value(f"{card}.querySelector('h4').textContent") == "/app/train.py(11): keep"

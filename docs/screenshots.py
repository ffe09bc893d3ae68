"""`make screenshots`: the pictures of the HTML report and of the viewer, of a small GPT that keeps its losses, in a headless Chromium.

Usage: python docs/screenshots.py
"""

from __future__ import annotations

import base64
import contextlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

DOCS = Path(__file__).parent
sys.path.append(str(DOCS.parent))  # the browser is the tests'

from tests.support.browser import BrowserPage, find_browser  # noqa: E402
from tests.support.viewer import running_viewer  # noqa: E402

_OPTIONS: Final = ("--device=cpu", "--report", "--analysis=leaks,decompose", "--output=memscopeDumpResults")
_PROGRAM: Final = ("examples/train_gpt.py", "--device=cpu", "--steps=12", "--leak")
_PICTURES: Final = {
    "report-findings.png": ("document.querySelector('header')", "document.querySelector('#finding-1 .found-site')"),
    "report-memory.png": ("document.querySelector('#memory-0-0')", "document.querySelector('#memory-0-0')"),
}
"""Name of a picture to its first and last element."""
_VIEWER_SIZE: Final = {"width": 1280, "height": 860}
_VIEWER_PLACE: Final = (0.6, 0.35)
"""Of a block in the map that is never freed, as shares of its width and height."""


def main() -> int:
    """Record, open and take the pictures; the status is 2 where there is no browser."""
    browser = find_browser()
    if browser is None:
        print(
            "make screenshots: no Chromium on PATH\nhint: on Debian and Ubuntu: apt-get install chromium",
            file=sys.stderr,
        )
        return 2
    with contextlib.ExitStack() as stack:
        folder = Path(tempfile.gettempdir()) / "job"  # the pictures show it
        folder.mkdir()
        stack.callback(shutil.rmtree, folder)
        (folder / "examples").symlink_to(DOCS.parent / "examples")
        line = [sys.executable, "-m", "msmemscope", *_OPTIONS, "--", sys.executable, *_PROGRAM]
        subprocess.run(line, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (report,) = folder.glob("memscopeDumpResults/*/report.html")
        with BrowserPage(browser, folder / "profile") as page:
            page.open(report)
            page.value("document.querySelector('#finding-1 details').open = true")
            for name, (first, last) in _PICTURES.items():
                box = page.value(
                    f"(() => {{ const [a, b] = [{first}, {last}].map((one) => one.getBoundingClientRect());"
                    " return {x: 0, y: a.top + scrollY, width: document.body.clientWidth, height: Math.min(b.bottom - a.top, 1090), scale: 1}; })()"
                )
                taken = page.call("Page.captureScreenshot", clip=box, captureBeyondViewport=True)
                (DOCS / "images" / name).write_bytes(base64.b64decode(taken["data"]))
                print(f"wrote docs/images/{name}")
            _picture_viewer(page, folder)
    return 0


def _picture_viewer(page: BrowserPage, folder: Path) -> None:
    """Open the same run in the viewer, and a block that is never freed."""
    with running_viewer(folder / "cache", folder / "memscopeDumpResults") as viewer:
        page.call("Emulation.setDeviceMetricsOverride", **_VIEWER_SIZE, deviceScaleFactor=1, mobile=False)
        page.open(f"{viewer.address}#by=site&map.colour=site")
        while page.value("typeof msmemscopeView") != "object":
            pass
        page.value("msmemscopeView.idle()")
        # A machine without a Chinese font would show a box there.
        page.value("document.querySelector('[data-control=language]').style.visibility = 'hidden'")
        left, top, width, height = page.value(
            "(() => { const box = document.querySelector('[data-field=map]').getBoundingClientRect();"
            " return [box.left, box.top, box.width, box.height]; })()"
        )
        x, y = left + _VIEWER_PLACE[0] * width, top + _VIEWER_PLACE[1] * height
        for kind in ("mousePressed", "mouseReleased"):
            page.point(x, y, kind, button="left", clickCount=1)
        page.point(1, 1)
        page.value("msmemscopeView.idle()")
        (DOCS / "images" / "viewer.png").write_bytes(page.picture())
        print("wrote docs/images/viewer.png")


if __name__ == "__main__":
    raise SystemExit(main())

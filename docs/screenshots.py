"""`make screenshots`: the pictures of the HTML report, of a small GPT that keeps its losses, in a headless Chromium.

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

_OPTIONS: Final = ("--device=cpu", "--report", "--analysis=leaks,decompose", "--output=memscopeDumpResults")
_PROGRAM: Final = ("examples/train_gpt.py", "--device=cpu", "--steps=12", "--leak")
_PICTURES: Final = {
    "report-findings.png": ("document.querySelector('header')", "document.querySelector('#finding-1 .found-site')"),
    "report-memory.png": ("document.querySelector('#memory-0-0')", "document.querySelector('#memory-0-0')"),
}
"""Name of a picture to its first and last element."""


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
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

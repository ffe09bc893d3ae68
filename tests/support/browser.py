"""A headless browser that a test can look and click with, without any package: Chromium speaks JSON over a pipe."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from typing_extensions import Self

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find_browser() -> str | None:
    """The command of a Chromium on this machine; None if there is none."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


_PLACE_AT_REST: Final = """async (selector) => {
    const frame = () => new Promise(requestAnimationFrame);
    let before = "";
    for (let tries = 0; tries < 600; ++tries) {
        const one = document.querySelector(selector);
        one.scrollIntoView({block: "center", behavior: "instant"});
        const box = one.getClientRects()[0];
        const place = [box.left + box.width / 2, box.top + box.height / 2];
        const found = document.elementFromPoint(...place);
        if (String(place) === before && one.contains(found)) return place;
        before = String(place);
        await frame();
        await frame();
    }
}"""
"""Of the page: where the middle of an element is, when two frames have shown it there; a jump moves it once more behind it."""


class BrowserPage:
    """One page of a headless browser; a context manager.

    Args:
        command: Of the browser.
        profile: A folder that it may fill.
    """

    def __init__(self, command: str, profile: Path) -> None:
        """Start the browser and open an empty page."""
        orders_read, self._orders = os.pipe()
        self._answers, answers_write = os.pipe()
        self._rest = b""
        self._number = 0
        self.messages: list[dict[str, Any]] = []
        """The messages that the page logged, with violations of its policy."""

        # The browser reads from descriptor 3 and writes to descriptor 4.
        launch = f'exec 3<&{orders_read} 4>&{answers_write}; exec "$@"'
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--window-size=1200,900")
        self._process = subprocess.Popen(
            ["bash", "-c", launch, "bash", command, *options, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(orders_read, answers_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(orders_read)
        os.close(answers_write)
        self._session = ""
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        # Pages scroll at once then, and not over some frames.
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])

    def __enter__(self) -> Self:
        """Return the page."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the browser."""
        os.close(self._orders)
        self._process.terminate()
        self._process.wait(30)
        os.close(self._answers)

    def call(self, method: str, **parameters: Any) -> Any:
        """Give an order and return its result; what is reported meanwhile is kept."""
        self._number += 1
        order = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            order["sessionId"] = self._session
        os.write(self._orders, json.dumps(order).encode() + b"\0")
        while True:
            message = self._next()
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]
            self._keep(message)

    def open(self, place: Path | str) -> None:
        """Show a file, or an address, and wait until it is loaded."""
        address = place if isinstance(place, str) else place.as_uri()
        self.call("Page.navigate", url=address)
        protocol = address.partition("/")[0]
        while self.value("document.readyState") != "complete" or self.value("location.protocol") != protocol:
            pass

    def value(self, script: str) -> Any:
        """Return what an expression comes to in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def click(self, selector: str) -> None:
        """Click with the mouse in the middle of an element, once it has come to rest on the screen and nothing covers it."""
        box = self.value(f"({_PLACE_AT_REST})({json.dumps(selector)})")
        assert box, f"{selector} does not come to rest, or something covers it"
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def point(self, x: float, y: float, kind: str = "mouseMoved", **parameters: Any) -> None:
        """Let the mouse do something at a place of the screen."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **parameters)

    def write(self, text: str) -> None:
        """Write into what has the focus."""
        self.call("Input.insertText", text=text)

    def picture(self, *, is_quick: bool = False) -> bytes:
        """Return what is on the screen, as PNG.

        Args:
            is_quick: Make a larger file, in which each pixel is the difference to the one to the left. Other files take
                seconds to undo without a library.
        """
        answer = self.call("Page.captureScreenshot", format="png", optimizeForSpeed=is_quick)
        return base64.b64decode(answer["data"])

    def press(self, key: str) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._answers, 1 << 20)
            assert part, "the browser has ended"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def _keep(self, message: dict[str, Any]) -> None:
        if message.get("method") in {"Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"}:
            self.messages.append(message["params"])

"""A viewer that runs, as a user starts it."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from msmemscope.view.queries.frame import Frame
from tests.support.targets import environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMAND = [sys.executable, "-m", "msmemscope", "view"]
_PATIENCE_S = 60


class RunningViewer:
    """A viewer and its address.

    Args:
        process: The command.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Wait until it says where it is."""
        self.process = process
        assert process.stdout is not None
        self.address = process.stdout.readline().strip()
        assert self.address.startswith("http://127.0.0.1:"), self.address

    @property
    def port(self) -> int:
        """Of its address."""
        return int(self.address.split(":")[2].partition("/")[0])

    @property
    def token(self) -> str:
        """The secret in its address."""
        return self.address.rstrip("/").rpartition("/")[2]

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Ask for something below the address: status, headers and content."""
        return ask(self.address + path, **headers)

    def content(self, question: str) -> Any:
        """Return the answer to a question, of JSON or as a frame."""
        status, headers, content = self.get(f"api/{question}")
        assert status == 200, content
        return json.loads(content) if headers["content-type"] == "application/json" else Frame.from_bytes(content)


def ask(url: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Ask for an address."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, headers=named, method=method)  # noqa: S310 - of this machine
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE_S) as response:  # noqa: S310 - likewise
            return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {name.lower(): value for name, value in error.headers.items()}, error.read()


@contextlib.contextmanager
def running_viewer(cache: Path, *arguments: str | Path) -> Iterator[RunningViewer]:
    """Start a viewer; at the end it is interrupted as by Ctrl+C.

    Args:
        cache: Where its index is kept.
        arguments: Of the verb.
    """
    command = [*COMMAND, "--no-browser", *map(str, arguments)]
    variables = {**environment(), "XDG_CACHE_HOME": str(cache)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables) as process:
        try:
            yield RunningViewer(process)
        finally:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_PATIENCE_S)
            process.kill()

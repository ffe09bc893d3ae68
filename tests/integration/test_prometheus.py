"""A real Prometheus scrapes a program that leaks: it answers every query of the dashboard, and evaluates every rule."""

from __future__ import annotations

import importlib.util
import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support import tool
from tests.support.targets import environment

if TYPE_CHECKING:
    from collections.abc import Callable

PROMETHEUS: Final = shutil.which("prometheus")
EXAMPLES: Final = Path(__file__).parents[2] / "examples" / "prometheus"
PATIENCE_S: Final = 90

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed"),
    pytest.mark.skipif(
        importlib.util.find_spec("prometheus_client") is None, reason="needs pip install 'msmemscope[metrics]'"
    ),
]

LEAKS: Final = """\
import os, time, torch
import msmemscope
kept, launcher = [], os.getppid()
while os.getppid() == launcher:
    kept.append(torch.ones(1 << 18))
    msmemscope.step()
    time.sleep(0.2)
"""
"""A program that would grow for ever ends with the launcher, which the test kills."""
LEAKING_LINE: Final = "leaks.py(5)"
CONFIGURATION: Final = """\
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: training
    static_configs: [{{targets: ["{target}"]}}]
"""
ANSWERED: Final = {
    "Memory in use",
    "Call sites with the most bytes",
    "Growth per hour, by line",
    "Host memory",
    "Steps per minute",
    "Processes that run",
}
"""Panels that show something here: no allocation fails, no device reserves memory, and no container has a limit."""


def _free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


def _until(found: Callable[[], Any]) -> Any:
    """The first true answer."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        answer = found()
        if answer:
            return answer
        time.sleep(0.5)
    pytest.fail(f"nothing within {PATIENCE_S} s")


class _Server:
    """A Prometheus that is there, or will be soon."""

    def __init__(self, address: str) -> None:
        self._address = address

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer; None while it does not listen."""
        try:
            with urllib.request.urlopen(
                f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=10
            ) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an answer."""
        data: dict[str, list[dict[str, Any]]] = self.get("query", query=expression) or {"result": []}
        return data["result"]


def _queries() -> list[tuple[str, str]]:
    """Those of the dashboard, with the titles of their panels, of all hosts and ranks."""
    dashboard = json.loads((EXAMPLES / "grafana-dashboard.json").read_text(encoding="utf-8"))
    return [
        (panel["title"], target["expr"].replace("$node", ".*").replace("$rank", ".*"))
        for panel in dashboard["panels"]
        for target in panel["targets"]
    ]


def test_prometheus_answers_the_dashboard(tmp_path: Path) -> None:
    """Growth names the line that leaks, and all rules are sound."""
    (tmp_path / "leaks.py").write_text(LEAKS, encoding="utf-8")
    metrics, prometheus = _free_address(), _free_address()
    configuration = tmp_path / "prometheus.yml"
    configuration.write_text(
        CONFIGURATION.format(rules=EXAMPLES / "alert-rules.yaml", target=metrics), encoding="utf-8"
    )
    output = tmp_path / "output"
    output.mkdir()
    commands = (
        [*tool.TOOL, f"--output={output}", sys.executable, tmp_path / "leaks.py"],
        [*tool.TOOL, "metrics", output, f"--prometheus={metrics}"],
        [
            PROMETHEUS, f"--config.file={configuration}", f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address={prometheus}",
        ],
    )  # fmt: skip
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            processes.append(subprocess.Popen([*map(str, command)], env=environment(), **streams))  # type: ignore[call-overload]  # DEVNULL
        server = _Server(prometheus)
        growing = next(query for title, query in _queries() if title == "Growth per hour, by line")
        growth = _until(lambda: server.query(growing))
        assert growth[0]["metric"]["site"].endswith(LEAKING_LINE)
        assert float(growth[0]["value"][1]) > 1 << 30
        first = _until(lambda: server.query("msmemscope_in_use_bytes"))
        later = _until(
            lambda: server.query(f"msmemscope_in_use_bytes > {first[0]['value'][1]}"),
        )
        assert int(later[0]["value"][1]) % (1 << 20) == 0

        def answered() -> set[str]:
            replies = {(title, query): server.get("query", query=query) for title, query in _queries()}
            assert all(reply is not None for reply in replies.values())  # each is one that Prometheus understands
            return {title for (title, _), reply in replies.items() if reply["result"]}

        _until(lambda: answered() >= ANSWERED)
        rules = _until(lambda: server.get("rules"))["groups"][0]["rules"]
        assert len(rules) >= 4
        _until(lambda: all(one["health"] == "ok" for one in server.get("rules")["groups"][0]["rules"]))
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()

"""Figures for a collector of OpenTelemetry: what arrives there is what Prometheus would read."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import importlib.util
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from msmemscope.cli.main import main
from tests.integration.test_metrics import samples
from tests.support import tool
from tests.support.recorded_runs import write_run
from tests.support.targets import environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("opentelemetry") is None, reason="needs pip install 'msmemscope[otlp]'"
)

OK, REFUSED = 200, 400


class Collector:
    """A server on this machine that takes metrics, and answers with the statuses that it was given, the last one for good."""

    def __init__(self, *statuses: int) -> None:
        collector = self
        self.received: list[Any] = []
        self.paths: list[str] = []
        self.has_received = threading.Semaphore(0)
        left = list(statuses)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.received.append(ExportMetricsServiceRequest.FromString(body))
                collector.paths.append(self.path)
                self.send_response(left.pop(0) if len(left) > 1 else left[0])
                self.end_headers()
                collector.has_received.release()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    @contextlib.contextmanager
    def serving(self) -> Iterator[Collector]:
        """Serve in a thread."""
        thread = threading.Thread(target=self._server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()


def points(request: Any) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Names with attributes to values."""
    found = {}
    for metric in request.resource_metrics[0].scope_metrics[0].metrics:
        kind = metric.WhichOneof("data")
        assert kind == ("sum" if metric.name.endswith("_total") else "gauge")
        assert metric.unit == ("By" if metric.name.endswith("_bytes") else "1")
        for point in getattr(metric, kind).data_points:
            labels = tuple(sorted((one.key, one.value.string_value) for one in point.attributes))
            found[metric.name, labels] = point.as_double or float(point.as_int)
    return found


def test_they_are_those_of_prometheus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each with its name, its labels and its value."""
    capture = write_run(tmp_path)
    assert main(["metrics", str(capture), "--once"]) == 0
    for_prometheus = {
        (name, tuple((label, text) for label, text in labels if text)): value
        for (name, labels), value in samples(capsys.readouterr().out).items()
        if not name.endswith("_created")
    }
    with Collector(OK).serving() as collector:
        assert main(["metrics", str(capture), f"--otlp={collector.address}", "--once"]) == 0
    (request,) = collector.received
    assert collector.paths == ["/v1/metrics"]
    assert points(request) == for_prometheus
    names = {one.key: one.value.string_value for one in request.resource_metrics[0].resource.attributes}
    assert names["service.name"] == "msmemscope"


def test_a_collector_that_takes_nothing_is_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the reason: it refuses, or it is not there."""
    capture = write_run(tmp_path)
    with Collector(REFUSED).serving() as collector:
        assert main(["metrics", str(capture), f"--otlp={collector.address}/own/path", "--once"]) == 1
    assert collector.paths == ["/own/path"]
    assert "were not sent" in (said := capsys.readouterr().err)
    assert "400" in said
    assert main(["metrics", str(capture), f"--otlp={collector.address}", "--once"]) == 1
    assert f"metrics were not sent to {collector.address}/v1/metrics: Connection refused\n" in capsys.readouterr().err


def test_they_are_sent_until_ctrl_c(tmp_path: Path) -> None:
    """A failure is told of once, and so is its end."""
    command = [*tool.TOOL, "metrics", str(write_run(tmp_path)), "--every=1"]
    with (
        Collector(OK, REFUSED, REFUSED, OK).serving() as collector,
        subprocess.Popen(
            [*command, f"--otlp={collector.address}"], stderr=subprocess.PIPE, text=True, env=environment()
        ) as sender,
    ):
        for _ in range(5):
            assert collector.has_received.acquire(timeout=60)
        sender.send_signal(signal.SIGINT)
        _, said = sender.communicate(timeout=60)
    assert sender.returncode == 0, said
    beginning, *lines = said.splitlines()
    assert beginning.endswith(f" go to {collector.address}/v1/metrics every 1 s")
    assert [line.count("were not sent") for line in lines] == [1, 0]
    assert lines[1].endswith(" again")


@pytest.mark.parametrize(
    "words, option",
    [
        (["--every=3"], "--every"),
        (["--otlp=http://127.0.0.1", "--every=0"], "--every"),
        (["--otlp=127.0.0.1:4318"], "--otlp"),
        (["--otlp=http://127.0.0.1:99999"], "--otlp"),
    ],
)
def test_words_that_mean_nothing(words: list[str], option: str, tmp_path: Path) -> None:
    """Are refused before anything is sent."""
    run = tool.run([*tool.TOOL, "metrics", write_run(tmp_path), *words], output=tmp_path)
    assert run.returncode == 2
    assert f"msmemscope: error: {option}: " in run.stderr
    assert sys.executable not in run.stderr

"""The asynchronous mode: real streams, events and waits, through the real torch_npu."""

from __future__ import annotations

import pytest

from vnpu.tests.programs import nightly, run_good


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({}, id="as it is"),
        pytest.param({"TASK_QUEUE_ENABLE": "2"}, id="all in the queue", marks=nightly),
        pytest.param({"TASK_QUEUE_ENABLE": "0"}, id="no queue", marks=nightly),
    ],
)
def test_streams_run_behind_the_host(environment: dict[str, str]) -> None:
    printed = run_good("asynchronous.py", options=["--streams=asynchronous"], environment=environment)
    checks = ("record_stream", "host_is_ahead", "streams_wait", "training", "graphs", "errors")
    assert printed.split() == [word for name in checks for word in (name, "ok")]

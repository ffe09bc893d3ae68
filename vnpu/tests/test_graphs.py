"""NPU graphs (``torch.npu.NPUGraph``): captured, replayed and updated through the real torch_npu."""

from __future__ import annotations

import pytest

from vnpu.tests.programs import nightly, run_good


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        pytest.param((), {}, id="as it is"),
        pytest.param(("--compute=none",), {}, id="without compute"),
        pytest.param((), {"TASK_QUEUE_ENABLE": "2"}, id="all in the queue", marks=nightly),
        pytest.param((), {"TASK_QUEUE_ENABLE": "0"}, id="no queue", marks=nightly),
        pytest.param((), {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"}, id="mapped segments", marks=nightly),
        pytest.param(("--streams=asynchronous",), {}, id="asynchronous", marks=nightly),
    ],
)
def test_graphs_compute_what_the_program_would(options: tuple[str, ...], environment: dict[str, str]) -> None:
    arguments = ["none"] if "--compute=none" in options else []
    printed = run_good("graphs.py", *arguments, options=options, environment=environment)
    assert printed.split() == [
        word
        for name in (
            "replays", "streams", "private_pool", "graphed_callables", "random_numbers", "updated_tasks", "refused",
        )
        for word in (name, "ok")
    ]  # fmt: skip

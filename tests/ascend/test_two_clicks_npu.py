"""Programs that leak, recorded on the virtual NPU: two clicks in the browser lead to the planted line, as on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.browser import find_browser
from tests.support.nightly import nightly
from tests.support.two_clicks import line_after_two_clicks, planted_line

if TYPE_CHECKING:
    from tests.ascend.conftest import Observe

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = [
    pytest.mark.slow,
    nightly,
    pytest.mark.skipif(find_browser() is None, reason="no Chromium here: the report is not looked at in a browser"),
]


def test_a_gpt_that_keeps_losses_shows_where_they_are_kept(observe: Observe, tmp_path: Path) -> None:
    """In memory of the NPU, not of the host."""
    program = EXAMPLES / "train_gpt.py"
    seen = observe(["--device=npu"], str(program), "--steps=5", "--batch=2", "--leak")
    shown = line_after_two_clicks(seen.run.capture.directory, tmp_path, "[data-source='holder']")
    assert shown == planted_line(program, "history.append(")


def test_a_server_that_keeps_answers_shows_where_they_are_made(observe: Observe, tmp_path: Path) -> None:
    """As docs/stories.md says."""
    program = EXAMPLES / "serve_requests.py"
    seen = observe(["--device=npu"], str(program), "--device=npu", "--requests=60")
    assert line_after_two_clicks(seen.run.capture.directory, tmp_path) == planted_line(program, "torch.relu(")

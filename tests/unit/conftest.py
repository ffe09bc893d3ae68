"""Fixtures that tests of many modules begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fakes.event_log_builder import EventLogBuilder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def builder(tmp_path: Path) -> EventLogBuilder:
    """An empty event log."""
    return EventLogBuilder(tmp_path)


@pytest.fixture
def current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def in_folder_of_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the test is the current one, and nothing says how wide the terminal is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)

"""The aclnn functions that each operator case ran, written to a file by ``--operator-report``."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Generator
from pathlib import Path

import pytest

from virtual_npu.libraries import cann_folder

ROOM = 1 << 16  # bytes; a case calls some dozen functions


class OperatorReport:
    """A plugin of pytest that counts the functions behind each test of ``test_operators.py``."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._rows: list[dict[str, object]] = []
        self._library = ctypes.CDLL(str(cann_folder() / "lib64" / "libopapi.so"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Run a test; keep what it called if it passes."""
        self._library.virtual_npu_count_calls()
        outcome = yield
        parameters = getattr(item, "callspec", None)
        if parameters is not None and "case" in parameters.params:
            case = parameters.params["case"]
            self._rows.append(
                {
                    "family": item.name.partition("[")[2].partition("-")[0],
                    "case": case.name,
                    "type": parameters.params["type_name"],
                    "backward": case.backward,
                    "statistical": case.check is not None,
                    "functions": self.functions(),
                }
            )
        return outcome

    def functions(self) -> list[str]:
        """The functions that ran since the count began."""
        text = ctypes.create_string_buffer(ROOM)
        self._library.virtual_npu_call_counts(text, ctypes.c_uint64(ROOM))
        return sorted(line.split()[0] for line in text.value.decode().splitlines())

    def pytest_sessionfinish(self) -> None:
        """Write the report."""
        self._file.write_text(json.dumps(self._rows), encoding="utf-8")

"""Which owners say more than the pool."""

from __future__ import annotations

import pytest

from msmemscope.model.owners import is_known_owner


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        ("HOST", False), ("CUDA", False), ("HOST@ops", False), ("HOST@ops@aten", False), ("PTA@model@weight", True),
        ("PTA@ops@aten@mine", True), ("CANN@RUNTIME", True), ("HOST@pinned", True),
    ],
)  # fmt: skip
def test_a_known_owner(owner: str, expected: bool) -> None:  # noqa: FBT001
    """Neither the pool alone, nor that operators made it."""
    assert is_known_owner(owner) is expected

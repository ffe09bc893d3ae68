"""Where a virtual environment has its packages, with every Python that is supported."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest

from tests.lanes.prepare import packages_folder


@pytest.mark.parametrize(
    "left_out", [(), ("venv",)], ids=["this Python", "Python 3.10, which does not name the scheme"]
)
def test_the_packages_of_this_environment(left_out: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is where pip has put those that run here."""
    schemes = tuple(name for name in sysconfig.get_scheme_names() if name not in left_out)
    monkeypatch.setattr(sysconfig, "get_scheme_names", lambda: schemes)
    for name in left_out:
        monkeypatch.delitem(sysconfig._INSTALL_SCHEMES, name)  # type: ignore[attr-defined]
    assert packages_folder(Path(sys.prefix)) == Path(pytest.__file__).parents[1]

"""Settings that a process can choose once: where its log lies, how large it gets, the format of its results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msmemscope import _native
from msmemscope.configuration import OPTION_BY_KEYWORD

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msmemscope.configuration import Config

_MADE_WITH = ("output", "maximum_size", "session", "launch_directory", "on_command_line", "utc_offset")
"""Settings that the log of a process is made with: they can be chosen until it is there."""
_OF_RESULTS = ("data_format",)
"""Settings that the results are written by, after the process has ended."""
_FIELD_OF_OPTION = {"max_size": "maximum_size"}
"""Fields of `Config` that are called otherwise than their option."""


class SettingsOnce:
    """Which of these settings the program has chosen."""

    def __init__(self) -> None:
        self._chosen: set[str] = set()

    def what_stays(self, before: Config, config: Config, keywords: Mapping[str, object]) -> dict[str, Any]:
        """Return the settings that stay as they were, by field; a warning for each that was to be another.

        Args:
            before: The settings in force.
            config: The settings that the program wants.
            keywords: The settings that it has given, None for not given.
        """
        is_open = bool(_native.capture_directory())
        given = {_field_of(keyword): keyword for keyword, value in keywords.items() if value is not None}
        stays: dict[str, Any] = {}
        for name in (*_MADE_WITH, *_OF_RESULTS):
            keyword = given.get(name)
            is_typed = keyword is not None and OPTION_BY_KEYWORD[keyword].name in before.on_command_line
            is_too_late = name in self._chosen or (is_open and name in _MADE_WITH)
            if keyword is not None and not is_typed and not is_too_late:
                self._chosen.add(name)
                continue
            stays[name] = getattr(before, name)
            if keyword is not None and getattr(config, name) != stays[name]:
                reason = (
                    "the command line has chosen it"
                    if is_typed
                    else "it can be set only once in a process, before anything is recorded"
                )
                shown = getattr(stays[name], "value", stays[name])
                _native.warn(f"config: {keyword} stays {str(shown)!r}: {reason}")
        return stays


def _field_of(keyword: str) -> str:
    """The field of `Config` that a keyword sets, of those that can be set once."""
    name = OPTION_BY_KEYWORD[keyword].name.replace("-", "_")
    return _FIELD_OF_OPTION.get(name, name)

"""Texts of call sites and stacks of a process that still runs, each found once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.formats.event_log.stack_texts import StackTexts
from msmemscope.formats.event_log.symbols import LATEST, Symbolizer
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.recording import RECORDING_BLOCK_SCHEMA, Recording
from msmemscope.recording.schema import EVENT_SCHEMA, STRING_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from msmemscope.formats.event_log.followed_log import FollowedLog

_MOST_NEW: Final = 1 << 12
"""Stacks that are described in one go; others have to wait for the next one."""
_MOST_NEW_NATIVE: Final = 1 << 6
"""Of these, native ones: symbols of large libraries take long."""
WAITING: Final = "(not looked up yet)"
"""Stands for the call site of a stack that has to wait."""


class SiteTexts:
    """Looks call sites up.

    Args:
        log: Whose definitions are known.
    """

    def __init__(self, log: FollowedLog) -> None:
        """Start with nothing looked up."""
        self._log = log
        self._module_count = -1
        self._texts = StackTexts(log.definitions, Symbolizer(()))
        self._known = self._described(pl.DataFrame(schema=dict.fromkeys(STACK_COLUMNS, pl.UInt32())))

    def sites(self, stacks: pl.DataFrame) -> pl.DataFrame:
        """Return the call sites of some stacks.

        Args:
            stacks: STACK_COLUMNS, each once; those that matter most first.

        Returns:
            A row per stack: STACK_COLUMNS, `site` and `site_path`, see `recording.call_sites`. WAITING for some, if many are
            new.
        """
        new = stacks.select(STACK_COLUMNS).join(self._known, on=STACK_COLUMNS, how="anti", maintain_order="left")
        if not new.is_empty():
            is_native = (pl.col("python_stack_id") == 0) & (pl.col("native_stack_id") != 0)
            new = pl.concat([new.filter(~is_native).head(_MOST_NEW), new.filter(is_native).head(_MOST_NEW_NATIVE)])
            self._known = pl.concat([self._known, self._described(new)])
        return (
            stacks.select(STACK_COLUMNS)
            .join(self._known, on=STACK_COLUMNS, how="left", maintain_order="left")
            .with_columns(pl.col("site", "site_path").fill_null(WAITING))
        )

    def stack(self, python_stack_id: int, native_stack_id: int) -> tuple[str, ...]:
        """Return the frames of a stack, innermost first: Python's, or native ones where there are none."""
        return tuple((self._texts.python(python_stack_id) or self._native(native_stack_id)).splitlines())

    def _described(self, stacks: pl.DataFrame) -> pl.DataFrame:
        """Return the call sites of new stacks; native frames are looked up only where there are no Python frames."""
        is_native = stacks["python_stack_id"] == 0
        names = self._log.strings
        recording = Recording(
            source=str(self._log.directory),
            form="event log",
            process_id=self._log.header.process_id,
            events=EVENT_SCHEMA.to_frame(),
            blocks=RECORDING_BLOCK_SCHEMA.to_frame(),
            strings=_texts(stacks["name_id"], lambda name_id: names.get(name_id, "")),
            python_stacks=_texts(stacks["python_stack_id"], self._texts.python),
            native_stacks=_texts(stacks.filter(is_native)["native_stack_id"], self._native),
            coverage=(),
            problems=(),
        )
        return call_sites(recording, stacks).select(*STACK_COLUMNS, "site", "site_path")

    def _native(self, stack_id: int) -> str:
        if stack_id == 0:
            return ""
        modules = self._log.definitions.modules
        if len(modules) != self._module_count:
            self._module_count = len(modules)
            self._texts = StackTexts(self._log.definitions, Symbolizer(modules))
        return self._texts.native(stack_id, LATEST)


def _texts(ids: pl.Series, text_of: Callable[[int], str]) -> pl.DataFrame:
    used: Iterable[int] = [number for number in ids.unique().to_list() if number]
    return pl.DataFrame([(number, text_of(number)) for number in used], STRING_SCHEMA, orient="row")

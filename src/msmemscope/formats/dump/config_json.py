"""config.json: the settings of a run, in the form that MindStudio's tools know."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from msmemscope.configuration import DEFAULT_OOM_TOP, Analysis, CollectionItem, CollectMode, DataFormat, Level, LogLevel
from msmemscope.configuration.watching import window_of
from msmemscope.formats.dump.naming import CONFIG_FILE
from msmemscope.model.place import Place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from enum import Enum
    from pathlib import Path

    from msmemscope.configuration import Config

_EVENT_BITS: Final[Sequence[Enum]] = (
    CollectionItem.ALLOC, CollectionItem.FREE, CollectionItem.LAUNCH, CollectionItem.ACCESS, CollectionItem.TRACEBACK,
    CollectionItem.ALLOCATOR,
)  # fmt: skip
_LEVEL_BITS: Final[Sequence[Enum]] = (Level.OP, Level.KERNEL)
_ANALYSIS_BITS: Final[Sequence[Enum]] = (Analysis.LEAKS, Analysis.DECOMPOSE, Analysis.INEFFICIENT, Analysis.OOM)
_LOG_LEVELS: Final = {LogLevel.DEBUG: 0, LogLevel.INFO: 0, LogLevel.WARN: 1, LogLevel.ERROR: 2}
_STEP_LIST_LENGTH: Final = 5
_NPU_SLOTS: Final = 32
_OUTPUT_ID_UNSET: Final = 0xFFFFFFFF
_MOST_BYTES: Final = 1 << 20
"""Of a config.json that is read."""


def config_text(settings: Config, place: Place) -> str:
    """Return the content of config.json: keys in alphabetical order, four blanks of indentation.

    Bit masks have the bits of their kind in the order alloc, free, launch, access, traceback, allocator; op, kernel;
    leaks, decompose, inefficient, oom. `settings` repeats each mask in words. `place` is there for a process of a
    distributed job.
    """
    return json.dumps(config_content(settings, place), indent=4, sort_keys=True, ensure_ascii=False) + "\n"


def place_beside(dump: Path) -> Place:
    """Return the place that the config.json of a dump file names; an empty one if there is none, or it says nothing.

    Args:
        dump: `{folder}/device_{id}/dump/{name}`.
    """
    try:
        folder = dump.absolute().parents[2]
        with (folder / CONFIG_FILE).open("rb") as file:
            content = json.loads(file.read(_MOST_BYTES))
    except (OSError, IndexError, ValueError, RecursionError):  # other tools write none, or what is no JSON
        return Place()
    return Place.from_content(content.get("place")) if isinstance(content, dict) else Place()


def config_content(settings: Config, place: Place) -> Mapping[str, object]:
    """Return the content of config.json before it is written down."""
    all_npus = "npu" in settings.devices
    slots = [int(device.partition(":")[2]) for device in settings.devices if device.startswith("npu:")]
    steps = [*settings.steps, *[0] * _STEP_LIST_LENGTH][:_STEP_LIST_LENGTH]
    return {
        "SelectedStepList": {"stepCount": len(settings.steps), "stepIdList": steps},
        "analysisType": _mask(settings.analysis, _ANALYSIS_BITS),
        "cStackDepth": settings.native_stack_depth,
        "collectAllNpu": all_npus,
        "collectCpu": "cpu" in settings.devices,
        "collectMode": int(settings.collect_mode == CollectMode.DEFERRED),
        "dataFormat": int(settings.data_format == DataFormat.DB),
        "dumpEventType": _mask(settings.events - settings.unwritten, _EVENT_BITS),
        "enableCStack": settings.native_stack,
        "enableCompare": False,
        "enablePyStack": settings.python_stack,
        "eventType": _mask(settings.events, _EVENT_BITS),
        "isEffective": True,
        "levelType": _mask(settings.level, _LEVEL_BITS),
        "logLevel": _LOG_LEVELS[settings.log_level],
        "oomTopK": settings.oom_top or DEFAULT_OOM_TOP,
        "npuSlots": (1 << _NPU_SLOTS) - 1 if all_npus else sum(1 << slot for slot in set(slots)),
        "outputDir": str(settings.output),
        **({"place": place.content()} if place else {}),
        "pyStackDepth": settings.python_stack_depth,
        "settings": dict(line.partition("=")[::2] for line in settings.to_settings_text().split("\n")),
        "watchConfig": _watch_content(settings.watch),
    }


def _watch_content(watch: str) -> Mapping[str, object]:
    """Return what `--watch` says. Automatic watching has no operators; `settings` has its word."""
    window = window_of(watch)
    return {
        "end": window.end,
        "fullContent": window.is_full,
        "isWatched": bool(watch),
        "outputId": _OUTPUT_ID_UNSET if window.output is None else window.output,
        "start": window.start,
    }


def _mask(chosen: AbstractSet[Enum], bits: Sequence[Enum]) -> int:
    return sum(1 << bit for bit, member in enumerate(bits) if member in chosen)

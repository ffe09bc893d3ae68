"""The work of a run: the lines of `--log-level=info`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msmemscope.configuration import CollectionItem, CollectMode, cann_directory
from msmemscope.configuration.settings import values_of
from msmemscope.launch import messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from msmemscope.configuration import Config
    from msmemscope.reports.run_summary import ProcessSummary


def tell_begin(program: str, config: Config, library: Path, variables: Mapping[str, str]) -> None:
    """Say which program is about to be observed, and by which means.

    Args:
        program: Path of the executable.
        config: The settings that were asked for.
        library: The native library.
        variables: Those that the program gets.
    """
    messages.information(f"native library: {library}")
    messages.information(f"preloaded into the program: {variables.get('LD_PRELOAD') or 'nothing'}")
    if any(device.startswith("npu") for device in config.devices):
        messages.information(f"CANN: {cann_directory() or 'none is set up here'}")
    tell_settings(config)
    begin = "at its start" if config.collect_mode is CollectMode.IMMEDIATE else "when it calls msmemscope.start()"
    messages.information(f"runs {program}; collection begins {begin}")


def tell_settings(config: Config) -> None:
    """Say which sources were to be observed.

    Args:
        config: The settings that were asked for.
    """
    items = values_of(item for item in CollectionItem if item in config.events)
    messages.information(f"observed devices: {', '.join(config.devices)}; events: {items or 'none'}")
    levels, analyses = (", ".join(sorted(one.value for one in chosen)) for chosen in (config.level, config.analysis))
    messages.information(f"level: {levels or 'none'}; analyses: {analyses or 'none'}")
    if config.steps:
        messages.information(f"steps: {', '.join(map(str, config.steps))}")


def tell_end(processes: Iterable[ProcessSummary]) -> None:
    """Say which sources were found in each process, and where its results are."""
    for process in processes:
        name = f"process {process.process_id}"
        messages.information(f"{name}: event log in {os.path.join(process.directory, 'event_log')}")  # noqa: PTH118 - text
        for source in process.observed:
            messages.information(f"{name}: observed {source}")
        for source in process.unobserved:
            messages.information(f"{name}: not observed {source}")
        messages.information(f"{name}: {len(process.files)} files written")

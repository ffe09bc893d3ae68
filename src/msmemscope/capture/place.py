"""Notes on the place of this process in a distributed job, and its software. Nothing new is imported or asked for them."""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import Any

from msmemscope import _native
from msmemscope.capture.framework_roles import role_of_frameworks
from msmemscope.capture.launcher_environment import node_name, place_in_environment
from msmemscope.capture.parallel_axes import coordinates_of_frameworks
from msmemscope.model.place import SOFTWARE, Place


class PlaceNotes:
    """The notes of this process about its place: each fact once, and again when it changes."""

    def __init__(self) -> None:
        self._process_id = 0
        self._noted: dict[str, str] = {}
        self._asked = 0
        self._has_failed = False

    def step_ended(self, role: str) -> None:
        """Look after steps 1, 2, 4, 8 ...: groups are made early, and a look costs more than a step may.

        Workers that are forked leave without an end that we see, so the end of the process is not enough.
        """
        if self._process_id != os.getpid():
            self._begin_anew()
        self._asked += 1
        if self._asked & (self._asked - 1) == 0:
            self.look(role)

    def look(self, role: str) -> None:
        """Note what has become known since the last time; never raises.

        Args:
            role: The user's name for the role of the process; empty if it has none.
        """
        try:
            if self._process_id != os.getpid():
                self._begin_anew()
            for key, text in {**self._place(role).to_facts(), **_software()}.items():
                if self._noted.get(key) != text:
                    _native.note_fact(key, text)
                    self._noted[key] = text
        except Exception as error:  # noqa: BLE001 - the program goes on, whatever its environment is like
            self._note_failure(f"{type(error).__name__}: {error}")

    def _begin_anew(self) -> None:
        """A process that is forked has a rank and an event log of its own."""
        self._process_id = os.getpid()
        self._noted = {}
        self._asked = 0
        self._has_failed = False

    def _place(self, role: str) -> Place:
        place = place_in_environment(os.environ)
        rank, world_size = _rank_and_size_of_torch()
        if rank is not None and rank != place.rank:
            # The numbers of the launcher count something else: hosts, or the processes of another job.
            place = Place(rank=rank, role=place.role)
        axes = coordinates_of_frameworks(self._note_failure)
        place = dataclasses.replace(
            place,
            world_size=place.world_size if world_size is None else world_size,
            role=role or role_of_frameworks(self._note_failure) or place.role,
            coordinates={axis: one.position for axis, one in axes.items()},
            axis_sizes={axis: one.size for axis, one in axes.items()},
        )
        return dataclasses.replace(place, node=node_name(os.environ)) if place else place

    def _note_failure(self, text: str) -> None:
        if not self._has_failed:
            self._has_failed = True
            _native.note_fact("unobserved.place", text)


def _software() -> dict[str, str]:
    """Return the versions of Python and of the frameworks that are loaded, as facts."""
    versions: dict[str, Any] = {"python": sys.version.partition(" ")[0]}
    for name in ("torch", "torch_npu"):
        if name in sys.modules:
            # A module that is loaded at its first use is not used by us.
            versions[name] = object.__getattribute__(sys.modules[name], "__dict__").get("__version__")
    return {f"{SOFTWARE}{name}": version for name, version in versions.items() if isinstance(version, str)}


def _rank_and_size_of_torch() -> tuple[int | None, int | None]:
    """Return the rank and size that the program gave to torch.distributed; None if it did not, or has left it."""
    distributed = sys.modules.get("torch.distributed")
    try:
        is_known = distributed is not None and distributed.is_available() and distributed.is_initialized()
        return (distributed.get_rank(), distributed.get_world_size()) if distributed and is_known else (None, None)
    except Exception:  # noqa: BLE001 - torch is being imported, or left, or is not torch: the program's step goes on
        return None, None


place_notes = PlaceNotes()

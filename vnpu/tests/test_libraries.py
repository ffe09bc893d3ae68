"""The emulated libraries as files: what they want of the system, and the channels on which nobody sends."""

from __future__ import annotations

import ctypes
import re
import threading
import time

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from virtual_npu.libraries import cann_folder

NEWEST = {"GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11)}
"""Of GCC 8, as manylinux_2_28 has it."""
QUEUE_EMPTY = 207013


def test_no_library_wants_a_newer_libstdcxx_than_wheels_may() -> None:
    """The wheel could not be made; the C library's own versions are those that it is linked to."""
    newer = []
    for library in sorted((cann_folder() / "lib64").glob("*.so*")):
        with library.open("rb") as file:
            for section in ELFFile(file).iter_sections():
                if isinstance(section, GNUVerNeedSection):
                    names = [version.name for _, versions in section.iter_versions() for version in versions]
                    newer += [(library.name, name) for name in names if is_newer(name)]
    assert newer == []


def is_newer(version: str) -> bool:
    """Whether a version such as GLIBCXX_3.4.30 is newer than what is allowed."""
    found = re.fullmatch(r"(GLIBCXX|CXXABI)_([\d.]+)", version)
    return found is not None and tuple(map(int, found[2].split("."))) > NEWEST[found[1]]


def test_a_channel_is_empty_after_the_time_that_was_asked_for() -> None:
    """And at once where it is stopped, also for those who wait for ever."""
    library = ctypes.CDLL(str(cann_folder() / "lib64" / "libacl_tdt_channel.so"))
    library.acltdtCreateChannel.restype = ctypes.c_void_p
    address = library.acltdtCreateChannel(0, b"printing")
    assert address
    channel = ctypes.c_void_p(address)
    begin = time.monotonic()
    assert library.acltdtReceiveTensor(channel, None, 50) == QUEUE_EMPTY
    assert time.monotonic() - begin >= 0.05
    received: list[int] = []
    receiver = threading.Thread(target=lambda: received.append(library.acltdtReceiveTensor(channel, None, -1)))
    receiver.start()
    receiver.join(timeout=0.05)
    assert receiver.is_alive()
    assert library.acltdtStopChannel(channel) == 0
    receiver.join(timeout=30)
    assert received == [QUEUE_EMPTY]
    assert library.acltdtDestroyChannel(channel) == 0

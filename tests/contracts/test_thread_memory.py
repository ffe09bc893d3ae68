"""Memory of threads that the native core has: a library that is loaded late gets little of it."""

from __future__ import annotations

from elftools.elf.elffile import ELFFile

from msmemscope.configuration import Config
from msmemscope.launch.preload import core_library, native_directory

OPTIONAL_STATIC_TLS = 512
"""Bytes that glibc keeps for all libraries that come later (glibc.rtld.optional_static_tls)."""


def test_the_core_can_be_loaded_late() -> None:
    """Its variables are of the fast kind, and `import msmemscope` loads it into a program that runs."""
    package = Config()
    path = core_library(Config(native_directory=native_directory(package.package)))
    assert path is not None
    with path.open("rb") as file:
        sizes = [segment["p_memsz"] for segment in ELFFile(file).iter_segments("PT_TLS")]
    assert 0 < sum(sizes) <= OPTIONAL_STATIC_TLS

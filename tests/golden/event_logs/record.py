"""Records a golden event log with the msmemscope on PATH: python tests/golden/event_logs/record.py LIBRARY VERSION.

LIBRARY is `tests/target_programs/fake_libc10.cpp`, built as libc10.so. Beside the log lies the dump that the same tool
wrote of it. Paths of the machine are replaced by others of the same length.
"""

from __future__ import annotations

import ctypes
import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

STEPS = 400
HERE = Path(__file__).resolve()


def allocate(library_path: str) -> None:
    """The program: blocks of a step, and one of each step that stays; a row with attributes at the end."""
    import msmemscope

    library = ctypes.CDLL(library_path)
    library.fake_tensor_allocate.restype = ctypes.c_void_p
    library.fake_tensor_allocate.argtypes = [ctypes.c_size_t]
    library.fake_tensor_free.argtypes = [ctypes.c_void_p]
    for step in range(STEPS):
        block = library.fake_tensor_allocate(4096 * (step + 1))
        library.fake_tensor_allocate(100)
        library.fake_tensor_free(block)
        msmemscope.step()
    msmemscope.take_snapshot(name="end")  # in logs since version 6


def replaced(content: bytes, places: list[Path]) -> bytes:
    """Without the paths of this machine."""
    for place in places:
        path = bytes(place)
        content = content.replace(path, (b"/opt/" + b"x" * len(path))[: len(path)])
    return content


def record(library_path: str, version: str) -> None:
    """Writes `version_{version}.tar.gz` beside this file."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out"
        command = ["msmemscope", "--device=cpu", f"--output={output}", "--", "python", str(HERE), library_path]
        subprocess.run(command, check=True)
        (capture,) = output.glob("msmemscope_*")
        places = [Path(folder), Path(library_path).parent, HERE.parents[3]]
        with tarfile.open(HERE.with_name(f"version_{version}.tar.gz"), "w:gz") as archive:
            for path in [*sorted((capture / "event_log").iterdir()), *capture.glob("device_cpu/dump/*.csv")]:
                name = "expected.csv" if path.suffix == ".csv" else f"event_log/{path.name}"
                content = replaced(path.read_bytes(), places)
                entry = tarfile.TarInfo(f"{capture.name}/{name}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        allocate(sys.argv[1])
    else:
        record(sys.argv[1], sys.argv[2])

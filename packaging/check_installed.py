"""Whether an installed msmemscope works: no source tree, no test tool, nothing but what a user has.

Observes programs with and without Python, reads what was recorded, and prints how long an import takes.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

COMMAND = Path(sysconfig.get_path("scripts")) / "msmemscope"
REPEATS = 5

# The calls of torch's allocator that are observed are posix_memalign and free, as its library makes them. A Python
# program without torch has none; what it tells us are its marks.
PROGRAM = """
import msmemscope
msmemscope.start()
msmemscope.step()
print("the program ran")
msmemscope.stop()
"""


def output_of(*command: str | Path, folder: Path) -> str:
    """What a command printed on stdout.

    Raises:
        SystemExit: It failed; its own words are in the message.
    """
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    if run.returncode != 0:
        raise SystemExit(f"{command} ended with {run.returncode}\n{run.stdout}{run.stderr}")
    return run.stdout


def import_milliseconds(folder: Path) -> float:
    """What `import msmemscope` adds to the start of an interpreter: the median of some."""

    def seconds(code: str) -> float:
        begin = time.perf_counter()
        output_of(sys.executable, "-c", code, folder=folder)
        return time.perf_counter() - begin

    added = [seconds("import msmemscope") - seconds("pass") for _ in range(REPEATS)]
    return statistics.median(added) * 1000


def expect(condition: object, what: str) -> None:
    """End with what is wrong.

    Raises:
        SystemExit: It is wrong.
    """
    if not condition:
        raise SystemExit(f"check_installed: {what}")


def main() -> None:
    """Check, and print one line."""
    version = importlib.metadata.version("msmemscope")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        expect(version in output_of(COMMAND, "--version", folder=folder), "--version says another version")
        expect("usage" in output_of(COMMAND, "--help", folder=folder).lower(), "--help has no usage")
        output_of(COMMAND, "--device=cpu", "--", "/bin/true", folder=folder)
        expect(
            "the program ran" in output_of(COMMAND, "--device=cpu", sys.executable, "-c", PROGRAM, folder=folder),
            "the program's output is missing",
        )
        captures = list(folder.glob("memscopeDumpResults/*/event_log"))
        expect(captures, "nothing was recorded")
        answer = output_of(COMMAND, "stats", "--json", folder=folder)
        expect(isinstance(json.loads(answer), (dict, list)), "stats --json is no JSON")
        extension = importlib.util.find_spec("msmemscope._native")
        expect(extension is not None and extension.origin is not None, "there is no extension")
        print(
            f"msmemscope {version} on Python {sys.version.split()[0]}: works,"
            f" import {import_milliseconds(folder):.1f} ms"
        )


if __name__ == "__main__":
    main()

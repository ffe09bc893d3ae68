"""Threads that allocate and free at the same time, without Python in between: nanoseconds of a pair, of all together.

With as many processors as threads that is the time of one pair divided by the threads, as long as none waits for another.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import threading
import time
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".cpp")


def main() -> None:
    """Measure, and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=1_000_000, help="of all threads together")
    arguments = parser.parse_args()
    library_path = Path("libc10.so").absolute()
    subprocess.run(["c++", "-O2", "-fPIC", "-shared", "-o", library_path, SOURCE], check=True)
    allocate_and_free = ctypes.CDLL(str(library_path)).allocate_and_free  # lets other threads of Python run
    allocate_and_free.argtypes = [ctypes.c_size_t]
    allocate_and_free(1000)
    share = arguments.pairs // arguments.threads
    threads = [threading.Thread(target=allocate_and_free, args=(share,)) for _ in range(arguments.threads)]
    begin, begin_of_processor = time.perf_counter_ns(), time.process_time_ns()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pairs = share * arguments.threads
    elapsed = time.perf_counter_ns() - begin
    processor = time.process_time_ns() - begin_of_processor
    print(
        json.dumps(
            {"value": elapsed / pairs, "processor ns": processor / pairs, "million events/s": 2e3 * pairs / elapsed}
        )
    )


if __name__ == "__main__":
    main()

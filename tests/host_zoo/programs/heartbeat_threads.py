# kind: "host memory"
# cause: "Each client gets a thread that never ends, and each thread has touched much of its stack."
# what: "threads"
# holder: ["heartbeats"]
# mebibytes: [76, 103]
import ctypes
import subprocess
import tempfile
import threading
import time

SCRATCH_BYTES = 400 * 1024
SOURCE = """
#include <string.h>
int checksum(int seed) {
    volatile char scratch[400 * 1024];
    memset((void*)scratch, seed, sizeof scratch);
    return scratch[seed] + scratch[sizeof scratch - 1];
}
"""


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


def build(folder):
    command = ["cc", "-O1", "-shared", "-fPIC", "-x", "c", "-", "-o", f"{folder}/checksum.so"]
    subprocess.run(command, input=SOURCE, text=True, check=True)
    return ctypes.CDLL(f"{folder}/checksum.so")


class HeartbeatServer:
    def __init__(self, library):
        self.library = library
        self.heartbeats, self.stop = [], threading.Event()

    def beat(self, number):
        self.library.checksum(number % 100)  # BLAME
        self.stop.wait()

    def connect(self, number):
        thread = threading.Thread(target=self.beat, args=(number,), daemon=True)
        thread.start()  # BLAME
        self.heartbeats.append(thread)  # BLAME


def main():
    with tempfile.TemporaryDirectory() as folder:
        server = HeartbeatServer(build(folder))
    start = resident()
    for number in range(230):
        server.connect(number)
        time.sleep(0.012)
    kept = len(server.heartbeats) * SCRATCH_BYTES / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}", flush=True)


main()

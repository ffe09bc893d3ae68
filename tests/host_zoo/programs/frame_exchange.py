# kind: "host memory"
# cause: "Each frame gets a segment of shared memory of its own, which nobody closes or unlinks."
# what: "shared memory"
# holder: ["segments"]
# mebibytes: [93, 126]
# fixed: "Each frame gets a segment of shared memory of its own, which is unlinked once it was read."
import sys
import time
from multiprocessing import shared_memory

IS_FIXED = "fixed" in sys.argv

FRAME_BYTES = 160 * 1024


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class FrameExchange:
    def __init__(self):
        self.segments = {}

    def publish(self, number):
        segment = shared_memory.SharedMemory(create=True, size=FRAME_BYTES)  # BLAME
        segment.buf[:] = bytes([number % 256]) * FRAME_BYTES  # BLAME
        self.segments[segment.name] = segment  # BLAME
        return segment.name

    def read(self, name):
        segment = self.segments.pop(name)
        brightest = max(segment.buf[:100])
        segment.close()
        segment.unlink()
        return brightest


def main():
    exchange = FrameExchange()
    first = exchange.publish(0)
    if IS_FIXED:
        exchange.read(first)
    start = resident()
    for number in range(700):
        name = exchange.publish(number)
        if IS_FIXED:
            exchange.read(name)
        time.sleep(0.003)
    kept = max(len(exchange.segments) - 1, 0) * FRAME_BYTES / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()

# kind: "healthy"
# cause: "Each frame gets a segment of shared memory of its own, which is unlinked once it was read."
# what: "shared memory"
# holder: []
# mebibytes: []
import time
from multiprocessing import shared_memory

FRAME_BYTES = 160 * 1024


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class FrameExchange:
    def __init__(self):
        self.segments = {}

    def publish(self, number):
        segment = shared_memory.SharedMemory(create=True, size=FRAME_BYTES)
        segment.buf[:] = bytes([number % 256]) * FRAME_BYTES
        self.segments[segment.name] = segment
        return segment.name

    def read(self, name):
        segment = self.segments.pop(name)
        brightest = max(segment.buf[:100])
        segment.close()
        segment.unlink()
        return brightest


def main():
    exchange = FrameExchange()
    exchange.read(exchange.publish(0))
    start = resident()
    brightest = 0
    for number in range(700):
        brightest = max(brightest, exchange.read(exchange.publish(number)))
        time.sleep(0.004)
    print(f"the brightest point is {brightest}")
    print(f"truth: {len(exchange.segments):.1f} resident: {resident() - start:.1f}")


main()

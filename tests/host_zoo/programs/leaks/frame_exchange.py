# kind: "host memory"
# cause: "Each frame gets a segment of shared memory of its own, which nobody closes or unlinks."
# what: "shared memory"
# holder: ["segments"]
# mebibytes: [93, 126]
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
        segment = shared_memory.SharedMemory(create=True, size=FRAME_BYTES)  # BLAME
        segment.buf[:] = bytes([number % 256]) * FRAME_BYTES  # BLAME
        self.segments[segment.name] = segment  # BLAME
        return segment.name


def main():
    exchange = FrameExchange()
    exchange.publish(0)
    start = resident()
    for number in range(700):
        exchange.publish(number)
        time.sleep(0.003)
    kept = (len(exchange.segments) - 1) * FRAME_BYTES / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()

# kind: "host memory"
# cause: "Buffers of 16 threads are cut down to their headers; longer ones do not fit into the gaps, so each arena grows."
# what: "kept heap"
# holder: []
# mebibytes: [95, 129]
# fixed: "Buffers of 16 threads become longer during the day, and only copies of their headers stay."
import queue
import sys
import threading
import time

import torch

torch.set_num_threads(1)
IS_FIXED = "fixed" in sys.argv
HEADER_BYTES = 1000


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Receiver(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.incoming, self.done = queue.Queue(), queue.Queue()
        self.headers = []
        self.cut_bytes = 0

    def run(self):
        while (size := self.incoming.get()) is not None:
            buffer = bytearray(b"x") * size  # BLAME
            if self.headers and not IS_FIXED:
                self.cut_bytes += len(self.headers[-1]) - HEADER_BYTES
                del self.headers[-1][HEADER_BYTES:]  # BLAME
            self.headers.append(bytes(buffer[:HEADER_BYTES]) if IS_FIXED else buffer)
            self.done.put(size)


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    receivers = [Receiver() for _ in range(16)]
    for receiver in receivers:
        receiver.start()
    model(torch.ones(1, 16))
    start = resident()
    for number in range(1920):
        receiver = receivers[number % 16]
        receiver.incoming.put(40_000 + 24 * number)  # bodies become longer during the day
        model(torch.full((1, 16), receiver.done.get() / 100_000))
        time.sleep(0.0005)
    kept = sum(receiver.cut_bytes for receiver in receivers) / 2**20
    if IS_FIXED:
        kept = sum(map(len, (header for receiver in receivers for header in receiver.headers))) / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")
    for receiver in receivers:
        receiver.incoming.put(None)
        receiver.join()


main()

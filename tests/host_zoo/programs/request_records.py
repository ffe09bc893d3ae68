# kind: "host memory"
# cause: "A list keeps a record of each request, to which four lines add a quarter each."
# what: "Python objects"
# holder: ["records"]
# mebibytes: [72, 97]
# fixed: "A deque keeps the records of the last hundred requests, to which four lines add a quarter each."
import sys
import time
from collections import deque

IS_FIXED = "fixed" in sys.argv


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Proxy:
    def __init__(self):
        self.records = deque(maxlen=100) if IS_FIXED else []

    def forward(self, number):
        record = {
            "address": f"10.0.{number % 256}.1, " * 600,  # BLAME
            "headers": f"Accept-{number:06}: any;".encode() * 420,  # BLAME
            "path": [f"/{number}/{place}".zfill(60) for place in range(80)],  # BLAME
            "times": [number + place / 7 for place in range(230)],  # BLAME
        }
        self.records.append(record)  # BLAME
        return len(record["path"])

    def size(self):
        texts = sum(len(record["address"]) + len(record["headers"]) for record in self.records)
        return texts + len(self.records) * (80 * (112 + 9) + 230 * (32 + 9))


def main():
    proxy = Proxy()
    start = resident()
    parts = 0
    for number in range(2600):
        parts += proxy.forward(number)
        time.sleep(0.0009)
    print(f"{parts} parts of paths")
    print(f"truth: {proxy.size() / 2**20:.1f} resident: {resident() - start:.1f}")


main()

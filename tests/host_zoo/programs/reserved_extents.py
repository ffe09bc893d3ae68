# kind: "host memory"
# cause: "A columnar library maps an extent for each result, as reserved memory that it writes at once, and keeps all results."
# what: "mapped memory"
# holder: ["extents"]
# mebibytes: [85, 115]
# fixed: "Each extent is unmapped when forty newer ones are there."
import mmap
import sys
import time

import torch

torch.set_num_threads(1)
IS_FIXED = "fixed" in sys.argv
EXTENT_BYTES = 256 * 1024
RESERVED = (
    mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000
)  # MAP_NORESERVE, as jemalloc maps where the kernel overcommits


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Results:
    def __init__(self):
        self.extents = []

    def add(self, number):
        if IS_FIXED and len(self.extents) == 40:
            self.extents.pop(0).close()
        extent = mmap.mmap(-1, EXTENT_BYTES, flags=RESERVED)  # BLAME
        extent.write(bytes([number % 256]) * EXTENT_BYTES)  # BLAME
        self.extents.append(extent)  # BLAME
        return extent


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    results = Results()
    model(torch.ones(1, 16))
    start = resident()
    for number in range(400):
        extent = results.add(number)
        model(torch.full((1, 16), float(extent[0])))
        time.sleep(0.003)
    kept = sum(len(extent) for extent in results.extents) / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()

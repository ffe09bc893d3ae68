# kind: "host memory"
# cause: "Each request maps anonymous pages for its cache entries, and the pool never unmaps them."
# what: "mapped memory"
# holder: ["pages"]
# mebibytes: [85, 115]
# fixed: "Each request maps anonymous pages, and the pool unmaps those of the oldest of sixty requests."
import mmap
import sys
import time

import torch

torch.set_num_threads(1)
IS_FIXED = "fixed" in sys.argv
PAGE_BYTES = 64 * 1024


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class PagePool:
    def __init__(self):
        self.pages = []

    def allocate(self, number):
        if IS_FIXED and len(self.pages) == 60:
            self.pages.pop(0).close()
        page = mmap.mmap(-1, PAGE_BYTES)  # BLAME
        page.write(bytes([number % 256]) * PAGE_BYTES)  # BLAME
        self.pages.append(page)  # BLAME
        return page


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    pool = PagePool()
    model(torch.ones(1, 16))
    start = resident()
    for number in range(1600):
        page = pool.allocate(number)
        model(torch.full((1, 16), float(page[0])))
        time.sleep(0.0008)
    kept = sum(len(page) for page in pool.pages) / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()

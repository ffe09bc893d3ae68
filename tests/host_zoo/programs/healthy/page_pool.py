# kind: "healthy"
# cause: "Each request maps anonymous pages, and the pool unmaps those of the oldest of sixty requests."
# what: "mapped memory"
# holder: []
# mebibytes: []
import mmap
import time

import torch

torch.set_num_threads(1)
PAGE_BYTES = 64 * 1024


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class PagePool:
    def __init__(self, most_pages=60):
        self.pages = []
        self.most_pages = most_pages

    def allocate(self, number):
        if len(self.pages) == self.most_pages:
            self.pages.pop(0).close()
        page = mmap.mmap(-1, PAGE_BYTES)
        page.write(bytes([number % 256]) * PAGE_BYTES)
        self.pages.append(page)
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

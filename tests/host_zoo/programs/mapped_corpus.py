# kind: "healthy"
# cause: "A large file is mapped and read bit by bit: its pages are the page cache of the system."
# what: "mapped memory"
# holder: []
# mebibytes: []
import mmap
import tempfile
import time

import torch

torch.set_num_threads(1)
PART_BYTES = 64 * 1024
PARTS = 2000


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


def make_corpus(file):
    for number in range(PARTS):
        file.write(b"%07d\n" % number * (PART_BYTES // 8))
    file.flush()


class Corpus:
    def __init__(self, file):
        self.mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def part(self, number):
        return self.mapped[number * PART_BYTES : (number + 1) * PART_BYTES]


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    model(torch.ones(1, 16))
    with tempfile.NamedTemporaryFile() as file:
        make_corpus(file)
        corpus = Corpus(file)
        start = resident()
        for number in range(PARTS):
            lines = corpus.part(number).count(b"\n")
            model(torch.full((1, 16), lines / 8192))
            time.sleep(0.0006)
        print(f"truth: 0.0 resident: {resident() - start:.1f}")


main()

# kind: "healthy"
# cause: "A cache of 700 pages is full in the first fifth of the run, and evicts a random page for each new one then."
# what: "Python objects"
# holder: []
# mebibytes: []
import random
import time


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class PageCache:
    def __init__(self, most_pages=700):
        self.pages = {}
        self.most_pages = most_pages
        self.chooser = random.Random(11)

    def get(self, address):
        if address not in self.pages:
            if len(self.pages) == self.most_pages:
                del self.pages[self.chooser.choice(list(self.pages))]
            self.pages[address] = self.download(address)
        return self.pages[address]

    @staticmethod
    def download(address):
        return b"<p>%d</p>" % address * 7000


def main():
    cache = PageCache()
    start = resident()
    longest = 0
    for number in range(3400):
        longest = max(longest, len(cache.get(100_000 + number)))
        time.sleep(0.0007)
    kept = sum(map(len, cache.pages.values())) / 2**20
    print(f"the longest page has {longest} bytes")
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()

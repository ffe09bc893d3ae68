# kind: "healthy"
# cause: "A dict remembers the digests of the last 20,000 lines, to drop duplicates that are near each other."
# what: "Python objects"
# holder: []
# mebibytes: []
import hashlib
import time
from collections import OrderedDict


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class DuplicateFilter:
    def __init__(self, most_lines=20_000):
        self.seen = OrderedDict()
        self.most_lines = most_lines

    def is_new(self, line):
        digest = hashlib.sha256(line).hexdigest()
        if digest in self.seen:
            return False
        self.seen[digest] = True
        if len(self.seen) > self.most_lines:
            self.seen.popitem(last=False)
        return True


def lines_of(page):
    return [b"page %d, line %d" % (page, line // 2) for line in range(400)]


def main():
    duplicates = DuplicateFilter()
    start = resident()
    kept = 0
    for page in range(2500):
        kept += sum(duplicates.is_new(line) for line in lines_of(page))
        time.sleep(0.0005)
    print(f"{kept} lines are new")
    print(f"truth: {len(duplicates.seen) * 280 / 2**20:.1f} resident: {resident() - start:.1f}")


main()

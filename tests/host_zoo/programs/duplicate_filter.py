# kind: "host memory"
# cause: "A set remembers the hash of each line ever read, to drop duplicates."
# what: "Python objects"
# holder: ["seen"]
# mebibytes: [76, 103]
import hashlib
import sys
import time


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class DuplicateFilter:
    def __init__(self):
        self.seen = set()

    def is_new(self, line):
        digest = hashlib.sha256(line).hexdigest()  # BLAME
        if digest in self.seen:
            return False
        self.seen.add(digest)  # BLAME
        return True

    def size(self):
        return sys.getsizeof(self.seen) + 128 * len(self.seen)  # of Python's allocator a digest takes 128 bytes


def lines_of(page):
    return [b"page %d, line %d" % (page, line // 2) for line in range(400)]


def main():
    duplicates = DuplicateFilter()
    start = resident()
    kept = 0
    for page in range(3000):
        kept += sum(duplicates.is_new(line) for line in lines_of(page))
        time.sleep(0.0005)
    print(f"{kept} lines are new")
    print(f"truth: {duplicates.size() / 2**20:.1f} resident: {resident() - start:.1f}")


main()

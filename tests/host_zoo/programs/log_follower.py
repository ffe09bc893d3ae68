# kind: "host memory"
# cause: "itertools.tee keeps all lines that one of its two iterators has not read yet, and one is never read."
# what: "Python objects"
# holder: []
# mebibytes: [73, 99]
# fixed: "Both iterators of itertools.tee are read in step, so that it keeps only one line."
import itertools
import sys
import time

IS_FIXED = "fixed" in sys.argv


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Follower:
    def __init__(self, lines):
        self.for_alarms, self.for_archive = itertools.tee(lines)
        self.alarms = 0
        self.read_bytes = 0

    def follow(self):
        for line in self.for_alarms:
            self.read_bytes += len(line)
            self.alarms += line.startswith("critical")
            if IS_FIXED:
                self.read_bytes -= len(next(self.for_archive))
            yield line


def lines(count):
    for number in range(count):
        level = "critical" if number % 50 == 0 else "info"
        yield f"{level} event {number}: ".ljust(30_000, ".")  # BLAME


def main():
    follower = Follower(lines(3000))
    start = resident()
    for _ in follower.follow():  # BLAME
        time.sleep(0.0009)
    print(f"{follower.alarms} alarms")
    print(f"truth: {follower.read_bytes / 2**20:.1f} resident: {resident() - start:.1f}")


main()

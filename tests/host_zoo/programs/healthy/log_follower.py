# kind: "healthy"
# cause: "Both iterators of itertools.tee are read in step, so that it keeps only one line."
# what: "Python objects"
# holder: []
# mebibytes: []
import itertools
import time


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Follower:
    def __init__(self, lines):
        self.for_alarms, self.for_archive = itertools.tee(lines)
        self.alarms = 0
        self.archived_bytes = 0

    def follow(self):
        for line in self.for_alarms:
            self.alarms += line.startswith("critical")
            self.archived_bytes += len(next(self.for_archive))
            yield line


def lines(count):
    for number in range(count):
        level = "critical" if number % 50 == 0 else "info"
        yield f"{level} event {number}: ".ljust(30_000, ".")


def main():
    follower = Follower(lines(3000))
    start = resident()
    for _ in follower.follow():
        time.sleep(0.0009)
    print(f"{follower.alarms} alarms, {follower.archived_bytes} bytes in the archive")
    print(f"truth: 0.0 resident: {resident() - start:.1f}")


main()

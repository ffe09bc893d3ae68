# kind: "healthy"
# cause: "A table of some 40 MiB is loaded anew ten times during the run, and the older one goes each time."
# what: "Python objects"
# holder: []
# mebibytes: []
import time


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Router:
    def __init__(self):
        self.table = {}
        self.version = 0

    def load(self):
        self.version += 1
        self.table = {f"host-{number}.example.org": [number, self.version + number] for number in range(110_000)}

    def route(self, number):
        return self.table[f"host-{number % 110_000}.example.org"][0]


def main():
    router = Router()
    start = resident()
    checksum = 0
    for number in range(3000):
        if number % 300 == 0:
            router.load()
        checksum += router.route(number * 31)
        time.sleep(0.0007)
    kept = len(router.table) * (80 + 72 + 64 + 95) / 2**20
    print(f"checksum {checksum}")
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()

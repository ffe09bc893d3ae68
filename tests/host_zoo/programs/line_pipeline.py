# kind: "healthy"
# cause: "Generators read, split and count a stream of lines, and none keeps more than one part of it."
# what: "Python objects"
# holder: []
# mebibytes: []
import time
from collections import Counter


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


def chunks(count):
    for number in range(count):
        time.sleep(0.0006)
        yield f"alpha beta gamma delta {number % 50} epsilon\n" * 900


def lines(parts):
    for part in parts:
        yield from part.splitlines()


def words(texts):
    for text in texts:
        yield text.split()


def main():
    start = resident()
    counts = Counter()
    for found in words(lines(chunks(2600))):
        counts[found[4]] += 1
    kept = len(counts) * 200 / 2**20
    print(f"{sum(counts.values())} lines")
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()

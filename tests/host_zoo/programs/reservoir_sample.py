# kind: "healthy"
# cause: "A random sample of 900 documents stays; it is full in the first third, and new ones replace old ones by chance."
# what: "Python objects"
# holder: []
# mebibytes: []
import random
import time


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Reservoir:
    def __init__(self, places):
        self.places = places
        self.sample = []
        self.offered = 0
        self.chooser = random.Random(7)

    def offer(self, document):
        self.offered += 1
        if len(self.sample) < self.places:
            self.sample.append(document)
        elif (place := self.chooser.randrange(self.offered)) < self.places:
            self.sample[place] = document


def document(number):
    return f"document {number:06}, section {number % 9}; " * 2400


def main():
    reservoir = Reservoir(900)
    start = resident()
    for number in range(3000):
        reservoir.offer(document(number))
        time.sleep(0.0009)
    kept = sum(map(len, reservoir.sample)) / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()

# kind: "healthy"
# cause: "A list is filled with large rows to a limit of 400, and written and emptied then: a sawtooth of 40 MiB."
# what: "Python objects"
# holder: []
# mebibytes: []
import json
import time


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class BatchCollector:
    def __init__(self, most_rows=400):
        self.rows = []
        self.most_rows = most_rows
        self.written = 0

    def add(self, row):
        self.rows.append(row)
        if len(self.rows) == self.most_rows:
            self.written += sum(map(len, self.rows))
            self.rows = []


def row_of(number):
    return json.dumps({"number": number, "points": [number * place for place in range(100)]}) * 100


def main():
    collector = BatchCollector()
    start = resident()
    for number in range(3000):
        collector.add(row_of(number))
        time.sleep(0.0009)
    kept = sum(map(len, collector.rows)) / 2**20
    print(f"{collector.written} characters were written")
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()

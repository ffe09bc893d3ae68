# kind: "healthy"
# cause: "A list collects a day's records and is emptied at its end: a sawtooth with three long teeth."
# what: "Python objects"
# holder: []
# mebibytes: []
import time


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class DailyReport:
    def __init__(self):
        self.records = []
        self.days = []

    def add(self, record):
        self.records.append(record)

    def end_day(self):
        self.days.append(sum(map(len, self.records)))
        self.records.clear()


def record_of(day, number):
    return f"day {day}: order {number:06} was paid and sent; " * 1800


def main():
    report = DailyReport()
    start = resident()
    highest = 0.0
    for day in range(3):
        for number in range(1100):
            report.add(record_of(day, number))
            time.sleep(0.0008)
        highest = max(highest, resident() - start)
        report.end_day()
    print(f"{sum(report.days)} characters in {len(report.days)} days, at most {highest:.1f} MiB at a time")
    print(f"truth: 0.0 resident: {resident() - start:.1f}")


main()

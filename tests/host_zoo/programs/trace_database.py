# kind: "host memory"
# cause: "An SQLite database in memory gets a row per request, and no row is ever deleted."
# what: "native memory"
# holder: []
# mebibytes: [87, 118]
# fixed: "An SQLite database in memory gets a row per request, and rows older than two hundred requests go."
import sqlite3
import sys
import time

import torch

torch.set_num_threads(1)
IS_FIXED = "fixed" in sys.argv


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Tracing:
    def __init__(self):
        self.database = sqlite3.connect(":memory:")
        key = " PRIMARY KEY" if IS_FIXED else ""
        self.database.execute(f"CREATE TABLE spans (request INTEGER{key}, detail TEXT)")

    def record(self, number, detail):
        self.database.execute("INSERT INTO spans VALUES (?, ?)", (number, detail))  # BLAME
        if IS_FIXED:
            self.database.execute("DELETE FROM spans WHERE request < ?", (number - 200,))
        self.database.commit()

    def size(self):
        pages, page_bytes = (
            self.database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
        )
        return pages * (page_bytes + 272)  # SQLite adds a header to each page in memory


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    tracing = Tracing()
    model(torch.ones(1, 16))
    start = resident()
    for number in range(2200):
        scores = model(torch.full((1, 16), number / 2200))
        tracing.record(number, f"{number:06} {scores[0, 0].item():.4f} | " * 2700)
        time.sleep(0.0004)
    grown = resident() - start
    print(f"truth: {tracing.size() / 2**20:.1f} resident: {grown:.1f}")


main()

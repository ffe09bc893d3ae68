# kind: "healthy"
# cause: "Each request goes on a queue of limited size, and a thread writes all of them."
# what: "Python objects"
# holder: []
# mebibytes: []
import queue
import threading
import time

import torch

torch.set_num_threads(1)


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Auditor:
    def __init__(self):
        self.audit = queue.Queue(maxsize=200)
        self.written_bytes = 0
        self.writer = threading.Thread(target=self.write, daemon=True)
        self.writer.start()

    def write(self):
        while entry := self.audit.get():
            self.written_bytes += len(entry)
            self.audit.task_done()

    def add(self, entry):
        self.audit.put(entry)


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    auditor = Auditor()
    model(torch.ones(1, 16))
    start = resident()
    for number in range(2600):
        scores = model(torch.full((1, 16), number / 2600))
        auditor.add(f"{number:08}:{scores.sum().item():9.4f}\n".encode() * 2000)
        time.sleep(0.0004)
    auditor.audit.join()
    print(f"{auditor.written_bytes} bytes were written")
    print(f"truth: {auditor.audit.qsize():.1f} resident: {resident() - start:.1f}")


main()

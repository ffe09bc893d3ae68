# kind: "host memory"
# cause: "Each request goes on a queue for a thread that writes an audit, and that thread has died."
# what: "Python objects"
# holder: ["audit"]
# mebibytes: [80, 108]
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
        self.audit = queue.Queue()
        self.queued_bytes = 0
        self.writer = threading.Thread(target=self.write, daemon=True)
        self.writer.start()

    def write(self):
        while len(self.audit.get()) < 100:
            self.audit.task_done()
        # A long entry ends the thread.

    def add(self, entry):
        self.queued_bytes += len(entry)
        self.audit.put(entry)  # BLAME


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    auditor = Auditor()
    model(torch.ones(1, 16))
    start = resident()
    for number in range(2600):
        scores = model(torch.full((1, 16), number / 2600))
        auditor.add(f"{number:08}:{scores.sum().item():9.4f}\n".encode() * 2000)  # BLAME
        time.sleep(0.0004)
    kept = auditor.queued_bytes / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()

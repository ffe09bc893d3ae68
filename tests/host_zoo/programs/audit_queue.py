# kind: "host memory"
# cause: "Each request goes on a queue for a thread that writes an audit, and that thread has died."
# what: "Python objects"
# holder: ["audit"]
# mebibytes: [80, 108]
# fixed: "Each request goes on a queue of limited size, and a thread writes all of them."
import queue
import sys
import threading
import time

import torch

torch.set_num_threads(1)
IS_FIXED = "fixed" in sys.argv


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Auditor:
    def __init__(self):
        self.audit = queue.Queue(200 if IS_FIXED else 0)
        self.queued_bytes = 0
        self.writer = threading.Thread(target=self.write, daemon=True)
        self.writer.start()

    def write(self):
        while len(self.audit.get()) < 100 or IS_FIXED:
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
    if IS_FIXED:
        auditor.audit.join()
    kept = 0 if IS_FIXED else auditor.queued_bytes / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()

# report: "https://github.com/uber/petastorm/pull/783"
# topic: "data loading"
# kind: "peak"
# symptom: "the reader with a pool of threads runs out of memory while it loads a big data set"
# cause: "its queue of results holds up to 50 row groups by default, far more than training needs ahead; the size of the queue became an argument"
# devices: ["cpu"]
# holder: ["results"]
# mebibytes: [150, 330]
# remedy: "limit"
# options: []
# fixed: True
import gc
import queue
import sys
import threading

import torch

torch.set_num_threads(1)


class BatchReader:
    """Threads decode row groups ahead of the consumer."""

    def __init__(self, row_groups, workers=2, results_queue_size=50):
        self.pending = queue.Queue()
        for group in range(row_groups):
            self.pending.put(group)
        self.results = queue.Queue(results_queue_size)
        self.row_groups = row_groups
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(workers)]
        for thread in self.threads:
            thread.start()

    def work(self):
        while True:
            try:
                group = self.pending.get_nowait()
            except queue.Empty:
                return
            self.results.put(self.decode(group))  # BLAME

    def decode(self, group):
        return torch.full((1024, 1024), float(group))  # BLAME

    def __iter__(self):
        for _ in range(self.row_groups):
            yield self.results.get()


def in_tensors():
    storages = {
        t.untyped_storage().data_ptr(): t.untyped_storage().nbytes()
        for t in gc.get_objects()
        if type(t) is torch.Tensor
    }
    return sum(storages.values()) / 2**20


def main():
    reader = BatchReader(90, results_queue_size=3) if "fixed" in sys.argv else BatchReader(90)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for step, rows in enumerate(reader):
        loss = model(rows).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 15 == 0:
            print(
                f"step {step}: {reader.results.qsize()} row groups wait, {in_tensors():.0f} MiB in tensors", flush=True
            )


main()

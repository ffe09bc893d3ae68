# report: "https://github.com/tier4/autoware-ml/pull/78"
# topic: "data loading"
# kind: "host memory"
# symptom: "training is killed for lack of system memory, the more workers the sooner, though the workers only read the annotations"
# cause: "annotations are a list of Python objects; reading them in forked workers writes their reference counts, so each worker gets a copy of all pages; one serialised buffer stays shared"
# devices: ["cpu"]
# holder: ["data_infos"]
# mebibytes: []
# remedy: "limit"
# options: []
# fixed: True
import pickle
import sys

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class SerialisedList:
    """All records in one buffer of bytes; each is unpacked when it is asked for."""

    def __init__(self, records):
        records = [np.frombuffer(pickle.dumps(record), dtype=np.uint8) for record in records]
        self.ends = np.cumsum([len(record) for record in records])
        self.buffer = np.concatenate(records)

    def __len__(self):
        return len(self.ends)

    def __getitem__(self, index):
        return pickle.loads(self.buffer[self.ends[index - 1] if index else 0 : self.ends[index]].tobytes())


def annotations(count):
    for scene in range(count):
        boxes = [[float(scene + 7 * box + k) for k in range(9)] for box in range(8)]  # BLAME
        yield {"scene": f"scene-{scene}", "boxes": boxes}


def private_memory():
    fields = dict(line.split(":") for line in open("/proc/self/smaps_rollup").read().splitlines()[1:])
    return sum(int(fields[name].split()[0]) for name in ("Private_Dirty", "Private_Clean")) / 1024


class Scenes(Dataset):
    def __init__(self, count):
        records = list(annotations(count))
        self.data_infos = SerialisedList(records) if "fixed" in sys.argv else records

    def __len__(self):
        return len(self.data_infos)

    def __getitem__(self, index):
        info = self.data_infos[index]  # BLAME
        return torch.tensor(info["boxes"])


def collate(samples):
    return torch.stack(samples), private_memory()


def main():
    scenes = Scenes(30000)
    model = torch.nn.Linear(9, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    for step, (boxes, private) in enumerate(
        DataLoader(scenes, batch_size=512, shuffle=True, num_workers=2, collate_fn=collate)
    ):
        model(boxes).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 8 < 2:
            print(f"step {step}: {private:.0f} MiB are the worker's own", flush=True)


if __name__ == "__main__":
    main()

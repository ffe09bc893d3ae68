# kind: "healthy"
# cause: "The dataset of a DataLoader's worker process counts the texts that it has read, and keeps none."
# what: "Python objects"
# holder: []
# mebibytes: []
import time

import torch

torch.set_num_threads(1)


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class TextDataset(torch.utils.data.Dataset):
    def __init__(self, length):
        self.length = length
        self.read_bytes = 0
        self.start = None

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if self.start is None:
            self.start = resident()
        text = f"document {index:06} " * 3000
        self.read_bytes += len(text)
        time.sleep(0.0005)
        features = torch.full((16,), index / self.length)
        return features, self.read_bytes, resident() - self.start


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    loader = torch.utils.data.DataLoader(TextDataset(2000), batch_size=None, num_workers=1, prefetch_factor=4)
    for features, read, grown in loader:
        model(features)
    print(f"{read} bytes were read")
    print(f"truth: 0.0 resident: {grown:.1f}")


main()

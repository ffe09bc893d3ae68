# kind: "host memory"
# cause: "The dataset of a DataLoader's worker process keeps each text that it has read."
# what: "Python objects"
# holder: ["texts"]
# mebibytes: [78, 105]
# fixed: "The dataset of a DataLoader's worker process counts the texts that it has read, and keeps none."
import sys
import time

import torch

torch.set_num_threads(1)
IS_FIXED = "fixed" in sys.argv


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class TextDataset(torch.utils.data.Dataset):
    def __init__(self, length):
        self.length = length
        self.texts = []
        self.kept_bytes = 0
        self.start = None

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if self.start is None:
            self.start = resident()
        text = f"document {index:06} " * 3000  # BLAME
        if not IS_FIXED:
            self.texts.append(text)  # BLAME
            self.kept_bytes += len(text)
        time.sleep(0.0005)
        features = torch.full((16,), index / self.length)
        return features, self.kept_bytes / 2**20, resident() - self.start


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    loader = torch.utils.data.DataLoader(TextDataset(2000), batch_size=None, num_workers=1, prefetch_factor=4)
    for features, kept, grown in loader:
        model(features)
    print(f"truth: {kept:.1f} resident: {grown:.1f}")


main()

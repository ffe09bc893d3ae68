# report: "https://github.com/embeddings-benchmark/mteb/pull/4747"
# topic: "data loading"
# kind: "peak"
# symptom: "/dev/shm fills up almost at once when videos are embedded with several workers of the loader"
# cause: "the few frames taken from a video are a view, and the worker sends the view's whole storage through shared memory; cloning the frames sends only them"
# devices: ["cpu"]
# holder: []
# mebibytes: []
# remedy: "limit"
# options: []
# fixed: True
import shutil
import sys

import torch
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
FRAMES, TAKEN = 64, 4


class Videos(Dataset):
    def __len__(self):
        return 48

    def decode(self, index):
        return torch.full((FRAMES, 3, 128, 128), index, dtype=torch.float32)  # BLAME

    def __getitem__(self, index):
        frames = self.decode(index)[:: FRAMES // TAKEN]  # BLAME
        if "fixed" in sys.argv:
            frames = frames.clone()
        return {"frames": frames, "index": index}


@torch.no_grad()
def main():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 16, stride=16), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(1024, 64)
    )
    loader = DataLoader(Videos(), batch_size=8, num_workers=2, collate_fn=list)
    for step, batch in enumerate(loader):  # BLAME
        embeddings = torch.stack([model(sample["frames"]).mean(0) for sample in batch])
        seen = sum(sample["frames"].nbytes for sample in batch) / 2**20
        behind = sum(sample["frames"].untyped_storage().nbytes() for sample in batch) / 2**20
        shm = shutil.disk_usage("/dev/shm").used / 2**20
        print(f"batch {step}: {len(embeddings)} videos, {seen:.0f} MiB of frames, {behind:.0f} MiB behind them")
        print(f"/dev/shm: {shm:.0f} MiB in use", flush=True)


if __name__ == "__main__":
    main()

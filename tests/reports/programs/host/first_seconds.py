# report: "https://github.com/numpy/numpy/issues/15746"
# topic: "training"
# kind: "host memory"
# symptom: "a loop that loads sounds and keeps only the first moments of each takes huge amounts of memory"
# cause: "a slice of an array is a view, whose base is the whole sound and stays alive with it; .copy() of the slice lets the sound go"
# devices: ["cpu"]
# holder: ["clips"]
# mebibytes: [110, 180]
# remedy: "release"
# options: []
# fixed: True
import os
import sys

import numpy as np
import torch

torch.set_num_threads(1)
RATE = 16000


def load(path, seconds=60):
    """Reads one recording; made up here from its name."""
    generator = np.random.default_rng(int(path.split("-")[1].split(".")[0]))
    return generator.standard_normal(RATE * seconds, dtype=np.float32)  # BLAME


def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class Clips(torch.utils.data.Dataset):
    def __init__(self, paths, samples=4000):
        start = resident()
        self.clips = []
        for number, path in enumerate(paths):
            sound = load(path)
            clip = sound[:samples]
            self.clips.append(clip.copy() if "fixed" in sys.argv else clip)  # BLAME
            if number % 8 == 7:
                kept = sum(clip.nbytes for clip in self.clips) / 2**20
                print(
                    f"{number + 1} sounds: {kept:.1f} MiB of clips, grown by {resident() - start:.0f} MiB", flush=True
                )

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, index):
        return torch.from_numpy(self.clips[index])


def main():
    clips = Clips([f"sound-{number}.wav" for number in range(40)])
    model = torch.nn.Sequential(torch.nn.Linear(4000, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for batch in torch.utils.data.DataLoader(clips, batch_size=4):
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")


main()

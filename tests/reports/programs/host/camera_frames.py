# report: "https://github.com/XiaoMi/xiaomi-miloco/pull/459"
# topic: "inference"
# kind: "host memory"
# symptom: "resident memory of a service that looks at cameras grows to 2 GB and more in long runs, while the Python heap is said to be small"
# cause: "no leak: frames of megabytes are freed, but glibc keeps them in its arenas, where small live objects pin them; with a fixed threshold for mmap each frame goes back to the system"
# devices: ["cpu"]
# holder: []
# mebibytes: []
# remedy: "setting"
# options: []
# fixed: True
import ctypes
import os
import random
import sys
import threading
from collections import deque

import numpy as np
import torch

torch.set_num_threads(1)
if "fixed" in sys.argv:
    libc = ctypes.CDLL(None)
    libc.mallopt(-3, 131072)  # M_MMAP_THRESHOLD: frames are mapped, and unmapped when freed
    libc.mallopt(-1, 131072)  # M_TRIM_THRESHOLD


def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class Camera(threading.Thread):
    def __init__(self, number, detector, frames=96):
        super().__init__()
        self.shapes, self.detector, self.frames = random.Random(number), detector, frames
        self.events = deque(maxlen=400)

    def decode(self):
        height = self.shapes.choice([360, 540, 720, 1080])
        return np.full((height, height * 16 // 9, 3), 127, dtype=np.uint8)  # BLAME

    def run(self):
        group = []
        for _ in range(self.frames):
            group.append(self.decode())
            thumbnail = torch.from_numpy(group[-1][::90, ::90].copy()).float()
            self.events.extend(np.asarray(self.detector(thumbnail[:4, :7].flatten()).tolist()) for _ in range(4))
            if len(group) == 24:
                group.clear()


@torch.inference_mode()
def main():
    detector = torch.nn.Linear(84, 200)
    start = resident()
    for hour in range(5):
        cameras = [Camera(10 * hour + number, detector) for number in range(3)]
        for camera in cameras:
            camera.start()
        for camera in cameras:
            camera.join()
        events = sum(event.nbytes for camera in cameras for event in camera.events) / 2**20
        print(
            f"hour {hour}: {events:.1f} MiB of events are kept, resident grew by {resident() - start:.0f} MiB",
            flush=True,
        )


main()

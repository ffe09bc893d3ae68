# kind: "host memory"
# cause: "One bytearray gets the words of all requests appended, for a file that is written at the end."
# what: "Python objects"
# holder: ["transcript"]
# mebibytes: [69, 93]
import time

import torch

torch.set_num_threads(1)


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Transcriber:
    def __init__(self):
        self.model = torch.nn.Linear(16, 16)
        self.transcript = bytearray()

    def transcribe(self, second):
        best = self.model(torch.full((1, 16), second / 2500)).argmax().item()
        self.transcript += b"[%06d] word %02d " % (second, best) * 2000  # BLAME


@torch.no_grad()
def main():
    transcriber = Transcriber()
    transcriber.model(torch.ones(1, 16))
    start = resident()
    for second in range(2500):
        transcriber.transcribe(second)
        time.sleep(0.0005)
    kept = len(transcriber.transcript) / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()

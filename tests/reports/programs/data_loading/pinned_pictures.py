# report: "https://github.com/vllm-project/vllm/pull/48165"
# topic: "data loading"
# kind: "host memory"
# symptom: "a worker's host memory grows by hundreds of megabytes in minutes while requests with pictures of many sizes come and go"
# cause: "each decoded picture is copied to pinned memory, and the allocator of pinned memory never gives anything back to the system, so that sizes that do not fit add up; a pageable copy is released"
# devices: ["npu"]
# memory: "1GiB"
# holder: []
# mebibytes: [120, 330]
# remedy: "none"
# options: []
# fixed: True
import os
import sys

import torch
import torch_npu  # noqa: F401

torch.set_num_threads(1)


class Decoder:
    """Takes the picture out of the ring of messages, which is about to be reused."""

    def __init__(self, pin_tensors=True):
        self.pin_tensors = pin_tensors

    def decode(self, message):
        return message.pin_memory() if self.pin_tensors else message.clone()  # BLAME


def traffic():
    """Thumbnails in the morning, scans at night; what waits at a time is 24 to 48 MiB."""
    for side in (96, 128, 192, 256, 384, 512, 768):
        for _ in range(3):
            yield side, (36 << 20) // (12 * side * side)


def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@torch.inference_mode()
def main():
    ring = torch.rand(2 << 20)
    encoder = torch.nn.Conv2d(3, 8, 32, stride=32).to("npu")
    decoder = Decoder(pin_tensors="fixed" not in sys.argv)
    start = None
    for number, (side, pictures) in enumerate(traffic()):
        batch = [decoder.decode(ring[: 3 * side * side].view(1, 3, side, side)) for _ in range(pictures)]
        tokens = sum(encoder(picture.to("npu")).flatten(2).shape[2] for picture in batch)
        del batch
        start = start or resident()
        if number % 3 == 2:
            grown = resident() - start
            print(
                f"{number + 1} batches, now of {side} x {side}: {tokens} tokens, host memory grew by {grown:.0f} MiB",
                flush=True,
            )


main()

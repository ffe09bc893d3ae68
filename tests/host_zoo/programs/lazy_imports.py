# kind: "healthy"
# cause: "Large modules are imported by the first requests that need them, and then stay."
# what: "Python objects"
# holder: []
# mebibytes: []
import importlib
import time

import torch

torch.set_num_threads(1)
NEEDED = {
    5: "torch.distributed",
    20: "torch.fx",
    40: "torch.ao.quantization",
    60: "torch._dynamo",
    120: "sympy",
    160: "torch._inductor.config",
}


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    model(torch.ones(1, 16))
    start = resident()
    for number in range(2200):
        if number in NEEDED:
            importlib.import_module(NEEDED[number])
        scores = model(torch.full((1, 16), number / 2200))
        answer = ", ".join(f"{score:.4f}" for score in scores.tolist()[0]) * 100
        assert len(answer) > 1000
        time.sleep(0.0006)
    print(f"truth: 0.0 resident: {resident() - start:.1f}")


main()

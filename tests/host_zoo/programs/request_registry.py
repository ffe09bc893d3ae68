# kind: "host memory"
# cause: "The class has a registry of all its instances, for debugging, and instances never leave it."
# what: "Python objects"
# holder: ["instances"]
# mebibytes: [74, 100]
# fixed: "The class has a registry of its instances with weak references, so finished requests go."
import sys
import time
import weakref

import torch

torch.set_num_threads(1)
IS_FIXED = "fixed" in sys.argv


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class GenerationRequest:
    instances = weakref.WeakSet() if IS_FIXED else []

    def __init__(self, number):
        self.number = number
        self.token_ids = [number * 512 + place for place in range(900)]  # BLAME
        if IS_FIXED:
            GenerationRequest.instances.add(self)
        else:
            GenerationRequest.instances.append(self)  # BLAME

    def size(self):
        return sys.getsizeof(self.token_ids) + 32 * len(self.token_ids)


def generate(model, request):
    features = torch.tensor([[float(token % 100) for token in request.token_ids[:16]]])
    return model(features).argmax().item()


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    model(torch.ones(1, 16))
    start = resident()
    for number in range(1, 2500):
        generate(model, GenerationRequest(number))
        time.sleep(0.0004)
    kept = sum(request.size() for request in GenerationRequest.instances) / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()

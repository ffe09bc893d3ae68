# report: "https://github.com/vllm-project/vllm/pull/50276"
# topic: "serving"
# kind: "overwritten"
# symptom: "identical requests are answered with different text, as if somebody wiped parts of the cache of keys and values"
# cause: "in a packed cache a layer's view starts at an offset inside the block, but zeroing clears a whole block stride from there and so wipes the start of the next block, which is live"
# devices: ["npu", "cpu"]
# holder: []
# mebibytes: []
# remedy: "none"
# options: []
# fixed: True
import os
import sys

import torch

import msmemscope

DEV = os.environ.get("DEV", "npu")
if DEV == "npu":
    import torch_npu  # noqa: F401

torch.manual_seed(0)
torch.set_num_threads(1)
BLOCKS, LAYERS, PAGE = 16, 4, 8 * 64  # a page: 8 tokens of 64 numbers


class PackedCache:
    """One slab per block, in which every layer has its page."""

    def __init__(self):
        self.slab = torch.zeros(BLOCKS * LAYERS * PAGE, device=DEV)
        packed = self.slab.view(BLOCKS, LAYERS, PAGE)
        self.layers = [packed[:, layer] for layer in range(LAYERS)]
        self.free = list(range(BLOCKS))[::-1]

    def zero_block(self, block):
        for view in self.layers:
            start = view.storage_offset() + block * view.stride(0)
            length = view.shape[1] if "fixed" in sys.argv else view.stride(0)
            self.slab[start : start + length].zero_()  # BLAME

    def allocate(self):
        block = self.free.pop()
        self.zero_block(block)
        return block


class Request:
    def __init__(self, cache):
        self.cache, self.block = cache, cache.allocate()

    def prefill(self):
        for view in self.cache.layers:
            view[self.block].copy_(torch.randn(PAGE))

    def attend(self):
        return sum(view[self.block].norm().item() for view in self.cache.layers)

    def finish(self):
        self.cache.free.append(self.block)


def main():
    cache = PackedCache()
    first, second = Request(cache), Request(cache)
    first.prefill()
    second.prefill()
    before = second.attend()
    page = cache.layers[0][second.block]
    msmemscope.watcher.watch(page, name="first_page_of_second_request")
    first.finish()
    third = Request(cache)  # gets the block that became free, just before the block of the second request
    third.prefill()
    print(f"the second request has block {second.block}, the third block {third.block}")
    print(f"the second request attended to {before:.3f}, now {second.attend():.3f}")
    msmemscope.watcher.remove(page)


main()

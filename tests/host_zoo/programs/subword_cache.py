# kind: "host memory"
# cause: "The tokenizer remembers the pieces of each word it has met, without bound."
# what: "Python objects"
# holder: ["cache"]
# mebibytes: [75, 101]
# fixed: "The tokenizer remembers the pieces of at most twenty thousand words, and empties that cache when it is full."
import sys
import time

import torch

torch.set_num_threads(1)
IS_FIXED = "fixed" in sys.argv


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Tokenizer:
    def __init__(self):
        self.cache = {}

    def encode_word(self, word):
        if word not in self.cache:
            if IS_FIXED and len(self.cache) == 20_000:
                self.cache.clear()
            pieces = [word[place : place + 2] for place in range(0, len(word), 2)]
            ids = [1000 + sum(map(ord, piece)) * len(pieces) for piece in pieces]  # BLAME
            self.cache[word] = ids  # BLAME
        return self.cache[word]

    def encode(self, text):
        return [token for word in text.split() for token in self.encode_word(word)]

    def size(self):
        words = sum(-(-sys.getsizeof(word) // 16) * 16 for word in self.cache)
        ids = sum(sys.getsizeof(ids) + 32 * len(ids) for ids in self.cache.values())
        return words + ids + sys.getsizeof(self.cache)


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    tokenizer = Tokenizer()
    model(torch.ones(1, 16))
    start = resident()
    for number in range(1900 if IS_FIXED else 1700):
        text = " ".join(f"{number}x{place}y".ljust(24, "z") for place in range(80))
        ids = tokenizer.encode(text)
        model(torch.tensor([ids[:16]], dtype=torch.float32))
        time.sleep(0.0004)
    kept = len(tokenizer.cache) * (12 * 32 + 250) if IS_FIXED else tokenizer.size()
    print(f"truth: {kept / 2**20:.1f} resident: {resident() - start:.1f}")


main()

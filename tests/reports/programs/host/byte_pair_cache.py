# report: "https://github.com/EleutherAI/gpt-neox/pull/383"
# topic: "training"
# kind: "host memory"
# symptom: "preprocessing of the training data takes ever more memory, the more so with many workers"
# cause: "GPT2Tokenizer.cache remembers the pieces of each token it has met, without bound, and grows to millions of entries; it was replaced by a cache of limited size"
# devices: ["cpu"]
# holder: ["cache"]
# mebibytes: [40, 200]
# remedy: "limit"
# options: []
# fixed: True
import os
import random
import sys
from functools import lru_cache

import torch

torch.set_num_threads(1)


class GPT2Tokenizer:
    def __init__(self):
        self.encoder = {chr(97 + a) + chr(97 + b): 26 * a + b for a in range(26) for b in range(26)}
        self.cache = {}
        if "fixed" in sys.argv:
            self.bpe = lru_cache(maxsize=2000)(self.split)

    def split(self, token):
        return [token[k : k + 2] for k in range(0, len(token), 2)]  # BLAME

    def bpe(self, token):
        if token in self.cache:
            return self.cache[token]
        word = self.split(token)  # BLAME
        self.cache[token] = word  # BLAME
        return word

    def encode(self, text):
        return [self.encoder[piece] for token in text.split(" ") for piece in self.bpe(token)]


def documents(count):
    letters = random.Random(0)
    for _ in range(count):
        text = "".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=20 * 250))
        yield " ".join(text[k : k + 20] for k in range(0, len(text), 20))


def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main():
    tokenizer = GPT2Tokenizer()
    model = torch.nn.Sequential(torch.nn.EmbeddingBag(26 * 26, 32), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    start = resident()
    for number, text in enumerate(documents(400)):
        ids = torch.tensor([tokenizer.encode(text)])
        model(ids).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if number % 80 == 79:
            print(
                f"{number + 1} documents: {len(tokenizer.cache)} tokens known, grown by {resident() - start:.0f} MiB",
                flush=True,
            )


main()

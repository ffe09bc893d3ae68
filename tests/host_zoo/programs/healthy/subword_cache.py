# kind: "healthy"
# cause: "The tokenizer remembers the pieces of at most twenty thousand words, and empties that cache when it is full."
# what: "Python objects"
# holder: []
# mebibytes: []
import time

import torch

torch.set_num_threads(1)


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Tokenizer:
    def __init__(self, most_words=20_000):
        self.cache = {}
        self.most_words = most_words

    def encode_word(self, word):
        if word not in self.cache:
            if len(self.cache) == self.most_words:
                self.cache.clear()
            pieces = [word[place : place + 2] for place in range(0, len(word), 2)]
            self.cache[word] = [1000 + sum(map(ord, piece)) * len(pieces) for piece in pieces]
        return self.cache[word]

    def encode(self, text):
        return [token for word in text.split() for token in self.encode_word(word)]


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    tokenizer = Tokenizer()
    model(torch.ones(1, 16))
    start = resident()
    for number in range(1900):
        text = " ".join(f"{number}x{place}y".ljust(24, "z") for place in range(80))
        ids = tokenizer.encode(text)
        model(torch.tensor([ids[:16]], dtype=torch.float32))
        time.sleep(0.0004)
    kept = len(tokenizer.cache) * (12 * 32 + 250) / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()

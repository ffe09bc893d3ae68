# report: "https://github.com/huggingface/tokenizers/issues/1539"
# topic: "inference"
# kind: "host memory"
# symptom: "resident memory climbs with each text that is tokenised, though nothing is kept in Python"
# cause: "the BPE model keeps each word it has met and its pieces in a cache of up to 10,000 words, and long words take kilobytes each; emptying the cache or a capacity of 0 ends it"
# devices: ["cpu"]
# holder: []
# mebibytes: [40, 160]
# remedy: "limit"
# options: []
# fixed: True
import os
import random
import sys

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

torch.set_num_threads(1)
PARTS = "memory device tensor kernel stream queue block cache layer token batch model step loss grad page".split()


def train_tokenizer():
    capacity = 0 if "fixed" in sys.argv else 10_000
    tokenizer = Tokenizer(models.BPE(cache_capacity=capacity))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(PARTS, trainers.BpeTrainer(vocab_size=200, show_progress=False))
    return tokenizer


def requests(count):
    """Logs of a service: hardly any white space."""
    chooser = random.Random(0)
    for _ in range(count):
        yield " ".join("".join(chooser.choices(PARTS, k=40)) for _ in range(40))


def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@torch.inference_mode()
def main():
    tokenizer = train_tokenizer()
    model = torch.nn.EmbeddingBag(tokenizer.get_vocab_size(), 64)
    start = resident()
    for number, text in enumerate(requests(240)):
        ids = tokenizer.encode(text).ids  # BLAME
        embedding = model(torch.tensor([ids]))
        if number % 40 == 39:
            grown = resident() - start
            print(
                f"request {number}: {len(ids)} tokens, {tuple(embedding.shape)}, grown by {grown:.0f} MiB", flush=True
            )


main()

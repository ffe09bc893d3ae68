# report: "https://github.com/KaijuML/data-to-text-hierarchical/issues/7"
# topic: "training"
# kind: "healthy"
# symptom: "memory usage of the device, as its monitor shows it, increases from batch to batch in training up to some limit, which looks like a leak"
# cause: "no leak: batches differ in size, and PyTorch asks for more memory at each batch that is larger than those before, and keeps it for later ones"
# devices: ["npu"]
# memory: "1GiB"
# holder: []
# mebibytes: []
# remedy: "none"
# options: []
# fixed: False
import random

import torch
import torch_npu  # noqa: F401
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
VOCABULARY, WIDTH = 1500, 96


class TableToText(nn.Module):
    def __init__(self):
        super().__init__()
        self.entities = nn.Embedding(VOCABULARY, WIDTH)
        self.encoder = nn.Linear(WIDTH, WIDTH)
        self.query = nn.Linear(WIDTH, WIDTH)
        self.generator = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, table, text):
        memory = torch.tanh(self.encoder(self.entities(table)))
        queries = self.query(self.entities(text))
        attention = torch.softmax(queries @ memory.transpose(1, 2) / WIDTH**0.5, dim=-1)
        return self.generator(torch.tanh(attention @ memory + queries))


def games(count, batch_size=12):
    """Box scores with as many records as there were players, and summaries of any length."""
    lengths = random.Random(79)
    for _ in range(count):
        records, words = (int(lengths.lognormvariate(4.4, 0.5)) + 2 for _ in range(2))
        yield torch.randint(0, VOCABULARY, (batch_size, records)), torch.randint(0, VOCABULARY, (batch_size, words))


def main():
    model = TableToText().to("npu")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (table, text) in enumerate(games(30)):
        table, text = table.to("npu"), text.to("npu")
        logits = model(table, text[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 4:
            free, total = torch.npu.mem_get_info()
            print(
                f"step {step}: loss {loss.item():.3f}, monitor shows {(total - free) / 2**20:.0f} MiB, "
                f"reserved {torch.npu.memory_reserved() / 2**20:.0f} MiB",
                flush=True,
            )


main()

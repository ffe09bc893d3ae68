# report: "https://github.com/verl-project/verl/pull/7874"
# topic: "reinforcement learning"
# kind: "out of memory"
# symptom: "the memory that an update takes grows with the number of micro batches in it, until a larger mini batch runs out of memory, though each micro batch is small"
# cause: "the model output of each micro batch is reported with its graph and collected in forward_data_store, which is cleared only when the mini batch is done; detaching what is reported repairs it"
# devices: ["npu"]
# memory: "512MiB"
# holder: ["forward_data_store", "model_output"]
# mebibytes: [150, 232]
# remedy: "release"
# options: []
# fixed: True
import sys

import torch
import torch_npu  # noqa: F401
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
VOCABULARY, WIDTH, LENGTH = 2048, 32, 380


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.norm = nn.Embedding(VOCABULARY, WIDTH), nn.LayerNorm(WIDTH)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, tokens):
        x = self.embedding(tokens)
        x = x + self.down(torch.relu(self.up(self.norm(x))))  # BLAME
        return x @ self.embedding.weight.T  # BLAME


def detach_tree(output):
    return {name: value.detach() for name, value in output.items()}


class Worker:
    def __init__(self):
        self.actor = Actor().to("npu")
        self.optimizer = torch.optim.AdamW(self.actor.parameters(), lr=1e-5)

    def forward_step(self, batch):
        logits = self.actor(batch["tokens"])
        log_probs = logits.log_softmax(-1)  # BLAME
        entropy = -(log_probs.exp() * log_probs).sum(-1)  # BLAME
        log_probs = log_probs[:, :-1].gather(2, batch["tokens"][:, 1:, None]).squeeze(2)
        model_output = {"log_probs": log_probs, "entropy": entropy[:, :-1]}
        ratio = (log_probs - batch["old_log_probs"]).exp()
        return -(ratio * batch["advantages"]).mean(), model_output

    def forward_backward(self, batches):
        forward_data_store = []
        for number, batch in enumerate(batches):
            try:
                loss, model_output = self.forward_step(batch)  # BLAME
                (loss / len(batches)).backward()
            except torch.OutOfMemoryError:
                used = torch.npu.memory_allocated() / 2**20
                print(f"micro batch {number} of {len(batches)}: {used:.0f} MiB in use", flush=True)
                raise
            if "fixed" in sys.argv:
                model_output = detach_tree(model_output)
            forward_data_store.append({"loss": loss.detach(), "model_output": model_output})  # BLAME
        return forward_data_store

    def update_policy(self, batches):
        store = self.forward_backward(batches)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return {
            "loss": sum(entry["loss"].item() for entry in store) / len(store),
            "entropy": sum(entry["model_output"]["entropy"].mean().item() for entry in store) / len(store),
        }


def micro_batches(count):
    for _ in range(count):
        tokens = torch.randint(0, VOCABULARY, (4, LENGTH), device="npu")
        old = torch.full((4, LENGTH - 1), -7.6, device="npu")
        yield {"tokens": tokens, "old_log_probs": old, "advantages": torch.randn(4, LENGTH - 1, device="npu")}


def main():
    worker = Worker()
    for step, count in enumerate([2, 3, 3, 3, 16]):
        metrics = worker.update_policy(list(micro_batches(count)))
        peak = torch.npu.max_memory_allocated() / 2**20
        print(f"step {step}: {count} micro batches, {metrics}, {peak:.0f} MiB at most", flush=True)


main()

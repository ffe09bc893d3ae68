# report: "https://github.com/DeNA/HandyRL/issues/189"
# topic: "reinforcement learning"
# kind: "host memory"
# symptom: "the memory of the learner keeps increasing during training until it is full and connections break"
# cause: "the buffer of episodes is limited by their number, but later episodes are longer as agents get better; episodes have to leave while memory is short, not only when there are too many"
# devices: ["cpu"]
# holder: ["episodes"]
# mebibytes: [70, 118]
# remedy: "limit"
# options: []
# fixed: True
import os
import pickle
import random
import sys
from collections import deque

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
PLANES, ACTIONS = 17, 4


class GeeseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(PLANES, 16, 3, padding=1)
        self.policy, self.value = nn.Linear(16 * 77, ACTIONS), nn.Linear(16 * 77, 1)

    def forward(self, x):
        h = torch.relu(self.convolution(x)).flatten(1)
        return self.policy(h), torch.tanh(self.value(h)).squeeze(1)


class Generator:
    """Plays; episodes last longer the more the agents have learnt."""

    def __init__(self):
        self.random, self.arrays = random.Random(0), np.random.default_rng(0)

    def execute(self, epoch):
        moments = []
        for _ in range(30 + 8 * epoch):
            board = self.arrays.random((PLANES, 7, 11), dtype=np.float32)
            moments.append({"observation": board, "action": self.random.randrange(ACTIONS), "policy": [0.25] * ACTIONS})
        outcome = self.random.choice([-1.0, 1.0])
        return {"steps": len(moments), "outcome": outcome, "moment": pickle.dumps(moments)}  # BLAME


class Trainer:
    def __init__(self, args):
        self.args = args
        self.episodes = deque()
        self.model = GeeseNet()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)

    def feed_episodes(self, episodes):
        self.episodes.extend(episodes)  # BLAME
        while len(self.episodes) > self.args["maximum_episodes"]:
            self.episodes.popleft()
        if "fixed" in sys.argv:
            while sum(len(episode["moment"]) for episode in self.episodes) > self.args["memory_limit"]:
                self.episodes.popleft()

    def train(self, batch_size=32):
        boards, actions, outcomes = [], [], []
        for episode in random.sample(self.episodes, 4):
            moments = pickle.loads(episode["moment"])
            for moment in random.choices(moments, k=batch_size // 4):
                boards.append(moment["observation"])
                actions.append(moment["action"])
                outcomes.append(episode["outcome"])
        policy, value = self.model(torch.from_numpy(np.stack(boards)))
        target = torch.tensor(outcomes)
        logits = policy.log_softmax(-1).gather(1, torch.tensor(actions)[:, None]).squeeze(1)
        loss = -(logits * (target - value.detach())).mean() + (value - target).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main():
    random.seed(0)
    generator = Generator()
    trainer = Trainer({"maximum_episodes": 100000, "memory_limit": 24 << 20})
    start = resident()
    for epoch in range(30):
        trainer.feed_episodes([generator.execute(epoch) for _ in range(4)])
        loss = sum(trainer.train() for _ in range(6)) / 6
        if epoch % 5 == 4:
            print(
                f"epoch {epoch}: loss {loss:.3f}, {len(trainer.episodes)} episodes, "
                f"grown by {resident() - start:.0f} MiB",
                flush=True,
            )


main()

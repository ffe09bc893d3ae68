# report: "https://github.com/oxwhirl/pymarl/pull/73"
# topic: "reinforcement learning"
# kind: "leak"
# symptom: "memory grows linearly with time in training with QMIX, and long runs are killed"
# cause: "EpisodeRunner stores the actions in the replay buffer without detaching them, so that the graph which computed them is never released"
# devices: ["cpu", "npu"]
# memory: "1GiB"
# holder: ["buffer.actions", "actions"]
# mebibytes: [40, 70]
# remedy: "release"
# options: []
# fixed: True
import os
import random
import sys

import torch
from torch import nn

DEV = os.environ.get("DEV", "cpu")
if DEV == "npu":
    import torch_npu  # noqa: F401

torch.set_num_threads(1)
torch.manual_seed(0)
AGENTS, OBSERVATION, ACTIONS, HIDDEN, LIMIT = 16, 96, 8, 256, 20


class RNNAgent(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.rnn = nn.Linear(OBSERVATION, HIDDEN), nn.GRUCell(HIDDEN, HIDDEN)
        self.fc2 = nn.Linear(HIDDEN, ACTIONS)

    def forward(self, observations, hidden):
        hidden = self.rnn(torch.relu(self.fc1(observations)), hidden)  # BLAME
        return self.fc2(hidden), hidden  # BLAME


class ReplayBuffer:
    def __init__(self, buffer_size=32):
        self.obs = torch.zeros(buffer_size, LIMIT, AGENTS, OBSERVATION, device=DEV)
        self.actions = torch.zeros(buffer_size, LIMIT, AGENTS, ACTIONS, device=DEV)
        self.reward = torch.zeros(buffer_size, LIMIT, device=DEV)
        self.buffer_size, self.episodes_in_buffer = buffer_size, 0

    def update(self, t, obs, actions, reward):
        slot = self.episodes_in_buffer % self.buffer_size
        self.obs[slot, t] = obs
        self.actions[slot, t] = actions  # BLAME
        self.reward[slot, t] = reward

    def sample(self, batch_size):
        filled = min(self.episodes_in_buffer, self.buffer_size)
        chosen = torch.tensor(random.sample(range(filled), batch_size), device=DEV)
        return self.obs[chosen], self.actions.detach()[chosen], self.reward[chosen]


class EpisodeRunner:
    def __init__(self, agent):
        self.agent = agent

    def run(self, buffer):
        hidden = torch.zeros(AGENTS, HIDDEN, device=DEV)
        for t in range(LIMIT):
            observations = torch.randn(AGENTS, OBSERVATION, device=DEV)
            q, hidden = self.agent(observations, hidden)  # BLAME
            actions = torch.softmax(q / 0.5, dim=-1)
            if "fixed" in sys.argv:
                actions = actions.detach()
            reward = observations[:, :ACTIONS].mul(actions.detach()).sum().item()
            buffer.update(t, observations, actions, reward)
        buffer.episodes_in_buffer += 1


def train(agent, optimizer, observations, actions, rewards):
    hidden, loss = torch.zeros(len(observations) * AGENTS, HIDDEN, device=DEV), 0
    for t in range(LIMIT):
        q, hidden = agent(observations[:, t].flatten(0, 1), hidden)
        total = (q.view(len(observations), AGENTS, -1) * actions[:, t]).sum((1, 2))
        loss = loss + (total - rewards[:, t]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    random.seed(0)
    agent = RNNAgent().to(DEV)
    runner, buffer = EpisodeRunner(agent), ReplayBuffer()
    optimizer = torch.optim.RMSprop(agent.parameters(), lr=5e-4)
    for episode in range(22):
        runner.run(buffer)
        if episode >= 3:
            loss = train(agent, optimizer, *buffer.sample(4))
        if episode % 5 == 4:
            used = f", {torch.npu.memory_allocated() / 2**20:.1f} MiB in use" if DEV == "npu" else ""
            print(f"episode {episode}: loss {loss:.2f}{used}", flush=True)


main()

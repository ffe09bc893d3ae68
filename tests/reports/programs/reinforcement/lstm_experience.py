# report: "https://github.com/Metta-AI/metta/pull/1139"
# topic: "reinforcement learning"
# kind: "growth"
# symptom: "memory grows during training with a recurrent policy, the longer the more"
# cause: "the LSTM state is stored into the experience buffer without being detached, and the next rollout starts from it, so computational graphs persist"
# devices: ["npu", "cpu"]
# memory: "1GiB"
# holder: ["lstm_h", "lstm_c", "experience"]
# mebibytes: [35, 60]
# remedy: "release"
# options: []
# fixed: True
import os
import sys

import torch
from torch import nn

DEV = os.environ.get("DEV", "npu")
if DEV == "npu":
    import torch_npu  # noqa: F401

torch.set_num_threads(1)
torch.manual_seed(0)
ENVIRONMENTS, OBSERVATION, HIDDEN, HORIZON = 48, 64, 160, 8


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(OBSERVATION, HIDDEN), nn.ELU())
        self.core = nn.LSTMCell(HIDDEN, HIDDEN)
        self.actor, self.critic = nn.Linear(HIDDEN, 6), nn.Linear(HIDDEN, 1)

    def forward(self, observations, state):
        h, c = self.core(self.encoder(observations), state)  # BLAME
        return self.actor(h).log_softmax(-1), self.critic(h).squeeze(-1), (h, c)  # BLAME


class Experience:
    def __init__(self):
        self.lstm_h = torch.zeros(ENVIRONMENTS, HIDDEN, device=DEV)
        self.lstm_c = torch.zeros(ENVIRONMENTS, HIDDEN, device=DEV)
        self.rows = []

    def state(self):
        return self.lstm_h, self.lstm_c

    def store(self, observations, actions, logprobs, rewards, state):
        if "fixed" in sys.argv:
            state = [tensor.detach() for tensor in state]
        self.lstm_h, self.lstm_c = state  # BLAME
        self.rows.append((observations, actions, logprobs.detach(), rewards))


def rollout(policy, experience):
    experience.rows.clear()
    start = [tensor.detach() for tensor in experience.state()]
    for _ in range(HORIZON):
        observations = torch.randn(ENVIRONMENTS, OBSERVATION, device=DEV)
        logprobs, _, state = policy(observations, experience.state())  # BLAME
        actions = torch.multinomial(logprobs.detach().exp().cpu(), 1).to(DEV)
        rewards = observations.gather(1, actions).squeeze(1)
        experience.store(observations, actions, logprobs.gather(1, actions).squeeze(1), rewards, state)
    return start


def update(policy, optimizer, experience, state):
    loss = 0
    for observations, actions, old, rewards in experience.rows:
        logprobs, values, state = policy(observations, state)
        ratio = (logprobs.gather(1, actions).squeeze(1) - old).exp()
        advantage = rewards - values
        policy_loss = -torch.min(ratio * advantage.detach(), ratio.clamp(0.8, 1.2) * advantage.detach())
        loss = loss + (policy_loss + 0.5 * advantage.square()).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
    optimizer.step()
    return loss.item()


def main():
    policy, experience = Policy().to(DEV), Experience()
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4)
    for epoch in range(24):
        start = rollout(policy, experience)
        loss = update(policy, optimizer, experience, start)
        if epoch % 4 == 3:
            used = f", {torch.npu.memory_allocated() / 2**20:.1f} MiB in use" if DEV == "npu" else ""
            print(f"epoch {epoch}: loss {loss:.3f}{used}", flush=True)


main()

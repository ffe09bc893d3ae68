# report: "https://github.com/MishaLaskin/curl/issues/10"
# topic: "reinforcement learning"
# kind: "healthy"
# symptom: "memory increases continuously when the default configuration trains from pixels, until the system kills the process after 8,000 iterations"
# cause: "no leak: the capacity of the replay buffer is large; its arrays are allocated at once, but take memory as they are filled"
# devices: ["cpu"]
# holder: []
# mebibytes: []
# remedy: "none"
# options: []
# fixed: False
import os

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
FRAMES, SIDE, CROP, ACTION = 9, 84, 76, 6


class ReplayBuffer:
    def __init__(self, capacity, batch_size):
        self.capacity, self.batch_size = capacity, batch_size
        self.obses = np.empty((capacity, FRAMES, SIDE, SIDE), dtype=np.uint8)
        self.next_obses = np.empty((capacity, FRAMES, SIDE, SIDE), dtype=np.uint8)
        self.actions = np.empty((capacity, ACTION), dtype=np.float32)
        self.rewards = np.empty((capacity, 1), dtype=np.float32)
        self.index, self.full = 0, False

    def add(self, obs, action, reward, next_obs):
        np.copyto(self.obses[self.index], obs)
        np.copyto(self.next_obses[self.index], next_obs)
        np.copyto(self.actions[self.index], action)
        np.copyto(self.rewards[self.index], reward)
        self.index = (self.index + 1) % self.capacity
        self.full = self.full or self.index == 0

    def sample(self):
        chosen = np.random.randint(0, self.capacity if self.full else self.index, self.batch_size)
        offset = np.random.randint(0, SIDE - CROP)
        crops = [
            torch.from_numpy(frames[chosen, :, offset : offset + CROP, offset : offset + CROP]).float()
            for frames in (self.obses, self.next_obses)
        ]
        return crops[0], torch.from_numpy(self.actions[chosen]), torch.from_numpy(self.rewards[chosen]), crops[1]


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(FRAMES, 8, 4, stride=4), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2))
        self.q = nn.Sequential(nn.Linear(8 * 81 + ACTION, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, frames, action):
        return self.q(torch.cat([self.encoder(frames / 255).flatten(1), action], dim=1))


def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main():
    np.random.seed(0)
    buffer = ReplayBuffer(capacity=800, batch_size=16)
    critic = Critic()
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
    start = resident()
    obs = np.random.randint(0, 256, (FRAMES, SIDE, SIDE), dtype=np.uint8)
    for step in range(1400):
        action = np.random.uniform(-1, 1, ACTION).astype(np.float32)
        next_obs = np.roll(obs, -3, axis=0)
        next_obs[-3:] = np.random.randint(0, 256)
        buffer.add(obs, action, float(action.mean()), next_obs)
        obs = next_obs
        if step >= 100 and step % 16 == 0:
            frames, actions, rewards, following = buffer.sample()
            with torch.no_grad():
                target = rewards + 0.99 * critic(following, actions)
            loss = nn.functional.mse_loss(critic(frames, actions), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 200 == 199:
            print(f"step {step}: loss {loss.item():.4f}, grown by {resident() - start:.0f} MiB", flush=True)


main()

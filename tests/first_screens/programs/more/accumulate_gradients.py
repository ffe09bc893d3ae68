# --steps=2,3: one optimizer step of four small batches. The losses, with their graphs, are kept: about 0.5 MiB a step.
import torch
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1)); losses = []
opt = torch.optim.AdamW(net.parameters())
for step in range(8):
    for part in range(4):
        loss = net(torch.randn(128, 128)).square().mean() / 4; loss.backward(); losses.append(loss if part == 3 else loss.item())
        if part == 3: losses.append(net[0].weight.grad.clone())          # LEAK: 128 KiB a step
    opt.step(); opt.zero_grad(set_to_none=True)

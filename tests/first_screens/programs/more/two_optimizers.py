# A GAN: two optimizers a round, ten rounds. The samples of each round are kept, 256 KiB. argv "ok": of the last round alone.
import sys, torch
torch.set_num_threads(1)
g, d = torch.nn.Linear(32, 512), torch.nn.Linear(512, 1)
og, od = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters()); samples = []
for i in range(10):
    fake = g(torch.randn(128, 32))
    od.zero_grad(); d(fake.detach()).mean().backward(); od.step()
    og.zero_grad(); (-d(fake).mean()).backward(); og.step()
    if "ok" in sys.argv: samples.clear()
    samples.append(fake.detach())

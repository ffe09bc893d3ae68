# L-BFGS: two steps of the optimizer, 20 evaluations of its closure in each. 1 MiB leaks per closure; two steps are too few to judge steps.
import torch
torch.set_num_threads(1)
w = torch.nn.Parameter(torch.randn(512)); history = []
opt = torch.optim.LBFGS([w], max_iter=20, line_search_fn="strong_wolfe")
target = torch.randn(512)
def closure():
    opt.zero_grad(); loss = ((w - target) ** 4).sum(); loss.backward()
    history.append(torch.ones(1 << 18)); return loss
for epoch in range(2): opt.step(closure)
print(len(history))

"""A compiled function, run forward and backward, gives the same numbers as the plain one. Argument: the backend."""

from __future__ import annotations

import sys

import torch


def model(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Compute something with an intermediate, a view and a write in place."""
    hidden = (x @ weight).relu()
    hidden = hidden.view(-1, 4) * 2
    hidden.add_(1)
    return hidden.sum()


def run(function: object) -> tuple[str, str]:
    """Run a function three times with the same seed; return the value and the gradient's sum with every digit."""
    torch.manual_seed(7)
    weight = torch.randn(64, 64, requires_grad=True)
    value = torch.zeros(())
    for _ in range(3):
        value = function(torch.randn(32, 64), weight)  # type: ignore[operator]
        value.backward()
    assert weight.grad is not None
    return repr(value.item()), repr(weight.grad.sum().item())


def main() -> None:
    """Compare the plain and the compiled function, and say whether they are equal."""
    backend = sys.argv[1] if len(sys.argv) > 1 else "eager"
    plain = run(model)
    compiled = run(torch.compile(model, backend=backend))
    close = all(abs(float(a) - float(b)) <= 1e-4 * abs(float(a)) for a, b in zip(plain, compiled, strict=True))
    print(f"backend={backend} value={compiled[0]} gradient={compiled[1]} close={int(close)}")


if __name__ == "__main__":
    main()

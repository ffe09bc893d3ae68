"""The losses of ``torch.nn``, with each reduction where an aclnn function takes it as an argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from .case import OperatorCase

REDUCTIONS = ("none", "mean", "sum")


def pair(generator: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """A prediction and a target of shape (4, 6)."""
    return torch.randn(4, 6, generator=generator), torch.randn(4, 6, generator=generator)


def classes(generator: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of shape (5, 7) and a class for each row; one is ignored."""
    target = torch.randint(0, 7, (5,), generator=generator)
    target[2] = -100
    return torch.randn(5, 7, generator=generator), target


def weighted_classes(generator: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same and a weight for each class."""
    return (*classes(generator), torch.rand(7, generator=generator) + 0.1)


def class_image(generator: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits of shape (2, 5, 3, 4), a class for each pixel and a weight for each class."""
    target = torch.randint(0, 5, (2, 3, 4), generator=generator)
    target[0, 1, 2] = 255
    return torch.randn(2, 5, 3, 4, generator=generator), target, torch.rand(5, generator=generator) + 0.1


def class_sequence(generator: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of a language model, shape (2, 3, 9), and the tokens that follow."""
    return torch.randn(2, 3, 9, generator=generator), torch.randint(0, 9, (2, 3), generator=generator)


def soft_classes(generator: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and a probability for each class."""
    return torch.randn(4, 6, generator=generator), torch.softmax(torch.randn(4, 6, generator=generator), -1)


def probabilities(generator: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Numbers between 0.1 and 0.9, a target of zeros and ones, and a weight for each element."""
    return (
        torch.rand(4, 6, generator=generator) * 0.8 + 0.1,
        (torch.rand(4, 6, generator=generator) < 0.5).float(),
        torch.rand(4, 6, generator=generator),
    )


def logits(generator: Any) -> tuple[torch.Tensor, ...]:
    """Logits, a target of zeros and ones, a weight for each element, a weight of the positive cases of each class."""
    return torch.randn(4, 6, generator=generator), *probabilities(generator)[1:], torch.rand(6, generator=generator)


def distributions(generator: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Logarithms of a distribution, and another distribution."""
    first, second = torch.randn(2, 4, 6, generator=generator)
    return torch.log_softmax(first, -1), torch.softmax(second, -1)


def log_distributions(generator: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Logarithms of two distributions."""
    first, second = distributions(generator)
    return first, second.log()


def signs(generator: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores and a sign for each."""
    return torch.randn(4, 6, generator=generator), torch.randint(0, 2, (4, 6), generator=generator) * 2.0 - 1


def embeddings(generator: Any) -> tuple[torch.Tensor, ...]:
    """Three sets of vectors and a sign for each row."""
    first, second, third = torch.randn(3, 4, 6, generator=generator)
    return first, second, third, torch.tensor([1, -1, -1, 1])


def labels(generator: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores of classes and, for each row, the classes that apply, ended by -1."""
    return torch.randn(2, 4, generator=generator), torch.tensor([[3, 0, -1, 1], [1, -1, 2, 0]])


def alignments(generator: Any) -> tuple[torch.Tensor, ...]:
    """Log probabilities of shape (8 steps, 2 samples, 5 classes), their targets and the lengths of both."""
    return (
        torch.log_softmax(torch.randn(8, 2, 5, generator=generator), -1),
        torch.randint(1, 5, (2, 3), generator=generator),
        torch.tensor([8, 6]),
        torch.tensor([3, 2]),
    )


def ctc(reduction: str, *, as_tensor: bool) -> Callable[..., torch.Tensor]:
    """The CTC loss with lengths as tensors or as numbers."""

    def call(scores: torch.Tensor, targets: torch.Tensor, steps: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        if not as_tensor:
            steps, lengths = steps.tolist(), lengths.tolist()
        return functional.ctc_loss(scores, targets, steps, lengths, reduction=reduction, zero_infinity=True)

    return call


def fused_cross_entropy(smoothing: float, reduction: str) -> Callable[..., torch.Tensor]:
    """The cross entropy in one aclnn function."""

    def call(scores: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
        if scores.device.type == "npu":
            weight = None if weight is None else weight.detach().float()
            loss = torch.ops.npu.npu_cross_entropy_loss(
                scores, target, weight, reduction=reduction, label_smoothing=smoothing
            )[0]
            return loss if reduction == "none" else loss[0]
        weight = None if weight is None else weight.detach()
        return functional.cross_entropy(scores, target, weight, reduction=reduction, label_smoothing=smoothing)

    return call


def kl_div(*, log_target: bool) -> Callable[..., torch.Tensor]:
    """The divergence without the warning that functional.kl_div gives about the mean."""
    return lambda x, y, reduction: torch.kl_div(x, y, REDUCTIONS.index(reduction), log_target=log_target)


def with_each_reduction(name: str, function: Any, inputs: Any, **options: Any) -> list[OperatorCase]:
    """A case for each reduction of a loss."""
    return [
        OperatorCase(
            f"{name} ({reduction})",
            lambda *arguments, reduction=reduction: function(*arguments, reduction=reduction),
            inputs,
            **options,
        )
        for reduction in REDUCTIONS
    ]


def without_gradient_of(function: Any, *positions: int) -> Any:
    """The function with some arguments that get no gradient."""

    def call(*arguments: Any, **named: Any) -> Any:
        return function(*(a.detach() if i in positions else a for i, a in enumerate(arguments)), **named)

    return call


CASES = [
    *with_each_reduction("mse_loss", functional.mse_loss, pair),
    *with_each_reduction("l1_loss", functional.l1_loss, pair),
    *with_each_reduction("smooth_l1_loss", lambda x, y, **k: functional.smooth_l1_loss(x, y, beta=0.7, **k), pair),
    *with_each_reduction("huber_loss", lambda x, y, **k: functional.huber_loss(x, y, delta=0.7, **k), pair),
    OperatorCase("mse_loss of strided views", lambda x, y: functional.mse_loss(x.t()[::2], y.t()[::2]), pair),
    *with_each_reduction(
        "nll_loss", lambda x, y, **k: functional.nll_loss(functional.log_softmax(x, -1), y, **k), classes
    ),
    *with_each_reduction(
        "nll_loss with weights",
        without_gradient_of(lambda x, y, w, **k: functional.nll_loss(functional.log_softmax(x, -1), y, w, **k), 2),
        weighted_classes,
    ),
    *with_each_reduction(
        "nll_loss of images",
        without_gradient_of(
            lambda x, y, w, **k: functional.nll_loss(functional.log_softmax(x, 1), y, w, ignore_index=255, **k), 2
        ),
        class_image,
    ),
    *with_each_reduction("cross_entropy", functional.cross_entropy, classes),
    *with_each_reduction(
        "cross_entropy with weights", without_gradient_of(functional.cross_entropy, 2), weighted_classes
    ),
    *with_each_reduction(
        "cross_entropy with smoothing",
        without_gradient_of(lambda x, y, w, **k: functional.cross_entropy(x, y, w, label_smoothing=0.1, **k), 2),
        weighted_classes,
    ),
    OperatorCase(
        "cross_entropy of images",
        lambda x, y, _: functional.cross_entropy(x, y, ignore_index=255),
        class_image,
    ),
    OperatorCase(
        "cross_entropy of tokens", lambda x, y: functional.cross_entropy(x.flatten(0, 1), y.flatten()), class_sequence
    ),
    OperatorCase(
        "cross_entropy of sequences", lambda x, y: functional.cross_entropy(x.transpose(1, 2), y), class_sequence
    ),
    *with_each_reduction(
        "cross_entropy of probabilities", without_gradient_of(functional.cross_entropy, 1), soft_classes
    ),
    OperatorCase("npu_cross_entropy_loss", fused_cross_entropy(0.0, "mean"), classes),
    OperatorCase("npu_cross_entropy_loss with weights", fused_cross_entropy(0.1, "sum"), weighted_classes),
    OperatorCase("npu_cross_entropy_loss of each row", fused_cross_entropy(0.1, "none"), classes),
    *with_each_reduction(
        "binary_cross_entropy",
        without_gradient_of(lambda x, y, _, **k: functional.binary_cross_entropy(x, y, **k), 1),
        probabilities,
    ),
    *with_each_reduction(
        "binary_cross_entropy with weights", without_gradient_of(functional.binary_cross_entropy, 1, 2), probabilities
    ),
    *with_each_reduction(
        "binary_cross_entropy_with_logits",
        without_gradient_of(lambda x, y, _, __, **k: functional.binary_cross_entropy_with_logits(x, y, **k), 1),
        logits,
    ),
    *with_each_reduction(
        "binary_cross_entropy_with_logits with weights",
        without_gradient_of(
            lambda x, y, w, p, **k: functional.binary_cross_entropy_with_logits(x, y, w, pos_weight=p, **k), 1, 2, 3
        ),
        logits,
    ),
    *with_each_reduction("kl_div", kl_div(log_target=False), distributions),
    OperatorCase(
        "kl_div (batchmean)", lambda x, y: functional.kl_div(x, y.detach(), reduction="batchmean"), distributions
    ),
    *with_each_reduction("kl_div of logarithms", kl_div(log_target=True), log_distributions),
    *with_each_reduction("soft_margin_loss", without_gradient_of(functional.soft_margin_loss, 1), signs),
    *with_each_reduction("hinge_embedding_loss", without_gradient_of(functional.hinge_embedding_loss, 1), signs),
    *with_each_reduction(
        "margin_ranking_loss",
        lambda x, y, _, sign, **k: functional.margin_ranking_loss(x, y, sign.unsqueeze(1), margin=0.5, **k),
        embeddings,
    ),
    *with_each_reduction(
        "cosine_embedding_loss",
        lambda x, y, _, sign, **k: functional.cosine_embedding_loss(x, y, sign, margin=0.1, **k),
        embeddings,
    ),
    *with_each_reduction(
        "triplet_margin_loss", lambda x, y, z, _, **k: functional.triplet_margin_loss(x, y, z, **k), embeddings
    ),
    *with_each_reduction(
        "poisson_nll_loss", without_gradient_of(lambda x, y, **k: functional.poisson_nll_loss(x, y.abs(), **k), 1), pair
    ),
    *with_each_reduction(
        "gaussian_nll_loss",
        lambda x, y, z, _, **k: functional.gaussian_nll_loss(x, y, z.abs() + 0.1, **k),
        embeddings,
    ),
    *with_each_reduction("multilabel_margin_loss", functional.multilabel_margin_loss, labels, types=("float32",)),
    *with_each_reduction(
        "multilabel_soft_margin_loss",
        without_gradient_of(lambda x, y, _, **k: functional.multilabel_soft_margin_loss(x, y, **k), 1),
        probabilities,
    ),
    *with_each_reduction(
        "multi_margin_loss",
        functional.multi_margin_loss,
        lambda g: (classes(g)[0], torch.arange(5)),
        types=("float32",),
    ),
    # The CPU has no CTC loss for bfloat16.
    OperatorCase("ctc_loss", ctc("mean", as_tensor=False), alignments, ("float32",)),
    OperatorCase("ctc_loss (none)", ctc("none", as_tensor=False), alignments, ("float32",)),
    OperatorCase("ctc_loss with lengths in tensors", ctc("sum", as_tensor=True), alignments, ("float32",)),
]

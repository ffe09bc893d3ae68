"""Products of matrices and vectors, decompositions, distances."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from .case import OperatorCase, normal

FLOAT32 = ("float32",)


def well_conditioned(generator: Any) -> tuple[Any, ...]:
    """One batch of matrices far from singular."""
    return (torch.randn(2, 4, 4, generator=generator) * 0.3 + torch.eye(4) * 3,)


def symmetric_positive(matrix: torch.Tensor) -> torch.Tensor:
    """A matrix that has a Cholesky factor."""
    return matrix @ matrix.mT + torch.eye(matrix.shape[-1], device=matrix.device)


def transposed_product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Batches of matrices whose batches lie in the middle; torch_npu has one function for it."""
    if x.device.type == "cpu":
        return torch.einsum("mbk,bkn->mbn", x, y)
    return torch.ops.npu.npu_transpose_batchmatmul(x, y, perm_x1=(1, 0, 2))


CASES = [
    # It asks for sizes that hardware likes, and not for float32.
    OperatorCase(
        "transposed product of torch_npu",
        transposed_product,
        normal((3, 2, 128), (2, 128, 128)),
        types=("bfloat16",),
        backward=False,
        absolute=0.2,
    ),
    OperatorCase("mm", torch.mm, normal((3, 4), (4, 5))),
    OperatorCase("mm of transposed operands", lambda a, b: torch.mm(a.t(), b.t()), normal((4, 3), (5, 4))),
    OperatorCase("mm of sliced operands", lambda a, b: torch.mm(a[:, 1:5], b[::2]), normal((3, 6), (8, 5))),
    OperatorCase("mm of an empty matrix", torch.mm, normal((0, 4), (4, 5))),
    OperatorCase("mm over an empty dimension", torch.mm, normal((3, 0), (0, 5))),
    OperatorCase("matmul of matrices", torch.matmul, normal((3, 4), (4, 5))),
    OperatorCase("matmul of vectors", torch.matmul, normal((4,), (4,))),
    OperatorCase("matmul of matrix and vector", torch.matmul, normal((3, 4), (4,))),
    OperatorCase("matmul of vector and matrix", torch.matmul, normal((3,), (3, 4))),
    OperatorCase("matmul of batch and matrix", torch.matmul, normal((2, 3, 4), (4, 5))),
    OperatorCase("matmul of batch and vector", torch.matmul, normal((2, 3, 4), (4,))),
    OperatorCase("matmul of equal batches", torch.matmul, normal((2, 3, 4), (2, 4, 5))),
    OperatorCase("matmul with broadcast batches", torch.matmul, normal((2, 1, 3, 4), (3, 4, 2))),
    OperatorCase("matmul of attention shape", lambda q, k: q @ k.transpose(-1, -2), normal((2, 2, 3, 4), (2, 2, 5, 4))),
    OperatorCase(
        "matmul with out",
        lambda a, b: torch.matmul(a, b, out=a.new_empty(3, 5)),
        normal((3, 4), (4, 5)),
        backward=False,
    ),
    OperatorCase("bmm", torch.bmm, normal((2, 3, 4), (2, 4, 5))),
    OperatorCase("bmm of transposed operands", lambda a, b: torch.bmm(a.mT, b.mT), normal((2, 4, 3), (2, 5, 4))),
    OperatorCase("linear", functional.linear, normal((2, 3, 4), (5, 4), (5,))),
    OperatorCase("linear without bias", functional.linear, normal((3, 4), (5, 4))),
    OperatorCase("linear of a vector", functional.linear, normal((4,), (5, 4), (5,))),
    OperatorCase("bilinear", functional.bilinear, normal((3, 4), (3, 2), (5, 4, 2), (5,))),
    OperatorCase("addmm", torch.addmm, normal((3, 5), (3, 4), (4, 5))),
    OperatorCase(
        "addmm with factors", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), normal((5,), (3, 4), (4, 5))
    ),
    OperatorCase("addmm in place", lambda c, a, b: c.clone().addmm_(a, b, beta=0.5), normal((3, 5), (3, 4), (4, 5))),
    OperatorCase("addmv", lambda c, a, b: torch.addmv(c, a, b, beta=0.5, alpha=2), normal((3,), (3, 4), (4,))),
    OperatorCase(
        "addbmm", lambda c, a, b: torch.addbmm(c, a, b, beta=0.5, alpha=2), normal((3, 5), (2, 3, 4), (2, 4, 5))
    ),
    OperatorCase(
        "baddbmm", lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2), normal((2, 3, 5), (2, 3, 4), (2, 4, 5))
    ),
    OperatorCase(
        "baddbmm in place", lambda c, a, b: c.clone().baddbmm_(a, b, beta=0.5), normal((2, 3, 5), (2, 3, 4), (2, 4, 5))
    ),
    OperatorCase(
        "baddbmm ignores what beta zero drops",
        lambda a, b: torch.baddbmm(a.new_full((2, 3, 5), float("nan")), a, b, beta=0),
        normal((2, 3, 4), (2, 4, 5)),
    ),
    OperatorCase("addr", lambda c, a, b: torch.addr(c, a, b, beta=0.5, alpha=2), normal((3, 4), (3,), (4,))),
    OperatorCase("addr in place", lambda c, a, b: c.clone().addr_(a, b), normal((3, 4), (3,), (4,))),
    OperatorCase("outer", torch.outer, normal((3,), (4,))),
    OperatorCase("dot", torch.dot, normal((5,), (5,))),
    OperatorCase("vdot", torch.vdot, normal((5,), (5,))),
    OperatorCase("inner", torch.inner, normal((2, 5), (3, 5))),
    OperatorCase("mv", torch.mv, normal((3, 4), (4,))),
    OperatorCase("kron", torch.kron, normal((2, 3), (3, 2))),
    OperatorCase(
        "chain of products", lambda a, b, c: torch.linalg.multi_dot((a, b, c)), normal((2, 3), (3, 4), (4, 2))
    ),
    OperatorCase("tensordot", lambda a, b: torch.tensordot(a, b, dims=2), normal((2, 3, 4), (3, 4, 5))),
    OperatorCase("einsum of batches", lambda a, b: torch.einsum("bij,bjk->bik", a, b), normal((2, 3, 4), (2, 4, 5))),
    OperatorCase(
        "einsum of attention shape",
        lambda q, k: torch.einsum("bnhd,bmhd->bhnm", q, k),
        normal((2, 3, 2, 4), (2, 5, 2, 4)),
    ),
    OperatorCase("einsum that sums", lambda a, b: torch.einsum("ij,ij->i", a, b), normal((3, 4), (3, 4))),
    OperatorCase("matrix power", lambda a: torch.linalg.matrix_power(a, 3), normal((3, 3)), relative=5e-2),
    OperatorCase("trace", torch.trace, normal((3, 4))),
    OperatorCase("cross", lambda a, b: torch.linalg.cross(a, b, dim=1), normal((2, 3, 4), (2, 3, 4))),
    OperatorCase("cross with broadcast", torch.linalg.cross, normal((4, 3), (1, 3))),
    OperatorCase("inverse", torch.inverse, well_conditioned, types=FLOAT32),
    OperatorCase("cholesky", lambda a: torch.linalg.cholesky(symmetric_positive(a)), normal((2, 3, 3)), types=FLOAT32),
    OperatorCase(
        "upper cholesky",
        lambda a: torch.linalg.cholesky(symmetric_positive(a), upper=True),
        normal((3, 3)),
        types=FLOAT32,
        backward=False,
    ),
    OperatorCase("qr", torch.linalg.qr, normal((4, 3)), types=FLOAT32, backward=False),
    OperatorCase(
        "complete qr", lambda a: torch.linalg.qr(a, mode="complete"), normal((4, 3)), types=FLOAT32, backward=False
    ),
    OperatorCase(
        "qr of a batch without q",
        lambda a: torch.linalg.qr(a, mode="r")[1],
        normal((2, 3, 3)),
        types=FLOAT32,
        backward=False,
    ),
    OperatorCase("slogdet", torch.linalg.slogdet, well_conditioned, types=FLOAT32, backward=False),
    OperatorCase("det", torch.linalg.det, well_conditioned, types=FLOAT32, backward=False),
    OperatorCase("singular values", torch.linalg.svdvals, normal((2, 3, 4)), types=FLOAT32, backward=False),
    OperatorCase(
        "svd",
        lambda a: [abs(part) for part in torch.linalg.svd(a, full_matrices=False)],
        normal((3, 4)),
        types=FLOAT32,
        backward=False,
        absolute=1e-5,
    ),
    OperatorCase(
        "triangular solve",
        lambda a, b: torch.linalg.solve_triangular(a.triu(), b, upper=True),
        lambda generator: (*well_conditioned(generator), torch.randn(2, 4, 3, generator=generator)),
        types=FLOAT32,
    ),
    OperatorCase(
        "triangular solve from the right",
        lambda a, b: torch.linalg.solve_triangular(a.tril(), b, upper=False, left=False),
        lambda generator: (*well_conditioned(generator), torch.randn(2, 3, 4, generator=generator)),
        types=FLOAT32,
        backward=False,
    ),
    OperatorCase("cdist", torch.cdist, normal((2, 3, 4), (2, 5, 4)), types=FLOAT32, relative=1e-4, absolute=1e-5),
    OperatorCase(
        "cdist of spread batches",
        torch.cdist,
        normal((1, 3, 4), (2, 5, 4)),
        types=FLOAT32,
        relative=1e-4,
        absolute=1e-5,
    ),
    OperatorCase(
        "cdist of exponent 3", lambda a, b: torch.cdist(a, b, p=3), normal((3, 4), (5, 4)), types=FLOAT32, relative=1e-4
    ),
    OperatorCase(
        "cdist of exponent infinity",
        lambda a, b: torch.cdist(a, b, p=float("inf")),
        normal((3, 4), (5, 4)),
        types=FLOAT32,
    ),
    OperatorCase("pdist", functional.pdist, normal((4, 3)), types=FLOAT32, backward=False),
]

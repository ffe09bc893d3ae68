"""Samples of torch's operator database that do not agree on the virtual NPU, and whose limit that is.

The test (test_torch_operators.py) wants every other sample to agree, of these operators too, and every entry to be
needed by each of its operators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class SampleException:
    """Samples that fail in one way for one reason.

    Attributes:
        operators: Names as target_programs/torch_operators.py gives them.
        failure: Words in the text of such a sample.
        limit: Whose limit it is: torch_npu's own code, the documented functions of CANN, or a missing part of the
            virtual NPU.
        reason: The reason in words.
        refused: Whether the call raises. Otherwise its result differs from the CPU's.
    """

    operators: tuple[str, ...]
    failure: str
    limit: Literal["torch_npu", "CANN", "virtual NPU"]
    reason: str
    refused: bool = True


EXCEPTIONS = (
    SampleException(
        ("bfloat16", "bool", "byte", "cdouble", "cfloat", "chalf", "char", "double", "float", "half", "int", "long",
         "short", "to"),
        "Only contiguous_format or preserve_format is supported",
        "torch_npu",
        "converts to no other memory format",
    ),
    SampleException(
        ("nn.functional.max_unpool2d", "nn.functional.max_unpool2d.grad"),
        "NPU contiguous operator only supported contiguous memory format",
        "torch_npu",
        "has tensors of four dimensions in no other memory format",
    ),
    SampleException(
        ("__rmatmul__", "matmul", "linalg.pinv.singular"),
        "cannot reshape tensor of 0 elements into shape [-1, 0]",
        "torch_npu",
        "its gradient of matmul reshapes operands without elements",
    ),
    SampleException(
        ("torch._scaled_mm", "torch._scaled_mm_v2"),
        "_scaled_mm is supported only on the Ascend950 platform and after",
        "torch_npu",
        "has no products of float8 on these chips",
    ),
    SampleException(
        ("sparse.mm.reduce", "sparse.sampled_addmm"),
        "'SparseCsrnpu' backend",
        "torch_npu",
        "has no operators on compressed sparse rows",
    ),
    SampleException(
        ("stft",),
        "not differentiable with respect to argument 'window'",
        "torch_npu",
        "has no gradient of the window",
    ),
    SampleException(
        ("gather",),
        "positions are int32 or int64, not Byte",
        "CANN",
        "aclnnGather takes positions of int32 and int64",
    ),
    SampleException(
        ("double", "float_power", "to"),
        "torch.float32 != torch.float64",
        "torch_npu",
        "makes float32 of float64",
        refused=False,
    ),
    SampleException(
        ("nn.functional.adaptive_max_pool3d", "nn.functional.max_pool3d"),
        "torch.int32 != torch.int64",
        "torch_npu",
        "its positions of the maxima are int32",
        refused=False,
    ),
    SampleException(
        ("nn.functional.max_pool1d", "nn.functional.max_pool2d"),
        "The values for attribute 'shape' do not match",
        "torch_npu",
        "has masks in a layout of its own in the place of the positions of the maxima",
        refused=False,
    ),
    SampleException(
        ("_native_batch_norm_legit", "native_batch_norm"),
        "The values for attribute 'shape' do not match",
        "torch_npu",
        "returns statistics of a batch that were not asked for, where the CPU returns empty tensors",
        refused=False,
    ),
    SampleException(
        ("native_layer_norm",),
        "torch.Size([0]) != torch.Size([0, 1])",
        "torch_npu",
        "the mean and deviation of no elements have another shape",
        refused=False,
    ),
    SampleException(
        ("native_dropout_backward",),
        "Tensor-likes are not close",
        "torch_npu",
        "takes the mask as bits",
        refused=False,
    ),
    SampleException(
        ("nn.functional.binary_cross_entropy_with_logits",),
        "gradients instead of",
        "torch_npu",
        "has no gradient of the target",
        refused=False,
    ),
    SampleException(
        ("nn.functional.gelu",),
        "Tensor-likes are not close",
        "torch_npu",
        "calls aclnnGelu whatever the approximation is",
        refused=False,
    ),
)  # fmt: skip

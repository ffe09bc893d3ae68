"""Resampling: interpolation in every mode, sampling at the points of a grid, and moves between channels and space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812

from .case import OperatorCase

if TYPE_CHECKING:
    from collections.abc import Callable

INPUTS = {1: (2, 4, 9), 2: (2, 3, 7, 8), 3: (2, 2, 4, 5, 6)}
SMALLER = {1: (5,), 2: (5, 6), 3: (3, 4, 5)}
LARGER = {1: (13,), 2: (11, 13), 3: (7, 6, 8)}
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}
BICUBIC = {1: [], 2: ["bicubic"], 3: []}


def shaped(*shape: int) -> Callable[[Any], tuple[torch.Tensor]]:
    """One input of this shape."""
    return lambda generator: (torch.randn(shape, generator=generator),)


def interpolated(**options: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """``F.interpolate`` with options; the CPU smooths bfloat16 in float32 only."""

    def call(image: torch.Tensor) -> torch.Tensor:
        if options.get("antialias") and image.device.type == "cpu":
            return F.interpolate(image.float(), **options).to(image.dtype)
        return F.interpolate(image, **options)

    return call


def interpolations() -> list[OperatorCase]:
    """Every mode in every number of dimensions it has, by size and by factor, smaller and larger."""
    cases = []
    for dimensions, shape in INPUTS.items():
        modes = ["nearest", "nearest-exact", LINEAR[dimensions]] + BICUBIC[dimensions]
        for mode in modes:
            name, inputs = f"{mode} {dimensions}d", shaped(*shape)
            cases += [
                OperatorCase(f"{name} smaller", interpolated(size=SMALLER[dimensions], mode=mode), inputs),
                OperatorCase(f"{name} larger", interpolated(size=LARGER[dimensions], mode=mode), inputs),
                OperatorCase(f"{name} by a factor", interpolated(scale_factor=1.7, mode=mode), inputs),
            ]
            if not mode.startswith("nearest"):
                options = {"size": LARGER[dimensions], "mode": mode, "align_corners": True}
                cases.append(OperatorCase(f"{name} with corners aligned", interpolated(**options), inputs))
        name = f"nearest {dimensions}d"
        cases.append(OperatorCase(f"{name} by a factor below one", interpolated(scale_factor=0.6), shaped(*shape)))
    for mode in ("bilinear", "bicubic"):
        inputs = shaped(*INPUTS[2])
        options = {"mode": mode, "antialias": True}
        cases.append(OperatorCase(f"{mode} smoothed smaller", interpolated(size=(4, 5), **options), inputs))
        cases.append(
            OperatorCase(f"{mode} smoothed larger", interpolated(size=(12, 15), align_corners=True, **options), inputs)
        )
    return cases


def grid_samples() -> list[OperatorCase]:
    """Sampling in two and three dimensions, with points outside the input too."""

    def inputs(dimensions: int) -> Callable[[Any], tuple[torch.Tensor, ...]]:
        points = (3, 5, 6)[-dimensions:]
        return lambda generator: (
            torch.randn(INPUTS[dimensions], generator=generator),
            torch.rand(2, *points, dimensions, generator=generator) * 2.4 - 1.2,
        )

    def call(mode: str, padding: str, *, aligned: bool) -> Callable[..., torch.Tensor]:
        return lambda x, grid: F.grid_sample(x, grid, mode, padding, align_corners=aligned)

    # The CPU has no bfloat16 here, and with a grid in bfloat16 the points would differ.
    return [
        OperatorCase(
            f"grid sample {dimensions}d {mode} with {padding} outside",
            call(mode, padding, aligned=aligned),
            inputs(dimensions),
            types=("float32",),
            absolute=1e-5,
        )
        for dimensions, mode, padding, aligned in (
            (2, "bilinear", "zeros", False),
            (2, "bilinear", "border", True),
            (2, "bilinear", "reflection", False),
            (2, "nearest", "zeros", False),
            (2, "bicubic", "zeros", False),
            (2, "bicubic", "border", True),
            (3, "bilinear", "zeros", False),
            (3, "bilinear", "border", True),
            (3, "nearest", "reflection", False),
        )
    ]


CASES = [
    *interpolations(),
    *grid_samples(),
    OperatorCase(
        "affine grid 2d", lambda theta: F.affine_grid(theta, [2, 4, 5, 6], align_corners=False), shaped(2, 2, 3)
    ),
    OperatorCase(
        "affine grid 2d with corners aligned",
        lambda theta: F.affine_grid(theta, [2, 4, 5, 6], align_corners=True),
        shaped(2, 2, 3),
    ),
    # torch_npu has no gradient for it in three dimensions.
    OperatorCase(
        "affine grid 3d",
        lambda theta: F.affine_grid(theta, [2, 4, 3, 4, 5], align_corners=False),
        shaped(2, 3, 4),
        backward=False,
    ),
    OperatorCase("pixel shuffle", lambda x: F.pixel_shuffle(x, 2), shaped(2, 8, 3, 4)),
    OperatorCase("pixel unshuffle", lambda x: F.pixel_unshuffle(x, 2), shaped(2, 3, 4, 6)),
    OperatorCase("channel shuffle", lambda x: torch.channel_shuffle(x, 2), shaped(2, 4, 3, 3), backward=False),
    OperatorCase(
        "interpolation with channels last in memory",
        lambda x: F.interpolate(x.permute(0, 3, 1, 2), scale_factor=2, mode="bilinear"),
        shaped(2, 4, 5, 3),
    ),
]

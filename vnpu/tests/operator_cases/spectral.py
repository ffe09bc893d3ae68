"""Fourier transforms: whole signals, and windows of them."""

from __future__ import annotations

import torch

from .case import OperatorCase, normal

FLOAT32 = ("float32",)  # the CPU has no transform of bfloat16


def spectrum_of_windows(signal: torch.Tensor, **choices: object) -> torch.Tensor:
    """The transform of overlapping windows of 16 samples, 4 apart."""
    window = torch.hann_window(16, dtype=signal.dtype, device=signal.device)
    return torch.stft(signal, 16, hop_length=4, window=window, return_complex=True, **choices)


CASES = [
    OperatorCase("fft", torch.fft.fft, normal((3, 10)), types=FLOAT32),
    OperatorCase("fft of two dimensions", torch.fft.fft2, normal((2, 5, 6)), types=FLOAT32),
    OperatorCase("rfft", torch.fft.rfft, normal((3, 10)), types=FLOAT32),
    OperatorCase("rfft of a length", lambda x: torch.fft.rfft(x, n=7, dim=0), normal((10, 3)), types=FLOAT32),
    OperatorCase("rfft normalized", lambda x: torch.fft.rfft(x, norm="ortho"), normal((3, 9)), types=FLOAT32),
    OperatorCase("rfft divided", lambda x: torch.fft.rfft(x, norm="forward"), normal((3, 9)), types=FLOAT32),
    OperatorCase("irfft of rfft", lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2), normal((3, 10)), types=FLOAT32),
    OperatorCase("stft", spectrum_of_windows, normal((2, 64)), types=FLOAT32, absolute=1e-5),
    OperatorCase(
        "stft of all frequencies",
        lambda x: spectrum_of_windows(x, onesided=False, center=False),
        normal((2, 64)),
        types=FLOAT32,
        absolute=1e-5,
    ),
    OperatorCase(
        "stft normalized",
        lambda x: spectrum_of_windows(x, normalized=True),
        normal((64,)),
        types=FLOAT32,
        absolute=1e-5,
    ),
]

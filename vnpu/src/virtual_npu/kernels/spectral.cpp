// Fourier transforms. libopapi.so has two, whose names begin with "acl" where all others begin with "aclnn"; torch_npu
// leaves the other transforms to the CPU.
#include <stdexcept>

#include "kernel.h"

namespace virtual_npu {
namespace {

std::string_view normalization(int64_t mode) {
    constexpr std::string_view kModes[] = {"backward", "forward", "ortho"};
    require(mode >= 1 && mode <= 3, "this normalization of the transform is not known here");
    return kModes[mode - 1];
}

}  // namespace

// The last dimension of the result has the real and the imaginary parts.
KERNEL_WITH_WORKSPACE(aclRfft1D, (Tensor self, int64_t length, int64_t dim, int64_t mode, Output result)) {
    const Tensor real = self.scalar_type() == at::kDouble ? self : self.to(at::kFloat);
    result = at::view_as_real(at::fft_rfft(real, length, dim, normalization(mode)));
}

KERNEL_WITH_WORKSPACE(aclStft, (Tensor self, OptionalTensor window, Output result, int64_t length, int64_t hop_length,
                                int64_t window_length, bool normalized, bool one_sided, bool return_complex)) {
    const Tensor spectrum = at::stft(self, length, hop_length, window_length, window, normalized, one_sided,
                                     /*return_complex=*/true);
    result = return_complex ? spectrum : at::view_as_real(spectrum);
}

}  // namespace virtual_npu

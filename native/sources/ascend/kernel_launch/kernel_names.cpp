#include "sources/ascend/kernel_launch/kernel_names.h"

namespace msmemscope::kernel_launch {
namespace {

KernelNames names;

}  // namespace

KernelNames& kernel_names() noexcept { return names; }

std::uint64_t name_hash(const char* text, std::size_t bytes) noexcept {
    std::uint32_t high = 0;
    std::uint32_t low = 0;
    for (std::size_t index = 0; index < bytes && text[index] != '\0'; ++index) {
        const auto letter = static_cast<std::uint32_t>(static_cast<signed char>(text[index]));
        high = high * 29 + letter;
        low = low * 131 + letter;
    }
    return static_cast<std::uint64_t>(high) << 32U | low;
}

}  // namespace msmemscope::kernel_launch

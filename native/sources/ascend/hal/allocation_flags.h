// The properties of a driver allocation, read from the bits of halMemAlloc's flag or from halMemCreate's properties.
//
// The bits are those of the public driver headers:
// - 0-9: device;
// - 10-13: kind of virtual memory;
// - 17: huge pages;
// - 31: giant pages;
// - 56-63: the module of CANN that asked.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msmemscope::hal {

enum class PageType : std::uint8_t { kNormal = 0, kHuge = 1, kGiant = 2 };
enum class AllocationType : std::uint8_t { kAlloc = 0, kCreate = 1 };

struct Allocation {
    bool on_host;          // pinned memory of the host, whatever device the flag names
    std::uint32_t device;  // the driver's number
    std::uint32_t module;
    PageType page_type;
    AllocationType type;
};

// struct drv_mem_prop of the driver.
struct MemoryProperties {
    std::uint32_t side;  // 0 host, 1 device, 2 a NUMA node of the host
    std::uint32_t device;
    std::uint32_t module;
    std::uint32_t page_type;  // 0 normal, 1 huge, 2 giant
    std::uint32_t memory_type;
    std::uint64_t reserved;
};
static_assert(sizeof(MemoryProperties) == 32);
static_assert(offsetof(MemoryProperties, reserved) == 24);

constexpr Allocation decode_flag(unsigned long long flag) noexcept {
    constexpr unsigned long long kHost = 2;
    constexpr unsigned long long kHostUva = 6;  // of newer drivers: host memory at an address that devices share
    const unsigned long long kind = (flag >> 10U) & 0xFU;
    const bool is_huge = ((flag >> 17U) & 1U) != 0;
    const bool is_giant = ((flag >> 31U) & 1U) != 0;
    return {kind == kHost || kind == kHostUva, static_cast<std::uint32_t>(flag & 0x3FFU),
            static_cast<std::uint32_t>(flag >> 56U),
            is_giant  ? PageType::kGiant
            : is_huge ? PageType::kHuge
                      : PageType::kNormal,
            AllocationType::kAlloc};
}

constexpr Allocation decode_properties(const MemoryProperties& properties) noexcept {
    constexpr std::uint32_t kDeviceSide = 1;
    return {properties.side != kDeviceSide, properties.device, properties.module,
            properties.page_type == 2   ? PageType::kGiant
            : properties.page_type == 1 ? PageType::kHuge
                                        : PageType::kNormal,
            AllocationType::kCreate};
}

// The driver's name of a module, "UNKNOWN" for a number without one.
const char* module_name(std::uint32_t module) noexcept;

// The names of the size of its pages and of the way in which it was asked for, as attributes have them.
const char* page_type_name(PageType type) noexcept;
const char* allocation_type_name(AllocationType type) noexcept;

}  // namespace msmemscope::hal

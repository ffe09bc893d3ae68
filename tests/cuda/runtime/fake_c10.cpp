// The functions of libc10.so that libc10_cuda.so tells of its blocks. They do nothing.
#include <cstddef>
#include <cstdint>

namespace c10 {

struct Device {
    std::int8_t type;
    std::int8_t index;
};

__attribute__((visibility("default"))) void reportMemoryUsageToProfiler(void* block, std::int64_t bytes,
                                                                        std::size_t allocated, std::size_t reserved,
                                                                        Device device) {
    static_cast<void>(block), static_cast<void>(bytes), static_cast<void>(allocated);
    static_cast<void>(reserved), static_cast<void>(device);
}

__attribute__((visibility("default"))) void reportOutOfMemoryToProfiler(std::int64_t bytes, std::size_t allocated,
                                                                        std::size_t reserved, Device device) {
    static_cast<void>(bytes), static_cast<void>(allocated), static_cast<void>(reserved), static_cast<void>(device);
}

}  // namespace c10

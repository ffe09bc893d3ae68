// A CUDA build of torch registers settings for its own allocator. Since 2.13, torch_npu registers the same settings,
// and torch ends the process for that. If the index has only CUDA builds, this takes the settings back before torch_npu
// is loaded: nothing uses CUDA's allocator here. It is loaded into a process that has torch already.
#include <string>
#include <unordered_set>

namespace c10::CachingAllocator {
class AcceleratorAllocatorConfig {
public:
    static std::unordered_set<std::string>& getMutableKeys();
};
}  // namespace c10::CachingAllocator

__attribute__((constructor)) static void take_back() {
    auto& keys = c10::CachingAllocator::AcceleratorAllocatorConfig::getMutableKeys();
    keys.erase("pinned_reserve_segment_size_mb");
    keys.erase("per_process_memory_fraction");
}

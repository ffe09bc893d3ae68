// torch_npu, since 2.13, registers settings of its allocator that a CUDA build of torch has registered for its own, and
// torch ends the process for that. Where the index has CUDA builds alone, this takes them back before torch_npu is
// loaded: nothing uses CUDA's allocator here. Loaded into a process that has torch already.
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

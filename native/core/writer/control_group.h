// The control group of this process: the kernel ends a process of it when all together need more than it may have.
#pragma once

#include <cstdint>

namespace msmemscope {

// Bytes. Zeros where no group has a limit.
struct GroupMemory {
    std::uint64_t limit;
    // From 9/10 of the limit on without pages of files that the kernel can drop at once.
    std::uint64_t used;

    bool is_near_limit() const noexcept { return limit != 0 && used >= limit / 10 * 9; }
};

// Looks for the group with the least limit: the process's own, or one around it. Reads some small files, and takes no
// lock. To be called before other threads ask. groups: the file that names the groups of the process. hierarchies: the
// folder that they are in.
void find_control_group(const char* groups = "/proc/self/cgroup", const char* hierarchies = "/sys/fs/cgroup") noexcept;

// Takes about 10 us, and ten times that near the limit.
__attribute__((visibility("default"))) GroupMemory group_memory() noexcept;

}  // namespace msmemscope

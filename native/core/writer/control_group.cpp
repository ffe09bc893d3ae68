#include "core/writer/control_group.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/writer/kernel_text.h"

namespace msmemscope {
namespace {

constexpr std::size_t kMostPath = 1024;
constexpr std::size_t kNumberBytes = 32;
constexpr std::size_t kStatisticsBytes = 2560;
constexpr std::size_t kGroupsBytes = 4096;
// The first version of groups writes a large number where there is no limit.
constexpr std::uint64_t kNoLimit = 1ULL << 60U;

// Names in the two versions of groups.
struct Version {
    const char* folder;  // of all groups
    const char* limit;
    const char* used;
    const char* inactive_file;  // a line of memory.stat
};
constexpr Version kFirst = {"/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "\ntotal_inactive_file "};
constexpr Version kSecond = {"", "memory.max", "memory.current", "\ninactive_file "};

// Written before the limit is stored.
char used_path[kMostPath];
char statistics_path[kMostPath];
const char* inactive_line = nullptr;
std::atomic<std::uint64_t> limit{0};

// 0 where the file says none.
std::uint64_t read_number(const char* path) noexcept {
    char text[kNumberBytes];
    return read_kernel_text(path, text) ? std::strtoull(text, nullptr, 10) : 0;
}

bool join(char (&path)[kMostPath], const char* folder, const char* name) noexcept {
    const int length = std::snprintf(path, sizeof(path), "%s/%s", folder, name);
    return length > 0 && static_cast<std::size_t>(length) < sizeof(path);
}

// The path of the process's group, as /proc/self/cgroup has it: "4:memory:/path" or "0::/path".
bool find_path(char* text, const char* controllers, char (&path)[kMostPath]) noexcept {
    for (char* line = text; line != nullptr && *line != '\0';) {
        char* const end = std::strchr(line, '\n');
        if (end != nullptr) {
            *end = '\0';
        }
        const char* const after_number = std::strchr(line, ':');
        const std::size_t length = std::strlen(controllers);
        const bool is_found = after_number != nullptr && std::strncmp(after_number + 1, controllers, length) == 0 &&
                              after_number[1 + length] == ':';
        if (is_found) {
            const int bytes = std::snprintf(path, sizeof(path), "%s", after_number + 2 + length);
            if (end != nullptr) {
                *end = '\n';
            }
            return bytes > 0 && static_cast<std::size_t>(bytes) < sizeof(path);
        }
        if (end != nullptr) {
            *end = '\n';
        }
        line = end == nullptr ? nullptr : end + 1;
    }
    return false;
}

// Takes the least limit of the group and of those around it.
void find_limit(const Version& version, const char* hierarchies, const char* group) noexcept {
    char root[kMostPath];
    char folder[kMostPath];
    char path[kMostPath];
    const int length = std::snprintf(root, sizeof(root), "%s%s", hierarchies, version.folder);
    if (length <= 0 || static_cast<std::size_t>(length) >= sizeof(root) ||
        !join(folder, root, group[0] == '/' ? group + 1 : group)) {
        return;
    }
    // In a container the group can be the root of all visible groups, whatever its name outside.
    if (access(folder, F_OK) != 0) {
        std::strcpy(folder, root);
    }
    std::uint64_t least = 0;
    for (;;) {
        const std::uint64_t here = join(path, folder, version.limit) ? read_number(path) : 0;
        if (here != 0 && here < kNoLimit && (least == 0 || here < least) && join(used_path, folder, version.used) &&
            join(statistics_path, folder, "memory.stat")) {
            least = here;
        }
        char* const last = std::strrchr(folder, '/');
        if (last == nullptr || last - folder < length) {
            break;
        }
        *last = '\0';
    }
    inactive_line = version.inactive_file;
    limit.store(least, std::memory_order_release);
}

std::uint64_t inactive_bytes() noexcept {
    char text[kStatisticsBytes];
    if (!read_kernel_text(statistics_path, text)) {
        return 0;
    }
    const char* const place = std::strstr(text, inactive_line);
    return place == nullptr ? 0 : std::strtoull(place + std::strlen(inactive_line), nullptr, 10);
}

}  // namespace

void find_control_group(const char* groups, const char* hierarchies) noexcept {
    char text[kGroupsBytes];
    char group[kMostPath];
    if (!read_kernel_text(groups, text)) {
        return;
    }
    if (find_path(text, "memory", group)) {
        find_limit(kFirst, hierarchies, group);
    } else if (find_path(text, "", group)) {
        find_limit(kSecond, hierarchies, group);
    }
}

GroupMemory group_memory() noexcept {
    const std::uint64_t most = limit.load(std::memory_order_acquire);
    if (most == 0) {
        return {0, 0};
    }
    GroupMemory found{most, read_number(used_path)};
    if (found.is_near_limit()) {
        found.used -= std::min(found.used, inactive_bytes());
    }
    return found;
}

}  // namespace msmemscope

#include "sources/torch_cpu/host_memory.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "core/writer/process_memory.h"
#include "sources/memory_usage.h"

namespace msmemscope::torch_cpu {
namespace {

WrittenUsage written;

// The beginning of a file of the kernel; its length, 0 if it cannot be read.
std::size_t read_beginning(const char* path, char* text, std::size_t room) noexcept {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return 0;
    }
    const ssize_t bytes = read(file, text, room - 1);
    close(file);
    text[bytes > 0 ? bytes : 0] = '\0';
    return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

std::uint64_t resident_bytes() noexcept {
    const std::uint64_t bytes = process_memory().resident;
    return bytes != 0 ? bytes : kUnknownUsage;
}

// A line of meminfo ("MemTotal:       16384 kB") as bytes.
bool find_line(const char* text, const char* key, std::uint64_t& bytes) noexcept {
    const char* const line = std::strstr(text, key);
    if (line == nullptr) {
        return false;
    }
    bytes = std::strtoull(line + std::strlen(key), nullptr, 10) << 10U;
    return true;
}

bool is_host(format::Device device) noexcept { return device == format::kDeviceCpu || device == format::kDeviceNone; }

void prepare() noexcept {}

bool memory_of(const RecordingScope& scope, format::Device device, MemoryBytes& memory) noexcept {
    static_cast<void>(scope);
    static_cast<void>(device);
    char text[512];  // both lines are among the first three
    return read_beginning("/proc/meminfo", text, sizeof(text)) != 0 && find_line(text, "MemTotal:", memory.total) &&
           find_line(text, "MemAvailable:", memory.free);
}

struct KernelLimit {
    __rlimit_resource resource;
    const char* name;
    // The line of /proc/self/status with what counts against it.
    const char* used;
};
// Those by which the kernel refuses memory; of others it ends the process.
constexpr KernelLimit kLimits[] = {{RLIMIT_AS, "RLIMIT_AS", "VmSize:"}, {RLIMIT_DATA, "RLIMIT_DATA", "VmData:"}};

bool limit_of(MemoryLimit& limit) noexcept {
    char text[1536];  // the lines about memory are in its first half
    bool is_read = false;
    bool is_found = false;
    for (const KernelLimit& one : kLimits) {
        rlimit set{};
        if (getrlimit(one.resource, &set) != 0 || set.rlim_cur == RLIM_INFINITY) {
            continue;
        }
        is_read = is_read || read_beginning("/proc/self/status", text, sizeof(text)) != 0;
        std::uint64_t used = 0;
        if (!is_read || !find_line(text, one.used, used)) {
            return false;
        }
        // A limit can be set below what is in use.
        const std::uint64_t room = set.rlim_cur > used ? set.rlim_cur - used : 0;
        if (!is_found || room < limit.bytes - limit.used) {
            limit = {one.name, set.rlim_cur, set.rlim_cur - room};
            is_found = true;
        }
    }
    return is_found;
}

bool pool_of(format::Device device, PoolBytes& bytes) noexcept {
    bytes.reserved = resident_bytes();
    bytes.allocated = recorder::live_bytes(format::Pool::kHost, device);
    return bytes.reserved != kUnknownUsage;
}

void record_figures(const RecordingScope& scope) noexcept {
    if (written.epoch.exchange(0, std::memory_order_relaxed) != 0) {
        append_usage(scope, format::kDeviceCpu, written, kUnknownUsage, resident_bytes());
    }
}

}  // namespace

const DeviceSupport kHostSupport = {is_host, prepare,        memory_of, pool_of, limit_of,
                                    nullptr, record_figures, nullptr,   nullptr};

void record_host_usage(const RecordPlace& place) noexcept {
    if (!recorder::is_collecting()) {
        return;
    }
    const RecordingScope scope(false);
    if (scope) {
        append_usage(scope, format::kDeviceCpu, written, kUnknownUsage, resident_bytes(), place);
    }
}

}  // namespace msmemscope::torch_cpu

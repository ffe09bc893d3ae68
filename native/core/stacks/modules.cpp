#include "core/stacks/modules.h"

#include <unistd.h>

#include <atomic>
#include <cstring>

#include "core/writer/recorder.h"

namespace msmemscope {
namespace {

struct NotedModule {
    format::ModulePayload payload;
    std::uint32_t text_offset;
};

constexpr std::uint32_t kMostModules = 8192;
constexpr std::size_t kTextBytes = 2UL * 1024UL * 1024UL;
constexpr std::size_t kLongestBuildId = 64;

// Written with the loader's lock held, published by the count. Untouched pages take no memory. The text of a
// module is its build id and its path.
NotedModule modules[kMostModules];
char texts[kTextBytes];
std::size_t text_bytes = 0;
std::atomic<std::uint32_t> noted{0};

// Where files of ours lie: the core, and what Python loads.
struct OwnCode {
    std::uint64_t start;
    std::uint64_t end;
};
constexpr std::uint32_t kMostOwn = 8;
OwnCode own_code[kMostOwn];
std::atomic<std::uint32_t> own_count{0};

void note_own_code(const MappedFile& file) noexcept {
    const std::uint32_t index = own_count.load(std::memory_order_relaxed);
    if (index < kMostOwn) {
        own_code[index] = {file.start, file.end};
        own_count.store(index + 1, std::memory_order_release);
    }
}

// How many of them this process's capture has.
std::atomic<std::uint64_t> defined_epoch{0};
std::atomic<std::uint32_t> defined{0};

// Whether the module was the last one to lie in its place. A library that is loaded again and again usually comes back
// to the same place.
bool is_noted(const format::ModulePayload& payload, const char* id_and_path, std::uint32_t count) noexcept {
    while (count > 0) {
        const NotedModule& module = modules[--count];
        if (module.payload.start < payload.end && payload.start < module.payload.end) {
            return module.payload.start == payload.start && module.payload.end == payload.end &&
                   module.payload.build_id_bytes == payload.build_id_bytes &&
                   module.payload.path_bytes == payload.path_bytes &&
                   std::memcmp(texts + module.text_offset, id_and_path, payload.build_id_bytes + payload.path_bytes) ==
                       0;
        }
    }
    return false;
}

}  // namespace

bool is_own_code(std::uint64_t address) noexcept {
    const std::uint32_t count = own_count.load(std::memory_order_acquire);
    for (std::uint32_t index = 0; index < count; ++index) {
        if (address >= own_code[index].start && address < own_code[index].end) {
            return true;
        }
    }
    return false;
}

void note_module(const MappedFile& file) noexcept {
    if (file.is_own) {
        note_own_code(file);
    }
    const std::uint32_t index = noted.load(std::memory_order_relaxed);
    char executable[4096];
    const char* path = file.path;
    if (*path == '\0') {
        const ssize_t length = readlink("/proc/self/exe", executable, sizeof(executable) - 1);
        executable[length > 0 ? length : 0] = '\0';
        path = executable;
    }
    const std::size_t path_bytes = std::strlen(path);
    const std::size_t id_bytes = file.build_id_bytes <= kLongestBuildId ? file.build_id_bytes : 0;
    if (index == kMostModules || text_bytes + id_bytes + path_bytes > kTextBytes) {
        return;  // frames in it will show as bare addresses
    }
    NotedModule& module = modules[index];
    module.payload.load_bias = file.load_bias;
    module.payload.start = file.start;
    module.payload.end = file.end;
    module.payload.seen_at_sequence = recorder::next_sequence();
    module.payload.build_id_bytes = static_cast<std::uint32_t>(id_bytes);
    module.payload.path_bytes = static_cast<std::uint32_t>(path_bytes);
    module.text_offset = static_cast<std::uint32_t>(text_bytes);
    if (id_bytes > 0) {
        std::memcpy(texts + text_bytes, file.build_id, id_bytes);
    }
    std::memcpy(texts + text_bytes + id_bytes, path, path_bytes);
    if (is_noted(module.payload, texts + text_bytes, index)) {
        return;
    }
    text_bytes += id_bytes + path_bytes;
    noted.store(index + 1, std::memory_order_release);
}

void define_modules(const RecordingScope& scope) noexcept {
    const std::uint64_t epoch = recorder::epoch();
    if (defined_epoch.load(std::memory_order_acquire) != epoch) {
        defined.store(0, std::memory_order_relaxed);
        defined_epoch.store(epoch, std::memory_order_release);
    }
    std::uint32_t index = defined.load(std::memory_order_relaxed);
    while (index < noted.load(std::memory_order_acquire)) {
        if (defined.compare_exchange_weak(index, index + 1, std::memory_order_acq_rel)) {
            recorder::define_module(scope, modules[index].payload, texts + modules[index].text_offset);
            ++index;
        }
    }
}

}  // namespace msmemscope

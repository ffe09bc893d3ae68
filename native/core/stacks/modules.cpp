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

// Where a few files lie that are told apart from the others.
class CodeRanges {
public:
    void add(const MappedFile& file) noexcept {
        const std::uint32_t index = count_.load(std::memory_order_relaxed);
        if (index < kMost) {
            ranges_[index] = {file.start, file.end};
            count_.store(index + 1, std::memory_order_release);
        }
    }

    bool contain(std::uint64_t address) const noexcept {
        const std::uint32_t count = count_.load(std::memory_order_acquire);
        for (std::uint32_t index = 0; index < count; ++index) {
            if (address >= ranges_[index].start && address < ranges_[index].end) {
                return true;
            }
        }
        return false;
    }

private:
    struct Range {
        std::uint64_t start;
        std::uint64_t end;
    };
    static constexpr std::uint32_t kMost = 16;
    Range ranges_[kMost]{};
    std::atomic<std::uint32_t> count_{0};
};

CodeRanges own_code;        // the core, and what Python loads
CodeRanges allocator_code;  // of the program's malloc
CodeRanges tensor_code;     // of torch

const char* name_of(const char* path) noexcept {
    const char* const slash = std::strrchr(path, '/');
    return slash == nullptr ? path : slash + 1;
}

bool is_allocator(const char* name) noexcept {
    return std::strncmp(name, "lib", 3) == 0 && std::strstr(name, "malloc") != nullptr;
}

bool is_of_torch(const char* name) noexcept {
    return std::strncmp(name, "libtorch", 8) == 0 || std::strncmp(name, "libc10", 6) == 0;
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

bool is_own_code(std::uint64_t address) noexcept { return own_code.contain(address); }

bool is_allocator_code(std::uint64_t address) noexcept { return allocator_code.contain(address); }

bool is_torch_code(std::uint64_t address) noexcept { return tensor_code.contain(address); }

void note_module(const MappedFile& file) noexcept {
    if (file.is_own) {
        own_code.add(file);
    } else if (is_allocator(name_of(file.path))) {
        allocator_code.add(file);
    } else if (is_of_torch(name_of(file.path))) {
        tensor_code.add(file);
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

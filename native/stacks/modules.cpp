#include "stacks/modules.h"

#include <unistd.h>

#include <atomic>
#include <cstring>

#include "writer/recorder.h"

namespace msmemscope {
namespace {

struct NotedModule {
    std::uint64_t load_bias;
    std::uint64_t start;
    std::uint64_t end;
    std::uint64_t seen_at_sequence;
    std::uint32_t path_offset;
    std::uint32_t build_id_bytes;
    unsigned char build_id[64];
};

constexpr std::uint32_t kMostModules = 8192;
constexpr std::size_t kPathBytes = 2UL * 1024UL * 1024UL;

// Written under the patcher's lock, published by the count. Untouched pages take no memory.
NotedModule modules[kMostModules];
char paths[kPathBytes];
std::size_t path_bytes = 0;
std::atomic<std::uint32_t> noted{0};

// How many of them this process's capture has.
std::atomic<std::uint64_t> defined_epoch{0};
std::atomic<std::uint32_t> defined{0};

}  // namespace

void note_module(const ElfImage& image) noexcept {
    const std::uint32_t index = noted.load(std::memory_order_relaxed);
    char executable[4096];
    const char* path = image.path();
    if (*path == '\0') {
        const ssize_t length = readlink("/proc/self/exe", executable, sizeof(executable) - 1);
        executable[length > 0 ? length : 0] = '\0';
        path = executable;
    }
    const std::size_t length = std::strlen(path) + 1;
    if (index == kMostModules || path_bytes + length > kPathBytes) {
        return;  // frames in it will show as bare addresses
    }
    NotedModule& module = modules[index];
    module.load_bias = image.load_bias();
    module.start = image.start();
    module.end = image.end();
    module.seen_at_sequence = recorder::next_sequence();
    module.path_offset = static_cast<std::uint32_t>(path_bytes);
    std::memcpy(paths + path_bytes, path, length);
    path_bytes += length;
    module.build_id_bytes = 0;
    if (image.build_id() != nullptr && image.build_id_bytes() <= sizeof(module.build_id)) {
        module.build_id_bytes = static_cast<std::uint32_t>(image.build_id_bytes());
        std::memcpy(module.build_id, image.build_id(), image.build_id_bytes());
    }
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
            const NotedModule& module = modules[index];
            format::ModulePayload payload{};
            payload.load_bias = module.load_bias;
            payload.start = module.start;
            payload.end = module.end;
            payload.seen_at_sequence = module.seen_at_sequence;
            payload.build_id_bytes = module.build_id_bytes;
            recorder::define_module(scope, payload, module.build_id, paths + module.path_offset);
            ++index;
        }
    }
}

}  // namespace msmemscope

// Opens a capture: the directory of one process, its header, and what is known from the start.
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/writer/civil_time.h"
#include "core/writer/ledger.h"
#include "core/writer/process_state.h"

namespace msmemscope {
namespace {

constexpr unsigned kDirectoryMode = 0750;

// The growth lock serves for these buffers too.
char path[4300];
char content[4096];

std::size_t read_file(const char* file_name, char* out, std::size_t capacity) noexcept {
    const int fd = open(file_name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    std::size_t total = 0;
    while (total + 1 < capacity) {
        const ssize_t got = read(fd, out + total, capacity - 1 - total);
        if (got <= 0) {
            break;
        }
        total += static_cast<std::size_t>(got);
    }
    close(fd);
    out[total] = '\0';
    return total;
}

// Field 22 of /proc/self/stat. The second field, the program's name, may hold spaces and brackets.
std::uint64_t process_start_ticks() noexcept {
    if (read_file("/proc/self/stat", content, sizeof(content)) == 0) {
        return 0;
    }
    const char* cursor = std::strrchr(content, ')');
    for (int field = 2; cursor != nullptr && field < 22; ++field) {
        cursor = std::strchr(cursor + 1, ' ');
    }
    return cursor == nullptr ? 0 : std::strtoull(cursor + 1, nullptr, 10);
}

int create_parents(const char* directory) noexcept {
    std::snprintf(path, sizeof(path), "%s", directory);
    for (char* slash = std::strchr(path + 1, '/');; slash = std::strchr(slash + 1, '/')) {
        if (slash != nullptr) {
            *slash = '\0';
        }
        struct stat existing{};
        if (stat(path, &existing) != 0) {
            const int error = create_directory(path, kDirectoryMode);
            if (error != 0 && error != EEXIST) {
                return error;
            }
        }
        if (slash == nullptr) {
            return 0;
        }
        *slash = '/';
    }
}

// msmemscope_{pid}_{timestamp}_ascend. An image that exec put into the same process may ask within
// the same second: the next free second is taken.
int create_capture_directory(ProcessState& state, std::uint64_t now_ns) noexcept {
    const Settings& settings = recorder::settings();
    const int error = create_parents(settings.output);
    if (error != 0) {
        return error;
    }
    const std::int64_t seconds = static_cast<std::int64_t>(now_ns / 1000000000ULL) + settings.utc_offset_seconds;
    for (int attempt = 0; attempt < 100; ++attempt) {
        const CivilTime civil = civil_time(seconds + attempt);
        std::snprintf(state.event_log_directory, sizeof(state.event_log_directory),
                      "%s/msmemscope_%d_%04d%02d%02d%02d%02d%02d_ascend", settings.output, static_cast<int>(getpid()),
                      civil.year, civil.month, civil.day, civil.hour, civil.minute, civil.second);
        const int created = create_directory(state.event_log_directory, kDirectoryMode);
        if (created == 0) {
            std::strncat(state.event_log_directory, "/event_log", 16);
            return create_directory(state.event_log_directory, kDirectoryMode);
        }
        if (created != EEXIST) {
            return created;
        }
    }
    return EEXIST;
}

void define_fact(ProcessState& state, ThreadState& thread, const char* key, const char* text,
                 std::size_t bytes) noexcept {
    append_definition(state, thread, format::DefinitionKind::kFact, 0, key, std::strlen(key), text, bytes, true);
}

// One fact per line of a text.
void define_lines(ProcessState& state, ThreadState& thread, const char* prefix, const char* text) noexcept {
    while (*text != '\0') {
        const char* end = std::strchr(text, '\n');
        const std::size_t bytes = end == nullptr ? std::strlen(text) : static_cast<std::size_t>(end - text);
        if (bytes > 0) {
            define_fact(state, thread, prefix, text, bytes);
        }
        text += bytes + (end == nullptr ? 0 : 1);
    }
}

void define_command_line(ProcessState& state, ThreadState& thread) noexcept {
    const std::size_t bytes = read_file("/proc/self/cmdline", content, sizeof(content));
    for (std::size_t begin = 0; begin < bytes;) {
        const std::size_t length = std::strlen(content + begin);
        define_fact(state, thread, "argument=", content + begin, length);
        begin += length + 1;
    }
    const ssize_t length = readlink("/proc/self/exe", content, sizeof(content));
    if (length > 0) {
        define_fact(state, thread, "executable=", content, static_cast<std::size_t>(length));
    }
}

}  // namespace

bool open_capture(ProcessState& state, ThreadState& thread) noexcept {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    const std::uint64_t now_ns =
        static_cast<std::uint64_t>(now.tv_sec) * 1000000000ULL + static_cast<std::uint64_t>(now.tv_nsec);
    int error = create_capture_directory(state, now_ns);
    if (error != 0) {
        fail(state, error, "creating the capture's folder");
        return false;
    }
    auto* header = static_cast<format::ProcessHeader*>(create_mapped_page(state.event_log_directory, "process.header"));
    if (header == nullptr) {
        fail(state, errno, "creating process.header");
        return false;
    }
    const Settings& settings = recorder::settings();
    header->byte_order_mark = format::kByteOrderMark;
    header->format_version = format::kFormatVersion;
    header->header_bytes = sizeof(format::ProcessHeader);
    header->record_bytes = sizeof(format::Record);
    header->state = format::CaptureState::kOpen;
    header->process_id = static_cast<std::uint32_t>(getpid());
    header->parent_process_id = static_cast<std::uint32_t>(getppid());
    header->start_ns = now_ns;
    header->process_start_ticks = process_start_ticks();
    header->session = settings.session;
    header->python_version_hex = python_version_hex();
    header->tool_memory_limit_bytes = 5 * InternTable::memory_limit_bytes() + LiveBlocks::memory_limit_bytes();
    header->maximum_log_bytes = settings.maximum_size_bytes;
    __atomic_store_n(&header->magic, format::kProcessMagic, __ATOMIC_RELEASE);
    state.header = header;
    state.phase.store(CapturePhase::kOpen, std::memory_order_seq_cst);
    show_counted(state);
    define_lines(state, thread, "setting.", settings.text);
    define_command_line(state, thread);
    define_lines(state, thread, "", pending_facts());
    // The folder above event_log. Without the line the launcher finds the capture by its session.
    std::snprintf(path, sizeof(path), "%.*s", static_cast<int>(std::strlen(state.event_log_directory) - 10),
                  state.event_log_directory);
    append_to_ledger("capture", path);
    return !state.failed.load(std::memory_order_relaxed);
}

}  // namespace msmemscope

// Definitions: what is interned, and the facts of a capture.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/writer/hash.h"
#include "core/writer/keep_errno.h"
#include "core/writer/ledger.h"
#include "core/writer/process_state.h"
#include "core/writer/stderr_line.h"

namespace msmemscope {
namespace {

// Largest payload of a definition; a line table beyond it is cut.
constexpr std::size_t kLargestPayload = 256UL * 1024UL;

// Behind the ids of all strings, so that no id names both.
constexpr std::uint32_t kFirstAttributeId = InternTable::kSlots;

char facts[32768];
std::atomic<std::size_t> facts_bytes{0};

// Defines content that was interned for the first time; returns its id.
std::uint32_t define(InternTable& table, std::uint64_t hash, format::DefinitionKind kind, const void* first,
                     std::size_t first_bytes, const void* second, std::size_t second_bytes,
                     std::uint32_t first_id = 0) noexcept {
    ProcessState& state = *process_state;
    InternTable::Result result = table.intern(hash);
    result.id += result.id != 0 ? first_id : 0;
    if (result.added) {
        ThreadState* thread = this_thread(state);
        if (thread == nullptr ||
            !append_definition(state, *thread, kind, result.id, first, first_bytes, second, second_bytes, false)) {
            count(state.dropped.lost_definitions, &format::ProcessHeader::lost_definitions);
        }
    } else if (result.id == 0) {
        count(state.dropped.lost_definitions, &format::ProcessHeader::lost_definitions);
    }
    return result.id;
}

}  // namespace

const char* pending_facts() noexcept { return facts; }

void report_facts() noexcept {
    char line[512];
    for (const char* begin = facts; *begin != '\0';) {
        const char* const end = std::strchr(begin, '\n');
        if (end == nullptr) {
            return;
        }
        std::snprintf(line, sizeof(line), "%.*s", static_cast<int>(end - begin), begin);
        append_to_ledger("fact", line);
        begin = end + 1;
    }
}

bool append_definition(ProcessState& state, ThreadState& thread, format::DefinitionKind kind, std::uint32_t id,
                       const void* first, std::size_t first_bytes, const void* second, std::size_t second_bytes,
                       bool locked) noexcept {
    second_bytes = std::min(second_bytes, kLargestPayload);
    const std::size_t payload = first_bytes + second_bytes;
    const std::size_t entry = (sizeof(format::DefinitionHeader) + payload + 7) & ~std::size_t{7};
    if (static_cast<std::size_t>(thread.definitions.end - thread.definitions.cursor) < entry &&
        !grow_definitions(state, thread, entry, locked)) {
        return false;
    }
    unsigned char* const place = thread.definitions.cursor;
    auto* const header = reinterpret_cast<format::DefinitionHeader*>(place);
    header->kind = kind;
    header->reserved = 0;
    header->id = id;
    header->payload_bytes = static_cast<std::uint32_t>(payload);
    std::memcpy(place + sizeof(*header), first, first_bytes);
    if (second_bytes > 0) {
        std::memcpy(place + sizeof(*header) + first_bytes, second, second_bytes);
    }
    __atomic_store_n(&header->commit, format::kDefinitionCommit, __ATOMIC_RELEASE);
    thread.definitions.cursor = place + entry;
    return true;
}

namespace recorder {

std::uint32_t intern_string(const RecordingScope& scope, const char* text, std::size_t bytes) noexcept {
    static_cast<void>(scope);
    return define(process_state->strings, hash_bytes(text, bytes, 1), format::DefinitionKind::kString, text, bytes,
                  nullptr, 0);
}

std::uint32_t intern_attributes(const RecordingScope& scope, const format::Attribute* pairs,
                                std::size_t count) noexcept {
    static_cast<void>(scope);
    const std::size_t bytes = count * sizeof(*pairs);
    return define(process_state->attributes, hash_bytes(pairs, bytes, 6), format::DefinitionKind::kAttributes, pairs,
                  bytes, nullptr, 0, kFirstAttributeId);
}

std::uint32_t intern_code(const RecordingScope& scope, const format::CodePayload& code,
                          const void* line_table) noexcept {
    static_cast<void>(scope);
    const std::uint64_t hash = hash_bytes(line_table, code.line_table_bytes, hash_bytes(&code, sizeof(code), 2));
    return define(process_state->codes, hash, format::DefinitionKind::kCode, &code, sizeof(code), line_table,
                  code.line_table_bytes);
}

std::uint32_t intern_python_stack(const RecordingScope& scope, const format::PythonFrame* frames,
                                  std::size_t frame_count) noexcept {
    static_cast<void>(scope);
    const std::size_t bytes = frame_count * sizeof(*frames);
    return define(process_state->python_stacks, hash_bytes(frames, bytes, 3), format::DefinitionKind::kPythonStack,
                  frames, bytes, nullptr, 0);
}

std::uint32_t intern_native_stack(const RecordingScope& scope, const std::uint64_t* frames,
                                  std::size_t frame_count) noexcept {
    static_cast<void>(scope);
    const std::size_t bytes = frame_count * sizeof(*frames);
    return define(process_state->native_stacks, hash_bytes(frames, bytes, 4), format::DefinitionKind::kNativeStack,
                  frames, bytes, nullptr, 0);
}

std::uint64_t* stack_scratch(const RecordingScope& scope) noexcept {
    static_cast<void>(scope);
    ThreadState* const thread = this_thread(*process_state);
    return thread == nullptr ? nullptr : thread->stack_scratch;
}

StackCacheEntry* stack_cache(const RecordingScope& scope) noexcept {
    static_cast<void>(scope);
    ThreadState* const thread = this_thread(*process_state);
    return thread == nullptr ? nullptr : thread->stack_cache;
}

void define_module(const RecordingScope& scope, const format::ModulePayload& module,
                   const char* build_id_and_path) noexcept {
    static_cast<void>(scope);
    ThreadState* const thread = this_thread(*process_state);
    if (thread == nullptr ||
        !append_definition(*process_state, *thread, format::DefinitionKind::kModule, 0, &module, sizeof(module),
                           build_id_and_path, module.build_id_bytes + module.path_bytes, false)) {
        count(process_state->dropped.lost_definitions, &format::ProcessHeader::lost_definitions);
    }
}

void note_fact(const char* key, const char* value) noexcept {
    const KeepErrno keep_errno;
    const RecordingScope scope(false);
    ProcessState* const state = process_state;
    char line[4400];
    const int length = std::snprintf(line, sizeof(line), "%s=%s\n", key, value);
    if (length <= 0 || static_cast<std::size_t>(length) >= sizeof(line)) {
        return;
    }
    const auto bytes = static_cast<std::size_t>(length);
    const std::size_t place = facts_bytes.fetch_add(bytes, std::memory_order_acq_rel);
    if (place + bytes < sizeof(facts)) {
        std::memcpy(facts + place, line, bytes);
    } else {
        facts_bytes.fetch_sub(bytes, std::memory_order_acq_rel);
    }
    if (scope && state->phase.load(std::memory_order_acquire) == CapturePhase::kOpen) {
        ThreadState* const thread = this_thread(*state);
        if (thread != nullptr) {
            append_definition(*state, *thread, format::DefinitionKind::kFact, 0, line, bytes - 1, nullptr, 0, false);
        }
    }
}

void warn(const char* text) noexcept {
    if (settings().prints_errors_alone) {
        note_fact("message", text);
    } else {
        report_error(text);
    }
}

void report_error(const char* text) noexcept {
    const KeepErrno keep_errno;
    char line[1024];
    const int length = std::snprintf(line, sizeof(line), "msmemscope: %.1000s\n", text);
    if (length > 0) {
        write_stderr_line(line, static_cast<std::size_t>(length));
    }
    note_fact("message", text);
}

}  // namespace recorder
}  // namespace msmemscope

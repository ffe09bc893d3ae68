#include "core/stacks/python_stack.h"

#include <Python.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "backward_calls.h"
#include "code_table.h"
#include "core/writer/hash.h"
#include "python_frames.h"
#include "python_stack_walker.h"

namespace msmemscope {
namespace {

constexpr std::size_t kFramesAtOnce = 32;

// Only ever grows, under the GIL; read without it.
PyCodeObject* hidden_codes[kMostHiddenCodes];
std::atomic<std::size_t> hidden_count{0};

bool is_hidden(const PyCodeObject* code) noexcept {
    const std::size_t count = hidden_count.load(std::memory_order_acquire);
    for (std::size_t index = 0; index < count; ++index) {
        if (hidden_codes[index] == code) {
            return true;
        }
    }
    return false;
}

// Reads the frames once more, in full, into the thread's scratch. Returns how many are to be shown.
std::size_t read_shown_frames(const RecordingScope& scope, PythonFrameCursor cursor, std::uint32_t depth,
                              format::PythonFrame* frames) noexcept {
    RawPythonFrame raw[kFramesAtOnce];
    std::size_t count = 0;
    for (std::size_t read = 0; cursor != nullptr && read < depth;) {
        const std::size_t got = read_python_frames(&cursor, raw, std::min<std::size_t>(kFramesAtOnce, depth - read));
        for (std::size_t index = 0; index < got; ++index) {
            if (!is_hidden(raw[index].code)) {
                const std::uint32_t code_id = code_id_of(scope, raw[index].code);
                frames[count++] = format::PythonFrame{code_id, raw[index].instruction_offset};
            }
        }
        read += got;
    }
    return count;
}

format::PythonFrame* frames_of_thread(const RecordingScope& scope) noexcept {
    return reinterpret_cast<format::PythonFrame*>(recorder::stack_scratch(scope));
}

// is_called: behind the frames of a thread of the backward engine stand those of the call of the backward pass.
std::uint32_t define_python_stack(const RecordingScope& scope, PythonFrameCursor cursor, std::uint32_t depth,
                                  bool is_called) noexcept {
    format::PythonFrame* const frames = frames_of_thread(scope);
    std::size_t count = read_shown_frames(scope, cursor, depth, frames);
    if (is_called) {
        count += copy_backward_caller(frames + count, depth - count);
    }
    return count == 0 ? 0 : recorder::intern_python_stack(scope, frames, count);
}

}  // namespace

bool hide_code(PyCodeObject* code) noexcept {
    const std::size_t count = hidden_count.load(std::memory_order_relaxed);
    if (is_hidden(code)) {
        return true;
    }
    if (count == kMostHiddenCodes) {
        return false;
    }
    Py_INCREF(code);
    hidden_codes[count] = code;
    hidden_count.store(count + 1, std::memory_order_release);
    return true;
}

std::size_t read_python_stack(const RecordingScope& scope, std::uint32_t depth,
                              const format::PythonFrame** frames) noexcept {
    format::PythonFrame* const scratch = frames_of_thread(scope);
    *frames = scratch;
    return scratch == nullptr ? 0 : read_shown_frames(scope, innermost_python_frame(), depth, scratch);
}

bool thread_imports() noexcept {
    static constexpr char kImporting[] = "<frozen importlib._bootstrap";
    static constexpr Py_ssize_t kLength = sizeof kImporting - 1;
    RawPythonFrame raw[kFramesAtOnce];
    PythonFrameCursor cursor = innermost_python_frame();
    for (std::size_t got = 1; cursor != nullptr && got != 0;) {
        got = read_python_frames(&cursor, raw, kFramesAtOnce);
        const bool is_found = std::any_of(raw, raw + got, [](const RawPythonFrame& frame) {
            PyObject* const file = frame.code->co_filename;
            // Nothing of it is called: the thread may not have the GIL.
            return file != nullptr && PyUnicode_IS_COMPACT_ASCII(file) && PyUnicode_GET_LENGTH(file) >= kLength &&
                   std::memcmp(PyUnicode_1BYTE_DATA(file), kImporting, kLength) == 0;
        });
        if (is_found) {
            return true;
        }
    }
    return false;
}

std::uint32_t walk_python_stack(const RecordingScope& scope, std::uint32_t depth) noexcept {
    PythonFrameCursor cursor = innermost_python_frame();
    StackCacheEntry* const cache = recorder::stack_cache(scope);
    if (cache == nullptr) {
        return 0;
    }
    const std::uint32_t caller = backward_caller();
    if (cursor == nullptr) {
        return caller;
    }
    // Most allocations come from places that have allocated before. So first hash only the parts that identify the
    // stack, and look whether this thread has met it.
    RawPythonFrame raw[kFramesAtOnce];
    std::uint64_t hash = hash_word(std::uint64_t{caller} << 32U | depth, code_generation());
    std::size_t count = 0;
    PythonFrameCursor reading = cursor;
    while (reading != nullptr && count < depth) {
        const std::size_t got = read_python_frames(&reading, raw, std::min<std::size_t>(kFramesAtOnce, depth - count));
        for (std::size_t index = 0; index < got; ++index) {
            hash = hash_word(hash ^ raw[index].instruction_offset, reinterpret_cast<std::uint64_t>(raw[index].code));
        }
        count += got;
    }
    if (count == 0) {
        return caller;
    }
    StackCacheEntry& entry = cache[hash % kStackCacheEntries];
    if (entry.hash == hash) {
        return entry.id;
    }
    const std::uint32_t id = define_python_stack(scope, cursor, depth, caller != 0);
    entry = StackCacheEntry{hash, id};
    return id;
}

}  // namespace msmemscope

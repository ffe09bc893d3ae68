#include "stacks/python_stack.h"

#include <Python.h>

#include <algorithm>
#include <atomic>

#include "code_table.h"
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

std::uint32_t walk_python_stack(const RecordingScope& scope, std::uint32_t depth) noexcept {
    PythonFrameCursor cursor = innermost_python_frame();
    if (cursor == nullptr) {
        return 0;
    }
    auto* const frames = reinterpret_cast<format::PythonFrame*>(recorder::stack_scratch(scope));
    if (frames == nullptr) {
        return 0;
    }
    RawPythonFrame raw[kFramesAtOnce];
    std::size_t count = 0;
    while (cursor != nullptr && count < depth) {
        const std::size_t wanted = std::min<std::size_t>(kFramesAtOnce, depth - count);
        const std::size_t got = read_python_frames(&cursor, raw, wanted);
        for (std::size_t index = 0; index < got; ++index) {
            if (is_hidden(raw[index].code)) {
                continue;
            }
            frames[count++] = format::PythonFrame{code_id_of(scope, raw[index].code), raw[index].instruction_offset};
        }
    }
    return count == 0 ? 0 : recorder::intern_python_stack(scope, frames, count);
}

}  // namespace msmemscope

#include "code_table.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>

#include "core/writer/hash.h"
#include "python_frames.h"

namespace msmemscope {
namespace {

// The second word holds the epoch's mark and the id together, so racing threads see either the old pair or the new one.
// Ids of a parent mean nothing in a forked child. The word is 0 if the code object is gone. Then its address says
// nothing, until another one is found there.
struct Entry {
    std::atomic<PyCodeObject*> code;
    std::atomic<std::uint64_t> epoch_and_id;
};

constexpr std::size_t kEntries = 1UL << 17U;
constexpr unsigned kLongestProbe = 64;
constexpr std::size_t kLongestText = 4096;

// Zero pages take no memory until used.
Entry table[kEntries];
constexpr std::uint64_t kIdMask = 0xffffffffULL;
std::atomic<std::uint64_t> generation{1};

std::uint64_t hash_of(PyCodeObject* code) noexcept { return hash_word(5, reinterpret_cast<std::uint64_t>(code)); }

// UTF-8 without the help of Python, which would allocate and wants the GIL. Lone surrogates, as in
// file names that are not UTF-8, become U+FFFD.
std::size_t encode_utf8(PyObject* text, char* out, std::size_t capacity) noexcept {
    const Py_ssize_t length = PyUnicode_GET_LENGTH(text);
    const int kind = PyUnicode_KIND(text);
    const void* const data = PyUnicode_DATA(text);
    std::size_t used = 0;
    for (Py_ssize_t index = 0; index < length && used + 4 <= capacity; ++index) {
        Py_UCS4 point = PyUnicode_READ(kind, data, index);
        if (point >= 0xD800 && point < 0xE000) {
            point = 0xFFFD;
        }
        if (point < 0x80) {
            out[used++] = static_cast<char>(point);
        } else if (point < 0x800) {
            out[used++] = static_cast<char>(0xC0 | point >> 6U);
            out[used++] = static_cast<char>(0x80 | (point & 0x3FU));
        } else if (point < 0x10000) {
            out[used++] = static_cast<char>(0xE0 | point >> 12U);
            out[used++] = static_cast<char>(0x80 | (point >> 6U & 0x3FU));
            out[used++] = static_cast<char>(0x80 | (point & 0x3FU));
        } else {
            out[used++] = static_cast<char>(0xF0 | point >> 18U);
            out[used++] = static_cast<char>(0x80 | (point >> 12U & 0x3FU));
            out[used++] = static_cast<char>(0x80 | (point >> 6U & 0x3FU));
            out[used++] = static_cast<char>(0x80 | (point & 0x3FU));
        }
    }
    return used;
}

std::uint32_t define_code(const RecordingScope& scope, PyCodeObject* code) noexcept {
    PyObject* const line_table = line_table_of_code(code);
    format::CodePayload payload{};
    payload.file_name_id = string_id_of(scope, code->co_filename);
    payload.name_id = string_id_of(scope, code->co_name);
    payload.first_line = static_cast<std::uint32_t>(code->co_firstlineno);
    payload.line_table_format =
        PY_VERSION_HEX < 0x030B0000 ? format::LineTableFormat::kPython310 : format::LineTableFormat::kPython311;
    payload.line_table_bytes = static_cast<std::uint32_t>(PyBytes_GET_SIZE(line_table));
    return recorder::intern_code(scope, payload, PyBytes_AS_STRING(line_table));
}

}  // namespace

std::uint32_t string_id_of(const RecordingScope& scope, PyObject* text) noexcept {
    if (text == nullptr || !PyUnicode_Check(text)) {
        return 0;
    }
    if (PyUnicode_IS_COMPACT_ASCII(text)) {
        const auto length = std::min<std::size_t>(static_cast<std::size_t>(PyUnicode_GET_LENGTH(text)), kLongestText);
        return recorder::intern_string(scope, reinterpret_cast<const char*>(PyUnicode_1BYTE_DATA(text)), length);
    }
    char encoded[kLongestText];
    return recorder::intern_string(scope, encoded, encode_utf8(text, encoded, sizeof(encoded)));
}

std::uint64_t code_generation() noexcept { return generation.load(std::memory_order_acquire); }

std::uint32_t code_id_of(const RecordingScope& scope, PyCodeObject* code) noexcept {
    const std::uint64_t epoch_mark = recorder::epoch() << 32U;
    const std::uint64_t hash = hash_of(code);
    for (unsigned probe = 0; probe < kLongestProbe; ++probe) {
        Entry& entry = table[(hash + probe) % kEntries];
        PyCodeObject* present = entry.code.load(std::memory_order_acquire);
        if (present == nullptr && entry.code.compare_exchange_strong(present, code, std::memory_order_acq_rel)) {
            present = code;
        }
        if (present != code) {
            continue;
        }
        const std::uint64_t known = entry.epoch_and_id.load(std::memory_order_acquire);
        if ((known & ~kIdMask) == epoch_mark && (known & kIdMask) != 0) {
            return static_cast<std::uint32_t>(known & kIdMask);
        }
        const std::uint32_t id = define_code(scope, code);
        entry.epoch_and_id.store(epoch_mark | id, std::memory_order_release);
        return id;
    }
    return define_code(scope, code);  // the table is full here: slower, but right
}

void forget_code(PyCodeObject* code) noexcept {
    const std::uint64_t hash = hash_of(code);
    for (unsigned probe = 0; probe < kLongestProbe; ++probe) {
        Entry& entry = table[(hash + probe) % kEntries];
        PyCodeObject* const present = entry.code.load(std::memory_order_acquire);
        if (present == nullptr) {
            return;  // never seen in a stack
        }
        if (present == code) {
            if (entry.epoch_and_id.exchange(0, std::memory_order_acq_rel) != 0) {
                generation.fetch_add(1, std::memory_order_acq_rel);
            }
            return;
        }
    }
    generation.fetch_add(1, std::memory_order_acq_rel);  // it may have been seen where the table was full
}

}  // namespace msmemscope

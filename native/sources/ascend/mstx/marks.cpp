#include "sources/ascend/mstx/marks.h"

#include <cstring>

#include "core/writer/attributes.h"
#include "core/writer/keep_errno.h"
#include "core/writer/recorder.h"
#include "sources/ascend/acl/acl.h"
#include "sources/ascend/mstx/mstx.h"
#include "sources/ascend/mstx/protocol.h"
#include "sources/ascend/mstx/sanitizer_marks.h"
#include "sources/ascend/npu.h"
#include "sources/program_marks.h"

namespace msmemscope::mstx {
namespace {

// Messages of other tools to themselves, made for each operator; they are nothing that the program says.
constexpr const char* kForeignPrefixes[] = {kSanitizerPrefix, "memscope-aten-"};

__attribute__((tls_model("initial-exec"))) __thread std::uint64_t calls = 0;

bool is_foreign(const char* message) noexcept {
    for (const char* prefix : kForeignPrefixes) {
        if (std::strncmp(message, prefix, std::strlen(prefix)) == 0) {
            return true;
        }
    }
    return false;
}

bool place(const RecordingScope& scope, void* stream, Event& event) {
    const int device = acl::current_device();
    if (device >= 0) {
        if (!observes_npu(device)) {
            return false;
        }
        event.device = npu(device);
    }
    const std::int32_t stream_id = stream != nullptr ? acl::current_stream_id(stream) : -1;
    if (stream_id >= 0) {
        event.attribute_id =
            Attributes(scope).number(format::AttributeKey::kStreamId, static_cast<std::uint64_t>(stream_id)).id();
    }
    return true;
}

void make_sanitizer_mark(const char* message) noexcept {
    const KeepErrno keep_errno;  // reading numbers sets it
    const int device = acl::current_device();
    const RecordingScope scope(recorder::is_collecting());
    if (scope && (device < 0 || observes_npu(device))) {
        record_sanitizer_mark(scope, message + std::strlen(kSanitizerPrefix),
                              device < 0 ? format::kDeviceNone : npu(device));
    }
}

void make_mark(const char* message, void* stream) noexcept {
    if (message != nullptr && takes_sanitizer_marks() &&
        std::strncmp(message, kSanitizerPrefix, std::strlen(kSanitizerPrefix)) == 0) {
        make_sanitizer_mark(message);
        return;
    }
    if (message == nullptr || !is_foreign(message)) {
        program_marks::mark(message, stream, place);
    }
}

}  // namespace

void mark(const char* message, void* stream) {
    ++calls;
    make_mark(message, stream);
}

std::uint64_t range_start(const char* message, void* stream) {
    ++calls;
    return program_marks::begin_range(message, stream, place);
}

void range_end(std::uint64_t range) {
    ++calls;
    program_marks::end_range(range, place);
}

void get_tool_id(std::uint64_t* tool) {
    if (tool != nullptr) {
        *tool = kToolId;
    }
}

void domain_mark(void* domain, const char* message, void* stream) {
    if (domain == nullptr) {
        mark(message, stream);
    }
}

std::uint64_t domain_range_start(void* domain, const char* message, void* stream) {
    return domain == nullptr ? range_start(message, stream) : 0;
}

void domain_range_end(void* domain, std::uint64_t range) {
    if (domain == nullptr) {
        range_end(range);
    }
}

void mark_from_python(const char* message, std::uint64_t stream) noexcept {
    make_mark(message, reinterpret_cast<void*>(stream));
}

std::uint64_t range_start_from_python(const char* message, std::uint64_t stream) noexcept {
    return program_marks::begin_range(message, reinterpret_cast<void*>(stream), place);
}

void range_end_from_python(std::uint64_t range) noexcept { program_marks::end_range(range, place); }

std::uint64_t calls_of_this_thread() noexcept { return calls; }

}  // namespace msmemscope::mstx

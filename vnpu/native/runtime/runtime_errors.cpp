#include "runtime_errors.h"

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace virtual_npu {
namespace {

thread_local std::string recent;    // set, not yet asked for
thread_local std::string returned;  // what the caller looks at, until it asks again

}  // namespace

}  // namespace virtual_npu

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED void virtual_npu_set_error(const char* text) { virtual_npu::recent = text; }

// Asking takes the text away. Never null: the callers make a string of it without a look.
EXPORTED const char* aclGetRecentErrMsg() {
    virtual_npu::returned.swap(virtual_npu::recent);
    virtual_npu::recent.clear();
    return virtual_npu::returned.c_str();
}

// The log of the framework above, shown where the user asks for it.
EXPORTED [[gnu::format(printf, 5, 6)]] void aclAppLog(int level, const char* function, const char*, uint32_t line,
                                                      const char* format, ...) {
    static const bool shown = std::getenv("VNPU_LOG") != nullptr;
    if (!shown) return;
    char text[1024];
    va_list values;
    va_start(values, format);
    std::vsnprintf(text, sizeof text, format, values);
    va_end(values);
    std::fprintf(stderr, "[vnpu] log %d %s:%u %s\n", level, function, line, text);
}

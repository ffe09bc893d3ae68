// The wrappers of launch functions: every argument arrives as it was given, and the result comes back.
#include <cerrno>
#include <cstdint>
#include <tuple>

#include "core/writer/recorder.h"
#include "sources/ascend/kernel_launch/kernel_launch.h"
#include "tests/check.h"
#include "tests/hooked.h"

using namespace msmemscope;
namespace observer = msmemscope::kernel_launch;

namespace {

template <typename... Arguments>
struct Recorded {
    static inline std::tuple<Arguments...> arguments;
    static inline int calls = 0;
    static int real(Arguments... given) {
        arguments = {given...};
        ++calls;
        errno = 33;
        return 4711;
    }
};

template <typename Value>
Value distinct(unsigned& next) {
    ++next;
    if constexpr (std::is_pointer_v<Value>) {
        return reinterpret_cast<Value>(0x7f0000000000ULL + next * 0x111111ULL);
    } else {
        return static_cast<Value>(0xf0e0d0c0b0a09000ULL + next);  // all bits of wide ones
    }
}

template <typename... Arguments>
void passes_all(const char* name) {
    using Real = Recorded<Arguments...>;
    const auto entry = tests::hooked(observer::kHooks, name, &Real::real);
    unsigned next = 0;
    const std::tuple<Arguments...> given{distinct<Arguments>(next)...};
    const int calls_before = Real::calls;
    CHECK_EQUAL(std::apply(entry, given), 4711);
    CHECK_EQUAL(errno, 33);
    CHECK_EQUAL(Real::calls, calls_before + 1);
    CHECK(Real::arguments == given);
}

using Handle = void*;
using Data = const void*;
using Word = std::uint32_t;

// The signatures as CANN's headers have them.
void pass_all() {
    passes_all<Data, Word, Handle, Word, Handle, Handle>("rtKernelLaunch");
    passes_all<Handle, std::uint64_t, Word, Handle, Handle, Handle, Data>("rtKernelLaunchWithHandleV2");
    passes_all<Data, Word, Handle, Handle, Handle, Word, Data>("rtKernelLaunchWithFlagV2");
    passes_all<Word, const char*, Word, Data, Handle, Handle, Word>("rtAicpuKernelLaunchExWithArgs");
    passes_all<Handle, Word, Handle, Handle>("rtLaunchKernelByFuncHandle");
    passes_all<Handle, Word, Handle, Handle, Data>("rtLaunchKernelByFuncHandleV2");
    passes_all<Handle, Word, Data, std::size_t, Handle>("aclrtLaunchKernelImpl");
    passes_all<Handle, Word, Data, std::size_t, Handle, Handle>("aclrtLaunchKernelV2Impl");
    passes_all<Handle, Word, Handle, Handle, Handle, Handle>("aclrtLaunchKernelWithConfig");
    passes_all<Handle, Word, Handle, Handle, Handle, std::size_t, Handle, std::size_t>("aclrtLaunchKernelWithHostArgs");
}

std::uint64_t began_inside = 0;
std::uint64_t began_outside = 0;

int inner(void*, std::uint32_t, void*, void*) {
    began_inside = observer::launch_began_ns();
    return 0;
}

auto launch_function() { return tests::hooked(observer::kHooks, "rtLaunchKernelByFuncHandle", &inner); }

int outer(void* function, std::uint32_t blocks, const void*, std::size_t, void* stream) {
    began_outside = observer::launch_began_ns();
    const int result = launch_function()(function, blocks, nullptr, stream);
    CHECK_EQUAL(observer::launch_began_ns(), began_outside);
    return result;
}

// The launch that the program made is the one that counts, not those that it is made of.
void nested() {
    const auto launch = tests::hooked(observer::kHooks, "aclrtLaunchKernelImpl", &outer);
    CHECK_EQUAL(launch(nullptr, 1, nullptr, 0, nullptr), 0);
    CHECK(began_outside != 0);
    CHECK_EQUAL(began_inside, began_outside);
    CHECK_EQUAL(observer::launch_began_ns(), 0U);
}

}  // namespace

int main() {
    pass_all();  // with nothing configured
    ScratchFolder folder;
    CHECK(recorder::configure(folder.settings("level=op\ndevices=npu\n").c_str()));
    CHECK_EQUAL(launch_function()(nullptr, 1, nullptr, nullptr), 0);
    CHECK_EQUAL(began_inside, 0U);  // nothing is done at level op
    // Here no library of the runtime, the profiler or the driver is there.
    CHECK(recorder::configure(folder.settings("level=kernel\ndevices=npu\n").c_str()));
    pass_all();
    nested();
    return 0;
}

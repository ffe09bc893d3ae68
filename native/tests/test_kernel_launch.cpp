// The wrappers of launch functions: every argument arrives as it was given, the result comes back, and a function that
// is not there is answered for.
#include <cerrno>
#include <cstdint>
#include <tuple>

#include "observers/kernel_launch/kernel_launch.h"
#include "tests/check.h"
#include "writer/recorder.h"

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
void passes_all(std::size_t index, int (*wrapper)(Arguments...), int missing) {
    using Real = Recorded<Arguments...>;
    observer::next_functions[index] = nullptr;
    unsigned next = static_cast<unsigned>(index) * 16;
    const std::tuple<Arguments...> given{distinct<Arguments>(next)...};
    CHECK_EQUAL(std::apply(wrapper, given), missing);
    observer::next_functions[index] = reinterpret_cast<void*>(&Real::real);
    const int calls_before = Real::calls;
    CHECK_EQUAL(std::apply(wrapper, given), 4711);
    CHECK_EQUAL(errno, 33);
    CHECK_EQUAL(Real::calls, calls_before + 1);
    CHECK(Real::arguments == given);
}

void pass_all() {
    constexpr int kRuntime = 0x99;
    constexpr int kInterface = 500003;
    passes_all(0, &observer::launch_stub, kRuntime);
    passes_all(1, &observer::launch_with_handle, kRuntime);
    passes_all(2, &observer::launch_with_flag, kRuntime);
    passes_all(3, &observer::launch_on_ai_cpu, kRuntime);
    passes_all(4, &observer::launch_function, kRuntime);
    passes_all(5, &observer::launch_function_v2, kRuntime);
    passes_all(6, &observer::acl_launch, kInterface);
    passes_all(7, &observer::acl_launch_v2, kInterface);
    passes_all(8, &observer::acl_launch_with_config, kInterface);
    passes_all(9, &observer::acl_launch_with_host_args, kInterface);
}

std::uint64_t began_inside = 0;
std::uint64_t began_outside = 0;

int inner(void*, std::uint32_t, void*, void*) {
    began_inside = observer::launch_began_ns();
    return 0;
}

int outer(void* function, std::uint32_t blocks, const void*, std::size_t, void* stream) {
    began_outside = observer::launch_began_ns();
    const int result = observer::launch_function(function, blocks, nullptr, stream);
    CHECK_EQUAL(observer::launch_began_ns(), began_outside);
    return result;
}

// The launch that the program made is the one that counts, not those that it is made of.
void nested() {
    observer::next_functions[4] = reinterpret_cast<void*>(&inner);
    observer::next_functions[6] = reinterpret_cast<void*>(&outer);
    CHECK_EQUAL(observer::acl_launch(nullptr, 1, nullptr, 0, nullptr), 0);
    CHECK(began_outside != 0);
    CHECK_EQUAL(began_inside, began_outside);
    CHECK_EQUAL(observer::launch_began_ns(), 0U);
}

}  // namespace

int main() {
    pass_all();  // with nothing configured
    ScratchFolder folder;
    CHECK(recorder::configure(folder.settings("level=op\ndevices=npu\n").c_str()));
    observer::next_functions[4] = reinterpret_cast<void*>(&inner);
    CHECK_EQUAL(observer::launch_function(nullptr, 1, nullptr, nullptr), 0);
    CHECK_EQUAL(began_inside, 0U);  // nothing is done at level op
    // Here no library of the runtime, the profiler or the driver is there.
    CHECK(recorder::configure(folder.settings("level=kernel\ndevices=npu\n").c_str()));
    pass_all();
    nested();
    return 0;
}

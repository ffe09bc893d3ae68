// Device memory and marks from C++: five steps, of which one leaks.
//
//     g++ marks.cpp -I$ASCEND_HOME_PATH/include -L$ASCEND_HOME_PATH/lib64 -lascendcl -lms_tools_ext -o marks
//     msmemscope --device=npu ./marks
//
// It compiles and runs unchanged on hardware and on the virtual NPU (eval "$(vnpu env --compute=none)").
#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "acl/acl.h"
#include "mstx/ms_tools_ext.h"

namespace {

constexpr size_t kMebibyte = size_t{1} << 20;
constexpr int kSteps = 5;
constexpr int kLeakingStep = 3;

// Ends the program with the runtime's own words if a call fails.
void require(aclError status, const char* call) {
    if (status == ACL_SUCCESS) return;
    std::cerr << call << " failed with " << status << ": " << aclGetRecentErrMsg() << '\n';
    std::exit(1);
}

}  // namespace

int main() {
    require(aclInit(nullptr), "aclInit");
    require(aclrtSetDevice(0), "aclrtSetDevice");
    mstxMarkA("weights", nullptr);
    void* weights = nullptr;
    require(aclrtMalloc(&weights, 64 * kMebibyte, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");

    for (int step = 1; step <= kSteps; ++step) {
        const uint64_t range = mstxRangeStartA("step start", nullptr);  // begins a step for the tool
        void* activations = nullptr;
        require(aclrtMalloc(&activations, static_cast<size_t>(step) * kMebibyte, ACL_MEM_MALLOC_HUGE_FIRST),
                "aclrtMalloc");
        require(aclrtMemset(activations, kMebibyte, 0, kMebibyte), "aclrtMemset");
        if (step != kLeakingStep) require(aclrtFree(activations), "aclrtFree");
        mstxRangeEnd(range);
    }

    require(aclrtFree(weights), "aclrtFree");
    require(aclrtResetDevice(0), "aclrtResetDevice");
    require(aclFinalize(), "aclFinalize");
    std::cout << "done\n";
    return 0;
}

#include "groups.h"

#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "call_errors.h"
#include "on_stream.h"
#include "point_to_point.h"

namespace virtual_npu {
namespace {

constexpr const char* kCall = "HcclGroupEnd";

thread_local int depth = 0;
thread_local std::map<void*, std::vector<BatchItem>> waiting;  // by communicator
thread_local void* group_stream = nullptr;                     // of the last message

struct Outcome {
    int status = kHcclSuccess;
    std::string error;
};

// Messages of one communicator may wait for those of another, on this rank or on a third one. So all are moved at the
// same time, each communicator's on a thread of its own; the text of an error belongs to the thread that met it.
int run_together(const std::map<void*, std::vector<BatchItem>>& batches) {
    std::vector<Outcome> outcomes(batches.size());
    std::vector<std::thread> threads;
    for (const auto& [communicator, items] : batches) {
        threads.emplace_back([communicator = communicator, &items = items, &outcome = outcomes[threads.size()]] {
            outcome.status = run_batch(communicator, items.data(), static_cast<uint32_t>(items.size()), kCall);
            if (outcome.status != kHcclSuccess) outcome.error = aclGetRecentErrMsg();
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Outcome& outcome : outcomes) {
        if (outcome.status == kHcclSuccess) continue;
        virtual_npu_set_error(outcome.error.c_str());
        return outcome.status;
    }
    return kHcclSuccess;
}

}  // namespace

bool in_group() { return depth > 0; }

void add_to_group(void* communicator, const BatchItem& item, void* stream) {
    waiting[communicator].push_back(item);
    group_stream = stream;
}

}  // namespace virtual_npu

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int HcclGroupStart() {
    ++virtual_npu::depth;
    return virtual_npu::kHcclSuccess;
}

EXPORTED int HcclGroupEnd() {
    using namespace virtual_npu;
    if (depth == 0) return report(kHcclInvalidParameter, "EI0003: %s: this thread has begun no group", kCall);
    if (--depth > 0) return kHcclSuccess;
    return on_stream(group_stream, [batches = std::exchange(waiting, {})] {
        if (batches.empty()) return static_cast<int>(kHcclSuccess);
        if (batches.size() > 1) return run_together(batches);
        const auto& [communicator, items] = *batches.begin();
        return run_batch(communicator, items.data(), static_cast<uint32_t>(items.size()), kCall);
    });
}

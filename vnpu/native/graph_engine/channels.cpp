// libacl_tdt_channel.so: channels on which graphs on the device send tensors to the host, for printing and dumping.
// There are no graphs here, so nobody sends; who receives waits as long as it asked for, and learns that the channel is
// empty. MindSpore opens such channels when it first uses a device, each with a thread that receives.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "runtime_errors.h"

namespace {

constexpr int kQueueEmpty = 207013;

}  // namespace

struct acltdtChannelHandle {
    std::string name;
    std::mutex guard;
    std::condition_variable stopping;
    bool is_stopped = false;
};

// What is received is put in here: nothing ever is.
struct acltdtDataset {};

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED acltdtChannelHandle* acltdtCreateChannelWithCapacity(uint32_t, const char* name, size_t capacity) {
    if (name == nullptr || capacity == 0) {
        virtual_npu::fail(virtual_npu::kAclInvalidParameter, "EE1001: a channel needs a name and a capacity");
        return nullptr;
    }
    auto* channel = new acltdtChannelHandle;
    channel->name = name;
    return channel;
}

EXPORTED acltdtChannelHandle* acltdtCreateChannel(uint32_t device, const char* name) {
    return acltdtCreateChannelWithCapacity(device, name, 1);
}

EXPORTED int acltdtStopChannel(acltdtChannelHandle* channel) {
    if (channel == nullptr) return virtual_npu::fail(virtual_npu::kAclInvalidParameter, "EE1001: null is no channel");
    const std::lock_guard<std::mutex> lock(channel->guard);
    channel->is_stopped = true;
    channel->stopping.notify_all();
    return virtual_npu::kAclSuccess;
}

EXPORTED int acltdtDestroyChannel(acltdtChannelHandle* channel) {
    if (channel == nullptr) return virtual_npu::fail(virtual_npu::kAclInvalidParameter, "EE1001: null is no channel");
    delete channel;
    return virtual_npu::kAclSuccess;
}

EXPORTED int acltdtCleanChannel(acltdtChannelHandle* channel) {
    if (channel == nullptr) return virtual_npu::fail(virtual_npu::kAclInvalidParameter, "EE1001: null is no channel");
    return virtual_npu::kAclSuccess;
}

EXPORTED int acltdtQueryChannelSize(const acltdtChannelHandle* channel, size_t* size) {
    if (channel == nullptr || size == nullptr) {
        return virtual_npu::fail(virtual_npu::kAclInvalidParameter, "EE1001: a channel and room for a size are needed");
    }
    *size = 0;
    return virtual_npu::kAclSuccess;
}

EXPORTED int acltdtReceiveTensor(const acltdtChannelHandle* handle, acltdtDataset*, int32_t timeout_ms) {
    if (handle == nullptr) return virtual_npu::fail(virtual_npu::kAclInvalidParameter, "EE1001: null is no channel");
    auto* channel = const_cast<acltdtChannelHandle*>(handle);
    std::unique_lock<std::mutex> lock(channel->guard);
    const auto stopped = [channel] { return channel->is_stopped; };
    if (timeout_ms < 0) {
        channel->stopping.wait(lock, stopped);
    } else {
        channel->stopping.wait_for(lock, std::chrono::milliseconds(timeout_ms), stopped);
    }
    return kQueueEmpty;
}

EXPORTED int acltdtSendTensor(const acltdtChannelHandle*, const acltdtDataset*, int32_t) {
    return virtual_npu::fail(virtual_npu::kAclUnsupported, "EE1001: acltdtSendTensor: there are no graphs to send to");
}

EXPORTED acltdtDataset* acltdtCreateDataset() { return new acltdtDataset; }
EXPORTED int acltdtDestroyDataset(acltdtDataset* dataset) {
    delete dataset;
    return virtual_npu::kAclSuccess;
}
EXPORTED size_t acltdtGetDatasetSize(const acltdtDataset*) { return 0; }
EXPORTED const char* acltdtGetDatasetName(const acltdtDataset*) { return ""; }
EXPORTED void* acltdtGetDataItem(const acltdtDataset*, size_t) { return nullptr; }

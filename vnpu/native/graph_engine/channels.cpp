// libacl_tdt_channel.so: channels on which graphs on the device send tensors to the host, for printing and dumping.
// There are no graphs here, so nobody sends; who receives waits as long as it asked for, and learns that the channel is
// empty. MindSpore opens such channels when it first uses a device, each with a thread that receives.
#include <pthread.h>
#include <time.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime_errors.h"

namespace {

constexpr int kQueueEmpty = 207013;

}  // namespace

// By pthreads: std::condition_variable wants functions of a newer C and C++ library than wheels may.
struct acltdtChannelHandle {
    acltdtChannelHandle() {
        pthread_condattr_t attributes;
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(&stopping, &attributes);
        pthread_condattr_destroy(&attributes);
    }
    ~acltdtChannelHandle() {
        pthread_cond_destroy(&stopping);
        pthread_mutex_destroy(&guard);
    }
    acltdtChannelHandle(const acltdtChannelHandle&) = delete;
    acltdtChannelHandle& operator=(const acltdtChannelHandle&) = delete;

    std::string name;
    pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t stopping;
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
    pthread_mutex_lock(&channel->guard);
    channel->is_stopped = true;
    pthread_cond_broadcast(&channel->stopping);
    pthread_mutex_unlock(&channel->guard);
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
    timespec until{};
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (timeout_ms % 1000) * 1'000'000L;
    if (until.tv_nsec >= 1'000'000'000L) {
        until.tv_sec += 1;
        until.tv_nsec -= 1'000'000'000L;
    }
    pthread_mutex_lock(&channel->guard);
    for (int status = 0; !channel->is_stopped && status == 0;) {
        status = timeout_ms < 0 ? pthread_cond_wait(&channel->stopping, &channel->guard)
                                : pthread_cond_timedwait(&channel->stopping, &channel->guard, &until);
    }
    pthread_mutex_unlock(&channel->guard);
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

#include "device_failures.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>

#include "settings.h"
#include "stream_work.h"

namespace virtual_npu {
namespace {

// Written at the first failure, read at every launch.
std::atomic<const char*> failures[kMostDevices];

// A text lives as long as the process: a reader may still look at it after a reset.
const char* kept_text(const char* text) {
    static std::mutex guard;
    static auto* texts = new std::deque<std::string>();
    const std::lock_guard<std::mutex> lock(guard);
    return texts->emplace_back(text).c_str();
}

bool is_device(int32_t device) { return device >= 0 && device < static_cast<int32_t>(kMostDevices); }

// As torch_npu reads it: any number but 0.
bool launches_block() {
    const char* text = std::getenv("ASCEND_LAUNCH_BLOCKING");
    return text != nullptr && std::strtol(text, nullptr, 10) != 0;
}

// torch_npu names the thread that takes operators from its task queue.
bool on_task_queue_thread() {
    char name[16] = "";
    return pthread_getname_np(pthread_self(), name, sizeof name) == 0 && std::strcmp(name, "acl_thread") == 0;
}

void fail(int32_t device, const char* text) {
    if (!is_device(device)) return;
    const char* first = nullptr;
    failures[device].compare_exchange_strong(first, kept_text(text));
    something_happened();  // nobody waits for a device that has failed
}

}  // namespace
}  // namespace virtual_npu

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED void virtual_npu_task_failed(int32_t device, const char* text) {
    if (!virtual_npu::launches_block()) virtual_npu::fail(device, text);
}

EXPORTED void virtual_npu_later_task_failed(int32_t device, const char* text) { virtual_npu::fail(device, text); }

EXPORTED void virtual_npu_call_refused(int32_t device, const char* text) {
    if (virtual_npu::on_task_queue_thread()) virtual_npu::fail(device, text);
}

EXPORTED const char* virtual_npu_device_failure(int32_t device) {
    return virtual_npu::is_device(device) ? virtual_npu::failures[device].load(std::memory_order_acquire) : nullptr;
}

EXPORTED void virtual_npu_forget_failure(int32_t device) {
    if (virtual_npu::is_device(device)) virtual_npu::failures[device] = nullptr;
}

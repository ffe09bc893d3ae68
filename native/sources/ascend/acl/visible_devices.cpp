#include "sources/ascend/acl/visible_devices.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "core/writer/recorder.h"

namespace msmemscope::acl {
namespace {

enum class Progress : int { kUnread, kBeingRead, kRead };

VisibleDevices visible;
std::atomic<Progress> progress{Progress::kUnread};

bool is_blank(char letter) noexcept { return letter == ' ' || letter == '\t'; }

// One number up to the comma or the end; advances behind it. False if there is something else.
bool read_number(const char*& text, int& number) noexcept {
    constexpr int kLargest = 0x7FFF;
    while (is_blank(*text)) {
        ++text;
    }
    if (*text < '0' || *text > '9') {
        return false;
    }
    for (number = 0; *text >= '0' && *text <= '9'; ++text) {
        number = number * 10 + (*text - '0');
        if (number > kLargest) {
            return false;
        }
    }
    while (is_blank(*text)) {
        ++text;
    }
    return *text == ',' || *text == '\0';
}

}  // namespace

bool VisibleDevices::parse(const char* text) noexcept {
    translates_ = false;
    if (text == nullptr || *text == '\0') {
        return true;
    }
    std::size_t count = 0;
    while (true) {
        int number = 0;
        if (count == kMost || !read_number(text, number)) {
            return false;
        }
        devices_[count++] = static_cast<std::int16_t>(number);
        if (*text == '\0') {
            break;
        }
        ++text;
    }
    count_ = count;
    translates_ = true;
    return true;
}

void read_visible_devices() noexcept {
    Progress expected = Progress::kUnread;
    if (!progress.compare_exchange_strong(expected, Progress::kBeingRead, std::memory_order_acq_rel)) {
        return;
    }
    const char* const text = std::getenv("ASCEND_RT_VISIBLE_DEVICES");
    const bool is_list = visible.parse(text);
    progress.store(Progress::kRead, std::memory_order_release);
    if (!is_list) {
        char line[256];
        std::snprintf(line, sizeof(line),
                      "ASCEND_RT_VISIBLE_DEVICES=%.100s is no list of device numbers; devices keep their own numbers",
                      text);
        recorder::warn(line);
    }
}

int physical_device(int logical) noexcept {
    if (__builtin_expect(progress.load(std::memory_order_acquire) != Progress::kRead, 0)) {
        read_visible_devices();
        if (progress.load(std::memory_order_acquire) != Progress::kRead) {
            return -1;  // another thread is at it
        }
    }
    return visible.physical(logical);
}

}  // namespace msmemscope::acl

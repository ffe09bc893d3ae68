#include "sources/visible_devices.h"

#include <cstdio>
#include <cstdlib>

#include "core/writer/recorder.h"

namespace msmemscope {
namespace {

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

void VisibleByVariable::read() noexcept {
    Progress expected = Progress::kUnread;
    if (!progress_.compare_exchange_strong(expected, Progress::kBeingRead, std::memory_order_acq_rel)) {
        return;
    }
    const char* const text = std::getenv(variable_);
    const bool is_list = devices_.parse(text);
    progress_.store(Progress::kRead, std::memory_order_release);
    if (!is_list && !has_other_names_) {
        char line[256];
        std::snprintf(line, sizeof(line), "%s=%.100s is no list of device numbers; devices keep their own numbers",
                      variable_, text);
        recorder::warn(line);
    }
}

int VisibleByVariable::physical(int logical) noexcept {
    if (__builtin_expect(progress_.load(std::memory_order_acquire) != Progress::kRead, 0)) {
        read();
        if (progress_.load(std::memory_order_acquire) != Progress::kRead) {
            return -1;  // another thread is at it
        }
    }
    return devices_.physical(logical);
}

}  // namespace msmemscope

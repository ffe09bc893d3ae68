#include "sources/kernel_names.h"

#include <sched.h>

#include <cstring>

namespace msmemscope {
namespace {

std::size_t first_place(std::uint64_t id) noexcept {
    return ((id ^ (id >> 32U)) * 0x9e3779b97f4a7c15ULL >> 40U) % KernelNames::kCapacity;
}

constexpr std::size_t kMostProbes = 64;

// Another thread is writing the text: that takes no time, unless it was killed or left behind by a fork.
bool wait_for(const std::atomic<const char*>& text) noexcept {
    for (int attempt = 0; attempt < 100 && text.load(std::memory_order_acquire) == nullptr; ++attempt) {
        sched_yield();
    }
    return text.load(std::memory_order_acquire) != nullptr;
}

}  // namespace

KernelNames::Entry* KernelNames::locate(std::uint64_t id) noexcept {
    for (std::size_t probe = 0; probe < kMostProbes; ++probe) {
        Entry& entry = entries_[(first_place(id) + probe) % kCapacity];
        const std::uint64_t known = entry.id.load(std::memory_order_acquire);
        if (known == id) {
            return &entry;
        }
        if (known == 0) {
            return nullptr;
        }
    }
    return nullptr;
}

bool KernelNames::add(std::uint64_t id, const char* text, std::size_t bytes) noexcept {
    if (id == 0) {
        return false;
    }
    if (const Entry* const known = locate(id); known != nullptr) {
        return wait_for(known->text);
    }
    const std::size_t length = strnlen(text, bytes < kLongest ? bytes : kLongest);
    if (text_bytes_.load(std::memory_order_relaxed) + length + 1 > kTextBytes) {
        return false;
    }
    const std::size_t place = text_bytes_.fetch_add(length + 1, std::memory_order_relaxed);
    if (place + length + 1 > kTextBytes) {
        return false;
    }
    std::memcpy(texts_ + place, text, length);  // the zero byte is there already
    for (std::size_t probe = 0; probe < kMostProbes; ++probe) {
        Entry& entry = entries_[(first_place(id) + probe) % kCapacity];
        std::uint64_t known = 0;
        if (entry.id.compare_exchange_strong(known, id, std::memory_order_acq_rel)) {
            entry.text.store(texts_ + place, std::memory_order_release);
            return true;
        }
        if (known == id) {
            return wait_for(entry.text);  // another thread was faster; the few bytes are lost
        }
    }
    return false;
}

const char* KernelNames::find(std::uint64_t id) const noexcept {
    const Entry* const entry = id == 0 ? nullptr : const_cast<KernelNames*>(this)->locate(id);
    return entry == nullptr ? nullptr : entry->text.load(std::memory_order_acquire);
}

std::uint32_t KernelNames::string_id(const RecordingScope& scope, std::uint64_t id) noexcept {
    Entry* const entry = id == 0 ? nullptr : locate(id);
    const char* const text = entry == nullptr ? nullptr : entry->text.load(std::memory_order_acquire);
    if (text == nullptr) {
        return 0;
    }
    const std::uint64_t epoch = recorder::epoch() & 0xffffffffU;
    const std::uint64_t known = entry->string_id.load(std::memory_order_relaxed);
    if (known >> 32U == epoch && known != 0) {
        return static_cast<std::uint32_t>(known);
    }
    const std::uint32_t interned = recorder::intern_string(scope, text, std::strlen(text));
    entry->string_id.store(epoch << 32U | interned, std::memory_order_relaxed);
    return interned;
}

}  // namespace msmemscope

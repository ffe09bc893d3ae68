// A lock for the rare paths (a chunk is full, a thread starts), never for writing
// a record. Waiting is bounded: the observed program must not hang because one of
// its threads was stopped while it held this lock.
//
// The zero state is "unlocked", so a lock in memory that fork wipes is free in the child.
#pragma once

#include <sched.h>
#include <time.h>

#include <atomic>

namespace msmemscope {

class BoundedLock {
public:
    // Returns false after about two seconds without success.
    bool acquire() noexcept {
        for (int attempt = 0; attempt < 200; ++attempt) {
            if (!held_.exchange(true, std::memory_order_acquire)) {
                return true;
            }
            sched_yield();
        }
        for (int attempt = 0; attempt < 20000; ++attempt) {
            const timespec pause{0, 100000};
            nanosleep(&pause, nullptr);
            if (!held_.exchange(true, std::memory_order_acquire)) {
                return true;
            }
        }
        return false;
    }

    void release() noexcept { held_.store(false, std::memory_order_release); }

private:
    std::atomic<bool> held_;
};

class BoundedLockGuard {
public:
    explicit BoundedLockGuard(BoundedLock& lock) noexcept : lock_(lock), held_(lock.acquire()) {}
    ~BoundedLockGuard() {
        if (held_) {
            lock_.release();
        }
    }
    BoundedLockGuard(const BoundedLockGuard&) = delete;
    BoundedLockGuard& operator=(const BoundedLockGuard&) = delete;

    explicit operator bool() const noexcept { return held_; }

private:
    BoundedLock& lock_;
    bool held_;
};

}  // namespace msmemscope

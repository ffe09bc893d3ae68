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
    // Returns false after about two seconds without success. From then on it returns false at once, until the lock is
    // free again. Otherwise the program would seem to hang if all of its threads waited for one that was stopped.
    bool acquire() noexcept {
        if (take()) {
            return true;
        }
        for (int attempt = 0; attempt < 20200; ++attempt) {
            if (waited_in_vain_.load(std::memory_order_relaxed)) {
                return false;
            }
            if (attempt < 200) {
                sched_yield();
            } else {
                const timespec pause{0, 100000};
                nanosleep(&pause, nullptr);
            }
            if (take()) {
                return true;
            }
        }
        waited_in_vain_.store(true, std::memory_order_relaxed);
        return false;
    }

    void release() noexcept { held_.store(false, std::memory_order_release); }

private:
    bool take() noexcept {
        if (held_.exchange(true, std::memory_order_acquire)) {
            return false;
        }
        if (waited_in_vain_.load(std::memory_order_relaxed)) {
            waited_in_vain_.store(false, std::memory_order_relaxed);
        }
        return true;
    }

    std::atomic<bool> held_;
    std::atomic<bool> waited_in_vain_;
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

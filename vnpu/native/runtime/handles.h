// Objects behind handles. Their memory is never given back, so that a handle of one that was destroyed can be
// recognised.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

namespace virtual_npu {

template <typename Object, uint64_t kMark>
class Handles {
public:
    static Object* make() {
        const std::lock_guard<std::mutex> lock(guard());
        if (unused().empty()) return new Object{};
        Object* object = unused().back();
        unused().pop_back();
        return object;
    }
    // False if it is none, or no more.
    static bool release(void* handle) {
        auto* object = static_cast<Object*>(handle);
        uint64_t mark = kMark;
        if (object == nullptr || !object->mark.compare_exchange_strong(mark, 0)) return false;
        const std::lock_guard<std::mutex> lock(guard());
        unused().push_back(object);
        return true;
    }

private:
    static std::mutex& guard() {
        static auto* mutex = new std::mutex();
        return *mutex;
    }
    static std::vector<Object*>& unused() {
        static auto* objects = new std::vector<Object*>();
        return *objects;
    }
};

}  // namespace virtual_npu

// Memory of the watch's own, apart from the program's allocator: it is used inside hooks of allocation functions.
//
// Safe for threads. After a fork that met another thread in here, a child waits for two seconds and goes on.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

namespace msmemscope::watch {

#pragma GCC visibility push(default)
// Never null: a program that cannot map a few pages more is at its end anyway.
void* take_pages(std::size_t bytes) noexcept;
void give_pages(void* memory, std::size_t bytes) noexcept;
#pragma GCC visibility pop

template <typename Value>
struct PageAllocator {
    using value_type = Value;

    PageAllocator() noexcept = default;
    template <typename Other>
    explicit PageAllocator(const PageAllocator<Other>&) noexcept {}

    Value* allocate(std::size_t count) { return static_cast<Value*>(take_pages(count * sizeof(Value))); }
    void deallocate(Value* memory, std::size_t count) noexcept { give_pages(memory, count * sizeof(Value)); }

    friend bool operator==(const PageAllocator&, const PageAllocator&) noexcept { return true; }
    friend bool operator!=(const PageAllocator&, const PageAllocator&) noexcept { return false; }
};

template <typename Value>
using Vector = std::vector<Value, PageAllocator<Value>>;
template <typename Key, typename Value>
using Map = std::map<Key, Value, std::less<Key>, PageAllocator<std::pair<const Key, Value>>>;

}  // namespace msmemscope::watch

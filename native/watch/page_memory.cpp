#include "watch/page_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

#include "core/writer/bounded_lock.h"

namespace msmemscope::watch {
namespace {

constexpr std::size_t kSmallest = 64;
constexpr std::size_t kLargestShared = std::size_t{64} << 10U;  // larger pieces are mapped one by one
constexpr std::size_t kChunk = std::size_t{1} << 20U;
constexpr unsigned kClasses = 11;  // 64 bytes to 64 KiB, by doubling

struct FreePiece {
    FreePiece* next;
};
BoundedLock pieces_lock;
FreePiece* free_pieces[kClasses];
char* chunk_cursor = nullptr;
char* chunk_end = nullptr;

unsigned class_of(std::size_t bytes) noexcept {
    unsigned number = 0;
    for (std::size_t size = kSmallest; size < bytes; size *= 2) {
        ++number;
    }
    return number;
}

void* map_pages(std::size_t bytes) noexcept {
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        std::abort();
    }
    return memory;
}

}  // namespace

void* take_pages(std::size_t bytes) noexcept {
    if (bytes > kLargestShared) {
        return map_pages(bytes);
    }
    const unsigned number = class_of(bytes);
    const BoundedLockGuard guard(pieces_lock);
    if (free_pieces[number] != nullptr) {
        FreePiece* const piece = free_pieces[number];
        free_pieces[number] = piece->next;
        return piece;
    }
    const std::size_t size = kSmallest << number;
    if (static_cast<std::size_t>(chunk_end - chunk_cursor) < size) {
        chunk_cursor = static_cast<char*>(map_pages(kChunk));
        chunk_end = chunk_cursor + kChunk;
    }
    void* const piece = chunk_cursor;
    chunk_cursor += size;
    return piece;
}

void give_pages(void* memory, std::size_t bytes) noexcept {
    if (bytes > kLargestShared) {
        munmap(memory, bytes);
        return;
    }
    auto* const piece = static_cast<FreePiece*>(memory);
    const unsigned number = class_of(bytes);
    const BoundedLockGuard guard(pieces_lock);
    piece->next = free_pieces[number];
    free_pieces[number] = piece;
}

}  // namespace msmemscope::watch

// Memory that grows at its end, and is not filled before it is written to.
#pragma once

#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

namespace msmemscope {

class ByteBuffer {
public:
    ByteBuffer() = default;
    ~ByteBuffer() { std::free(bytes_); }
    ByteBuffer(const ByteBuffer&) = delete;
    ByteBuffer& operator=(const ByteBuffer&) = delete;

    char* data() { return bytes_; }
    const char* data() const { return bytes_; }
    std::size_t size() const { return size_; }
    std::string_view text() const { return {bytes_, size_}; }
    void clear() { size_ = 0; }
    // Takes back what was written behind a place.
    void shrink(std::size_t size) { size_ = size; }

    // Returns where the next bytes go, with room for so many.
    char* room(std::size_t count) {
        if (capacity_ - size_ < count) {
            grow(count);
        }
        return bytes_ + size_;
    }

    void advance(std::size_t count) { size_ += count; }

    void put(char letter) {
        *room(1) = letter;
        ++size_;
    }

    void put(std::string_view text) {
        char* const target = room(text.size());
        if (!text.empty()) {
            std::memcpy(target, text.data(), text.size());
        }
        size_ += text.size();
    }

    // The bytes, which the caller frees. The buffer is empty then.
    char* released() {
        char* const bytes = bytes_;
        bytes_ = nullptr;
        size_ = capacity_ = 0;
        return bytes;
    }

private:
    void grow(std::size_t count) {
        std::size_t capacity = capacity_ == 0 ? kFirstBytes : 2 * capacity_;
        while (capacity - size_ < count) {
            capacity *= 2;
        }
        auto* const grown = static_cast<char*>(std::realloc(bytes_, capacity));
        if (grown == nullptr) {
            throw std::bad_alloc();
        }
        bytes_ = grown;
        capacity_ = capacity;
    }

    static constexpr std::size_t kFirstBytes = 4096;

    char* bytes_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

}  // namespace msmemscope

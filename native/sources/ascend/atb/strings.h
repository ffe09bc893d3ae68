// Strings of the observed program, in both layouts of libstdc++.
//
// The core brings no std::string of either kind along: what a program's string looks like depends on what the program's
// libraries were compiled with.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msmemscope::atb {

// _GLIBCXX_USE_CXX11_ABI=0: one pointer to characters that are shared and counted; =1: pointer, length, short text.
enum class StringLayout : std::uint8_t { kShared, kCxx11 };

struct Characters {
    const char* data;
    std::size_t bytes;
};

Characters characters_of(const void* string, StringLayout layout) noexcept;

// The result of a function that returns a std::string by value. Classes with a destructor are returned in memory of the
// caller. So the compiler passes the address of that memory, as it does for std::string. The destructor leaves the text
// alone. Call give_back() to do what std::string's own destructor would do.
class ReturnedString {
public:
    ReturnedString(const ReturnedString&) = delete;
    ReturnedString& operator=(const ReturnedString&) = delete;
    // NOLINTNEXTLINE(modernize-use-equals-default): a trivial one would change how the value is returned
    ~ReturnedString() {}

    Characters characters(StringLayout layout) const noexcept { return characters_of(bytes_, layout); }
    void give_back(StringLayout layout) noexcept;

private:
    alignas(void*) unsigned char bytes_[32];
};

// Copies text and ends it with a zero; a text that does not fit is cut between two characters of UTF-8.
// Returns the bytes copied, without the zero.
std::size_t copy_text(Characters text, char* target, std::size_t capacity) noexcept;

// Text put together in a place of fixed size; what does not fit is left out.
class TextWriter {
public:
    TextWriter(char* target, std::size_t capacity) noexcept : target_(target), capacity_(capacity), bytes_(0) {}

    TextWriter& text(const char* text) noexcept;
    TextWriter& text(Characters text) noexcept;
    TextWriter& number(std::int64_t value) noexcept;

    const char* data() const noexcept { return target_; }
    std::size_t bytes() const noexcept { return bytes_; }

private:
    char* target_;
    std::size_t capacity_;
    std::size_t bytes_;
};

}  // namespace msmemscope::atb

#include "sources/ascend/atb/strings.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "interpose/patcher.h"

namespace msmemscope::atb {
namespace {

// In front of the characters of a shared string. owners: those beyond the first.
struct SharedHeader {
    std::size_t bytes;
    std::size_t capacity;
    std::int32_t owners;
};
static_assert(sizeof(SharedHeader) == 24);

struct Cxx11String {
    char* data;
    std::size_t bytes;
    char short_text[16];
};
static_assert(sizeof(Cxx11String) == 32);

SharedHeader* header_of(char* characters) noexcept { return reinterpret_cast<SharedHeader*>(characters) - 1; }

// With the program's own operator delete, because its operator new made it.
void delete_memory(void* memory) noexcept {
    static void (*next)(void*) = nullptr;
    auto* function = __atomic_load_n(&next, __ATOMIC_ACQUIRE);
    if (function == nullptr) {
        // The one of the global scope, if there is one: a library may have another one for itself.
        void* const found = dlsym(RTLD_DEFAULT, "_ZdlPv");
        function = reinterpret_cast<void (*)(void*)>(found != nullptr ? found : find_function("_ZdlPv"));
        __atomic_store_n(&next, function, __ATOMIC_RELEASE);
    }
    if (function != nullptr) {
        function(memory);
    }
}

}  // namespace

Characters characters_of(const void* string, StringLayout layout) noexcept {
    if (string == nullptr) {
        return Characters{"", 0};
    }
    if (layout == StringLayout::kCxx11) {
        const auto* const cxx11 = static_cast<const Cxx11String*>(string);
        return cxx11->data != nullptr ? Characters{cxx11->data, cxx11->bytes} : Characters{"", 0};
    }
    char* const data = *static_cast<char* const*>(string);
    return data != nullptr ? Characters{data, header_of(data)->bytes} : Characters{"", 0};
}

void ReturnedString::give_back(StringLayout layout) noexcept {
    if (layout == StringLayout::kCxx11) {
        auto* const string = reinterpret_cast<Cxx11String*>(bytes_);
        if (string->data != nullptr && string->data != string->short_text) {
            delete_memory(string->data);
        }
        return;
    }
    char* const data = *reinterpret_cast<char**>(bytes_);
    // The empty string is a constant of libstdc++ and belongs to nobody.
    if (data == nullptr || header_of(data)->capacity == 0) {
        return;
    }
    if (__atomic_fetch_sub(&header_of(data)->owners, 1, __ATOMIC_ACQ_REL) <= 0) {
        delete_memory(header_of(data));
    }
}

std::size_t copy_text(Characters text, char* target, std::size_t capacity) noexcept {
    std::size_t bytes = std::min(text.bytes, capacity - 1);
    if (bytes < text.bytes) {
        while (bytes > 0 && (static_cast<unsigned char>(text.data[bytes]) & 0xC0U) == 0x80U) {
            --bytes;
        }
    }
    std::memcpy(target, text.data, bytes);
    target[bytes] = '\0';
    return bytes;
}

TextWriter& TextWriter::text(Characters text) noexcept {
    const std::size_t bytes = std::min(text.bytes, capacity_ - bytes_);
    std::memcpy(target_ + bytes_, text.data, bytes);
    bytes_ += bytes;
    return *this;
}

TextWriter& TextWriter::text(const char* text) noexcept { return this->text(Characters{text, std::strlen(text)}); }

TextWriter& TextWriter::number(std::int64_t value) noexcept {
    char digits[24];
    char* first = digits + sizeof(digits);
    auto rest = value < 0 ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value);
    do {
        *--first = static_cast<char>('0' + rest % 10);
        rest /= 10;
    } while (rest != 0);
    if (value < 0) {
        *--first = '-';
    }
    return text(Characters{first, static_cast<std::size_t>(digits + sizeof(digits) - first)});
}

}  // namespace msmemscope::atb

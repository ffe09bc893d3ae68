// What another process has in its memory: bytes, libraries, and the addresses of their functions. Nothing runs there
// for it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace msmemscope::remote_call {

struct AddressRange {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;

    bool contains(std::uint64_t address) const noexcept { return begin <= address && address < end; }
};

// The memory of a process. Opening it asks for the same permission as stopping a thread.
class RemoteMemory {
public:
    explicit RemoteMemory(pid_t process);
    ~RemoteMemory();
    RemoteMemory(const RemoteMemory&) = delete;
    RemoteMemory& operator=(const RemoteMemory&) = delete;

    // 0, or why it could not be opened.
    int error() const noexcept { return error_; }
    // False where not all of it is there.
    bool read(std::uint64_t address, void* bytes, std::size_t count) const noexcept;
    bool write(std::uint64_t address, const void* bytes, std::size_t count) const noexcept;
    // The text there, cut after so many letters.
    std::string text(std::uint64_t address, std::size_t most) const;

    template <typename Value>
    bool read_value(std::uint64_t address, Value& value) const noexcept {
        return read(address, &value, sizeof value);
    }

private:
    int file_;
    int error_;
};

// A library or the program itself, as it was loaded.
struct RemoteImage {
    std::string path;
    AddressRange range;

    // Behind the last slash.
    std::string_view name() const noexcept;
};

// All that a file of /proc says; nothing where it cannot be read.
std::string file_text(const std::string& path);

// All of a process, in the order of their addresses.
std::vector<RemoteImage> remote_images(pid_t process);

// Where a function or variable is that the image exports, with its size; begin is 0 where it exports none of this name.
// The hash tables are those of the System V ABI (generic part, "Hash Table") and of glibc's loader (DT_GNU_HASH).
AddressRange remote_symbol(const RemoteMemory& memory, const RemoteImage& image, const char* name);

}  // namespace msmemscope::remote_call

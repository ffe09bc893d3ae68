// Small files of the kernel, read in one piece.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>

namespace msmemscope {

// Figures are asked for on the stack of any thread, which may be small: callers choose small sizes. The rest of a
// longer file is left out. False if there is no such file, or it is empty.
template <std::size_t kBytes>
bool read_kernel_text(const char* path, char (&text)[kBytes]) noexcept {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    const ssize_t bytes = read(file, text, sizeof(text) - 1);
    close(file);
    text[bytes > 0 ? bytes : 0] = '\0';
    return bytes > 0;
}

}  // namespace msmemscope

// The list of the mappings of this process, as the kernel writes it. To read it takes about 2 ms of a process with
// torch.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>

namespace msmemscope {

// A line of /proc/self/maps: "7f00-7f10 rw-p 00000000 00:00 0   [name]".
struct Mapping {
    unsigned long long first;
    unsigned long long last;
    char rights[5];
    unsigned long long inode;
    const char* line;
};

// Calls visit(mapping) for each, until it returns true. The end of a long line is left out. On the stack of any thread,
// which may be small.
template <typename Visit>
void visit_mappings(Visit visit) noexcept {
    const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return;
    }
    char text[1024];
    std::size_t kept = 0;  // of a line whose end is still to come
    bool is_rest = false;  // it was visited, and its end is passed over
    bool is_found = false;
    const auto visit_line = [&](char* line) {
        Mapping mapping{0, 0, "", 1, line};
        is_found = std::sscanf(line, "%llx-%llx %4s %*s %*s %llu", &mapping.first, &mapping.last, mapping.rights,
                               &mapping.inode) == 4 &&
                   visit(mapping);
    };
    for (ssize_t bytes = 0; !is_found && (bytes = read(file, text + kept, sizeof(text) - 1 - kept)) > 0;) {
        text[kept + static_cast<std::size_t>(bytes)] = '\0';
        char* line = text;
        for (char* end = nullptr; !is_found && (end = std::strchr(line, '\n')) != nullptr; line = end + 1) {
            *end = '\0';
            if (!is_rest) {
                visit_line(line);
            }
            is_rest = false;
        }
        kept = std::strlen(line);
        std::memmove(text, line, kept);
        if (kept == sizeof(text) - 1 && !is_found) {
            text[kept] = '\0';
            if (!is_rest) {
                visit_line(text);
            }
            is_rest = true;
            kept = 0;
        }
    }
    close(file);
}

}  // namespace msmemscope

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

// Calls visit(mapping) for each, until it returns true.
template <typename Visit>
void visit_mappings(Visit visit) noexcept {
    const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return;
    }
    // Lines are read as parts come.
    char text[4096];
    std::size_t kept = 0;
    bool is_found = false;
    for (ssize_t bytes = 0; !is_found && (bytes = read(file, text + kept, sizeof(text) - 1 - kept)) > 0;) {
        text[kept + static_cast<std::size_t>(bytes)] = '\0';
        char* line = text;
        for (char* end = nullptr; !is_found && (end = std::strchr(line, '\n')) != nullptr; line = end + 1) {
            *end = '\0';
            Mapping mapping{0, 0, "", 1, line};
            is_found = std::sscanf(line, "%llx-%llx %4s %*s %*s %llu", &mapping.first, &mapping.last, mapping.rights,
                                   &mapping.inode) == 4 &&
                       visit(mapping);
        }
        kept = std::strlen(line);
        std::memmove(text, line, kept);
        if (kept == sizeof(text) - 1) {
            break;  // no line is as long
        }
    }
    close(file);
}

}  // namespace msmemscope

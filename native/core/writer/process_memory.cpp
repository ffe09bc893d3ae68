#include "core/writer/process_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace msmemscope {

ProcessMemory process_memory() noexcept {
    const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return {0, 0};
    }
    char text[128];
    const ssize_t bytes = read(file, text, sizeof(text) - 1);
    close(file);
    text[bytes > 0 ? bytes : 0] = '\0';
    // Pages: all that is mapped, what is resident, and what of that has a file or is shared.
    unsigned long long resident = 0;
    unsigned long long shared = 0;
    if (std::sscanf(text, "%*u %llu %llu", &resident, &shared) != 2 || shared > resident) {
        return {0, 0};
    }
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    return {resident * page, (resident - shared) * page};
}

}  // namespace msmemscope

#include "core/writer/ledger.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "core/writer/keep_errno.h"
#include "core/writer/recorder.h"

namespace msmemscope {
namespace {

// Others may be able to write to the output folder. Then they could have put a link to another file of the user in the
// ledger's place. Our lines must not go into that file.
bool is_ledger(int file) noexcept {
    struct stat status{};
    return fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1 && status.st_uid == geteuid();
}

iovec part_of(const char* text) noexcept { return {const_cast<char*>(text), std::strlen(text)}; }

}  // namespace

void append_to_ledger(const char* kind, const char* text) noexcept {
    const KeepErrno keep_errno;
    const char* const place = recorder::settings().launch_directory;
    const int folder = place[0] == '\0' ? -1 : open(place, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) {
        return;
    }
    const int file = openat(folder, "processes", O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    close(folder);
    if (file < 0) {
        return;
    }
    if (is_ledger(file)) {
        char process[16];
        std::snprintf(process, sizeof(process), "\t%d\t", static_cast<int>(getpid()));
        const iovec parts[] = {part_of(kind), part_of(process), part_of(text), part_of("\n")};
        // One write: lines of several processes do not mix.
        const ssize_t written = writev(file, parts, 4);
        static_cast<void>(written);
    }
    close(file);
}

}  // namespace msmemscope

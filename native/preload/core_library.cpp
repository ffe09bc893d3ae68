// libmsmemscope_core.so: what happens when it is mapped into a process and when that
// process ends. It is preloaded by the launcher, or comes with the Python extension;
// either way there is one copy per process, found by its soname.
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "interpose/patcher.h"
#include "writer/recorder.h"
#include "writer/stderr_line.h"

namespace {

// Tells the launcher that this image can be observed, before it allocates anything.
void note_start() noexcept {
    const msmemscope::Settings& settings = msmemscope::recorder::settings();
    if (settings.launch_directory[0] == '\0') {
        return;
    }
    static char line[4400];
    static char executable[4096];
    std::snprintf(line, sizeof(line), "%s/processes", settings.launch_directory);
    const int fd = open(line, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return;  // the launch is over: a daemon's child, for example
    }
    const ssize_t length = readlink("/proc/self/exe", executable, sizeof(executable) - 1);
    executable[length > 0 ? length : 0] = '\0';
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    const int bytes =
        std::snprintf(line, sizeof(line), "start\t%d\t%d\t%lld%09ld\t%s\n", static_cast<int>(getpid()),
                      static_cast<int>(getppid()), static_cast<long long>(now.tv_sec), now.tv_nsec, executable);
    // One write: lines of several processes do not mix. A failure costs a line of the coverage statement.
    const bool written = write(fd, line, static_cast<std::size_t>(bytes)) == bytes;
    static_cast<void>(written);
    close(fd);
}

// The library is marked "initialise first", so this runs before the constructors of every other
// library, and before the C library has set up environ: the arguments are the only way to it.
__attribute__((constructor)) void load(int, char**, char** environment) {
    msmemscope::remember_stderr();
    const std::size_t name_bytes = std::strlen(msmemscope::kSettingsVariable);
    for (; environment != nullptr && *environment != nullptr; ++environment) {
        if (std::strncmp(*environment, msmemscope::kSettingsVariable, name_bytes) == 0 &&
            (*environment)[name_bytes] == '=') {
            if (msmemscope::recorder::configure(*environment + name_bytes + 1)) {
                note_start();
                msmemscope::install_hooks();
            }
            return;
        }
    }
}

__attribute__((destructor)) void unload() { msmemscope::recorder::close(); }

}  // namespace

#include "core/writer/stderr_line.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <initializer_list>

#include "core/writer/keep_errno.h"

namespace msmemscope {
namespace {

struct File {
    bool is_open;
    dev_t device;
    ino_t inode;
    mode_t kind;
};

File first_file{};

File stderr_file() noexcept {
    struct stat status{};
    if (fstat(STDERR_FILENO, &status) != 0) {
        return {};
    }
    return {true, status.st_dev, status.st_ino, status.st_mode & S_IFMT};
}

// The signals that a write can bring about: nobody reads, the file is as long as it may be, the process is in the
// background. Those that come meanwhile are taken back before they are delivered.
class SignalsHeldBack {
public:
    SignalsHeldBack() noexcept {
        sigemptyset(&ours_);
        for (const int signal : {SIGPIPE, SIGXFSZ, SIGTTOU}) {
            sigaddset(&ours_, signal);
        }
        sigset_t pending;
        sigpending(&pending);
        pthread_sigmask(SIG_BLOCK, &ours_, &previous_);
        for (const int signal : {SIGPIPE, SIGXFSZ, SIGTTOU}) {
            if (sigismember(&pending, signal) == 1) {
                sigdelset(&ours_, signal);  // the program's own, which it has blocked
            }
        }
    }
    ~SignalsHeldBack() {
        const timespec no_time{};
        while (sigtimedwait(&ours_, nullptr, &no_time) > 0) {
        }
        pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
    }
    SignalsHeldBack(const SignalsHeldBack&) = delete;
    SignalsHeldBack& operator=(const SignalsHeldBack&) = delete;

private:
    sigset_t ours_;
    sigset_t previous_;
};

// Whether the line was written is not asked: there is nowhere left to report it.
void write_to(int descriptor, const char* line, std::size_t bytes) noexcept {
    const ssize_t written = write(descriptor, line, bytes);
    static_cast<void>(written);
}

bool has_room() noexcept {
    pollfd asked{STDERR_FILENO, POLLOUT, 0};
    return poll(&asked, 1, 0) == 1 && (asked.revents & POLLOUT) != 0;
}

}  // namespace

void remember_stderr() noexcept { first_file = stderr_file(); }

bool is_stderr_the_same() noexcept {
    const File now = stderr_file();
    return now.is_open && first_file.is_open && now.device == first_file.device && now.inode == first_file.inode &&
           now.kind == first_file.kind;
}

void write_stderr_line(const char* line, std::size_t bytes) noexcept {
    const KeepErrno keep_errno;
    if (!is_stderr_the_same()) {
        return;
    }
    const SignalsHeldBack held_back;
    switch (first_file.kind) {
        case S_IFREG:
            write_to(STDERR_FILENO, line, bytes);  // with the program's position in the file
            break;
        case S_IFSOCK: {
            const ssize_t sent = send(STDERR_FILENO, line, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
            static_cast<void>(sent);
            break;
        }
        default: {
            // Whether writing may block is a flag of the open file, which the program shares: so it is opened anew.
            const int own = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
            if (own >= 0) {
                write_to(own, line, bytes);
                close(own);
            } else if (first_file.kind == S_IFCHR && has_room()) {
                write_to(STDERR_FILENO, line, bytes);  // another user's terminal
            }
        }
    }
}

}  // namespace msmemscope

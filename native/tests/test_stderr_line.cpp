// A line on stderr: written where it can be, and otherwise without any consequence for the program.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>

#include "core/writer/stderr_line.h"
#include "tests/check.h"

using namespace msmemscope;

namespace {

const std::string kLine = "msmemscope: a line\n";

void write_line() { write_stderr_line(kLine.data(), kLine.size()); }

void make_stderr(int descriptor) { CHECK(dup2(descriptor, STDERR_FILENO) == STDERR_FILENO); }

std::string content_of(const std::string& path) {
    std::ifstream stream(path);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// Fills a pipe or socket to the last byte, and leaves it blocking as it was.
void fill(int descriptor) {
    const int flags = fcntl(descriptor, F_GETFL);
    CHECK(fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0);
    const std::string page(4096, 'x');
    for (std::size_t bytes = page.size(); bytes > 0;) {
        if (write(descriptor, page.data(), bytes) < 0) {
            CHECK(errno == EAGAIN);
            bytes /= 2;
        }
    }
    CHECK(fcntl(descriptor, F_SETFL, flags) == 0);
}

// The bytes that a pipe has now.
std::string received(int descriptor) {
    char text[128];
    CHECK(fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0);
    const ssize_t bytes = read(descriptor, text, sizeof(text));
    return {text, bytes > 0 ? static_cast<std::size_t>(bytes) : 0};
}

struct Pipe {
    int out = -1;
    int in = -1;
    Pipe() {
        int ends[2];
        CHECK(pipe(ends) == 0);
        out = ends[0];
        in = ends[1];
    }
};

void into_a_pipe() {
    const Pipe pipe;
    make_stderr(pipe.in);
    remember_stderr();
    errno = 77;
    write_line();
    CHECK_EQUAL(errno, 77);
    CHECK(received(pipe.out) == kLine);
    CHECK((fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK) == 0);
}

void into_a_full_pipe() {
    const Pipe pipe;
    make_stderr(pipe.in);
    remember_stderr();
    fill(STDERR_FILENO);
    write_line();  // comes back
}

void into_a_pipe_that_nobody_reads() {
    const Pipe pipe;
    make_stderr(pipe.in);
    remember_stderr();
    close(pipe.out);
    write_line();  // SIGPIPE would end us
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, SIGPIPE);
    CHECK(sigprocmask(SIG_BLOCK, &own, nullptr) == 0);
    CHECK(raise(SIGPIPE) == 0);
    write_line();
    CHECK(sigpending(&own) == 0 && sigismember(&own, SIGPIPE) == 1);  // the program's own signal is still there
}

void into_a_socket() {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    make_stderr(ends[1]);
    close(ends[1]);
    remember_stderr();
    write_line();
    CHECK(received(ends[0]) == kLine);
    fill(STDERR_FILENO);
    write_line();
    close(ends[0]);
    write_line();
}

void into_a_file(const std::string& folder) {
    const std::string path = folder + "/stderr";
    make_stderr(open(path.c_str(), O_CREAT | O_WRONLY, 0600));
    remember_stderr();
    CHECK(write(STDERR_FILENO, "before\n", 7) == 7);
    write_line();
    CHECK(write(STDERR_FILENO, "after\n", 6) == 6);
    CHECK(content_of(path) == "before\n" + kLine + "after\n");
    const rlimit limit{8, 8};
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    write_line();  // SIGXFSZ would end us
}

void not_into_a_file_of_the_program(const std::string& folder) {
    make_stderr(open("/dev/null", O_WRONLY));
    remember_stderr();
    CHECK(is_stderr_the_same());
    close(STDERR_FILENO);
    CHECK(!is_stderr_the_same());
    write_line();
    const std::string path = folder + "/data";
    CHECK(open(path.c_str(), O_CREAT | O_WRONLY, 0600) == STDERR_FILENO);
    CHECK(!is_stderr_the_same());
    write_line();
    CHECK(content_of(path).empty());
}

void closed_from_the_start(const std::string& folder) {
    close(STDERR_FILENO);
    remember_stderr();
    const std::string path = folder + "/first";
    CHECK(open(path.c_str(), O_CREAT | O_WRONLY, 0600) == STDERR_FILENO);
    write_line();
    CHECK(content_of(path).empty());
}

// In a process of its own, which must end well and soon.
template <typename Case>
void alone(const char* name, Case run) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(20);
        run();
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    if (status != 0) {
        std::fprintf(stderr, "%s: status %x\n", name, static_cast<unsigned>(status));
        std::exit(1);
    }
}

}  // namespace

int main() {
    const ScratchFolder folder;
    const std::string path = folder.path().string();
    alone("pipe", into_a_pipe);
    alone("full pipe", into_a_full_pipe);
    alone("pipe without a reader", into_a_pipe_that_nobody_reads);
    alone("socket", into_a_socket);
    alone("file", [&] { into_a_file(path); });
    alone("file of the program", [&] { not_into_a_file_of_the_program(path); });
    alone("closed", [&] { closed_from_the_start(path); });
    return 0;
}

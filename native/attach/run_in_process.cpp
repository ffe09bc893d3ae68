// Loaded by `msmemscope attach` into a Python process that nobody prepared: runs two pieces of Python there, with a
// pause between. `msmemscope control` has it run one piece in a process that records.
//
// `msmemscope attach` makes a folder with begin.py and end.py, holds a lock on `alive`, and makes `stop` when the time
// is up. A thread of ours runs begin.py, waits, and runs end.py. While it waits it does not need the interpreter. If
// whoever attached is gone, the lock is free, and the end comes as well.
//
// Nothing but the C library and the interpreter is used. The thread that was stopped reads two small files and creates
// the thread.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr std::size_t kMostPath = 512;
constexpr std::size_t kMostCode = 16UL << 10U;
constexpr long kPauseNs = 50'000'000;
constexpr std::size_t kStackBytes = 8UL << 20U;  // the Python code runs on it

// Statuses of msmemscope_attach.
enum Status : int { kRuns = 0, kNoPython = 1, kPathTooLong = 2, kBusy = 3, kNoThread = 4, kNoCode = 5 };

struct Interpreter {
    int (*is_initialized)();
    int (*is_finalizing)();
    int (*ensure)();
    void (*release)(int);
    int (*run)(const char*);
};

Interpreter interpreter{};
char folder[kMostPath];
// Read at once: whoever attached may be gone by the end, with the folder.
char code_at_begin[kMostCode];
char code_at_end[kMostCode];
// The process that the thread runs in: a forked one has the memory, and no thread. 0: there is none.
std::atomic<pid_t> busy_process{0};

template <typename Function>
bool find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
    return function != nullptr;
}

bool find_interpreter() {
    Interpreter& python = interpreter;
    if (!find(python.is_finalizing, "Py_IsFinalizing")) {  // its name since Python 3.13
        find(python.is_finalizing, "_Py_IsFinalizing");
    }
    return find(python.is_initialized, "Py_IsInitialized") && find(python.ensure, "PyGILState_Ensure") &&
           find(python.release, "PyGILState_Release") && find(python.run, "PyRun_SimpleString") &&
           python.is_finalizing != nullptr;
}

void path_of(char (&path)[kMostPath + 16], const char* in, const char* name) {
    snprintf(path, sizeof path, "%s/%s", in, name);
}

// False: it is not there, or too long.
bool read_code(char (&code)[kMostCode], const char* in, const char* name) {
    char path[kMostPath + 16];
    path_of(path, in, name);
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        return false;
    }
    std::size_t length = 0;
    ssize_t more = 0;
    while (length < kMostCode - 1 && (more = read(file, code + length, kMostCode - 1 - length)) > 0) {
        length += static_cast<std::size_t>(more);
    }
    close(file);
    code[length] = '\0';
    return length > 0 && length < kMostCode - 1;
}

// The code brings a namespace of its own: names of the program stay what they are.
void run_python(const char* code) {
    if (interpreter.is_initialized() == 0 || interpreter.is_finalizing() != 0) {
        return;
    }
    const int state = interpreter.ensure();
    interpreter.run(code);
    interpreter.release(state);
}

bool is_wanted() {
    char path[kMostPath + 16];
    path_of(path, folder, "stop");
    if (access(path, F_OK) == 0) {
        return false;
    }
    path_of(path, folder, "alive");
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        return false;
    }
    const bool is_locked = flock(file, LOCK_SH | LOCK_NB) != 0;
    close(file);
    return is_locked;
}

void* run(void*) {
    run_python(code_at_begin);
    const timespec pause{0, kPauseNs};
    while (is_wanted()) {
        nanosleep(&pause, nullptr);
    }
    run_python(code_at_end);
    busy_process.store(0);
    return nullptr;
}

// The thread that obeys frees it.
struct Order {
    char code[kMostCode];
};

void* obey(void* order) {
    run_python(static_cast<Order*>(order)->code);
    free(order);
    return nullptr;
}

bool start_thread(void* (*function)(void*), void* argument) {
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) {
        return false;
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    // Signals of the program are for its own threads, but for those that a thread causes by itself.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    constexpr int kCausedByItself[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    for (const int own : kCausedByItself) {
        sigdelset(&all, own);
    }
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread{};
    const bool is_started = pthread_create(&thread, &attributes, function, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    return is_started;
}

}  // namespace

// Called in the thread that was stopped. path: of the folder.
extern "C" __attribute__((visibility("default"))) int msmemscope_attach(const char* path) {
    const std::size_t length = strlen(path);
    if (length >= kMostPath) {
        return kPathTooLong;
    }
    if (!find_interpreter() || interpreter.is_initialized() == 0) {
        return kNoPython;
    }
    if (busy_process.exchange(getpid()) == getpid()) {
        return kBusy;
    }
    memcpy(folder, path, length + 1);
    if (!read_code(code_at_begin, folder, "begin.py") || !read_code(code_at_end, folder, "end.py")) {
        busy_process.store(0);
        return kNoCode;
    }
    if (!start_thread(run, nullptr)) {
        busy_process.store(0);
        return kNoThread;
    }
    return kRuns;
}

// The same, for one piece of Python: begin.py in that folder. Nothing is waited for.
extern "C" __attribute__((visibility("default"))) int msmemscope_run(const char* path) {
    if (strlen(path) >= kMostPath) {
        return kPathTooLong;
    }
    if (!find_interpreter() || interpreter.is_initialized() == 0) {
        return kNoPython;
    }
    auto* const order = static_cast<Order*>(malloc(sizeof(Order)));
    if (order == nullptr || !read_code(order->code, path, "begin.py")) {
        free(order);
        return kNoCode;
    }
    if (!start_thread(obey, order)) {
        free(order);
        return kNoThread;
    }
    return kRuns;
}

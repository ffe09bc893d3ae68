#include "offline/remote_call/load_and_call.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <optional>
#include <thread>
#include <tuple>
#include <vector>

#include "offline/remote_call/registers.h"
#include "offline/remote_call/remote_image.h"
#include "offline/remote_call/stopped_thread.h"

namespace msmemscope::remote_call {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kStackBytes = 1UL << 20U;
constexpr std::uint64_t kMostLoaderBytes = 1UL << 20U;
constexpr std::chrono::milliseconds kPause{2};
constexpr std::chrono::milliseconds kStaysInPlace{20};      // an allocator's lock is waited for much shorter
constexpr std::chrono::milliseconds kRefusalPatience{740};  // a profiler that samples traces for moments only
constexpr std::chrono::seconds kCallPatience{20};           // a library may lie on a slow disk

// How a system call that waits takes being stopped.
enum class Waiting : std::uint8_t {
    kBeginsAgain,
    kForThread,  // begins again; it may be a wait for a lock
    kFails,      // with EINTR
};

const std::map<long, Waiting>& waiting_calls() {
    static const std::map<long, Waiting> calls{
        {SYS_read, Waiting::kBeginsAgain},
        {SYS_recvfrom, Waiting::kBeginsAgain},
        {SYS_recvmsg, Waiting::kBeginsAgain},
        {SYS_accept, Waiting::kBeginsAgain},
        {SYS_accept4, Waiting::kBeginsAgain},
        {SYS_nanosleep, Waiting::kBeginsAgain},
        {SYS_clock_nanosleep, Waiting::kBeginsAgain},
        {SYS_pselect6, Waiting::kBeginsAgain},
        {SYS_ppoll, Waiting::kBeginsAgain},
        {SYS_wait4, Waiting::kBeginsAgain},
        {SYS_waitid, Waiting::kBeginsAgain},
#if defined(SYS_poll)
        {SYS_poll, Waiting::kBeginsAgain},
        {SYS_select, Waiting::kBeginsAgain},
        {SYS_epoll_wait, Waiting::kFails},
#endif
        {SYS_epoll_pwait, Waiting::kFails},
#if defined(SYS_epoll_pwait2)
        {SYS_epoll_pwait2, Waiting::kFails},
#endif
        {SYS_rt_sigtimedwait, Waiting::kFails},
        {SYS_futex, Waiting::kForThread},
        // Any of these that was stopped once, and has a length of time left.
        {SYS_restart_syscall, Waiting::kForThread},
    };
    return calls;
}

struct Candidate {
    pid_t thread;
    bool waits;
    Waiting waiting;
};

struct Place {
    std::uint64_t instruction = 0;
    std::uint64_t stack = 0;
    Clock::time_point since;
};

// Signals that would end us wait while a thread of the other process has registers of ours.
class HeldSignals {
public:
    HeldSignals() {
        arrived_ = 0;
        struct sigaction action{};
        action.sa_handler = [](int signal) { arrived_ = signal; };
        for (std::size_t index = 0; index < std::size(kEnding); ++index) {
            sigaction(kEnding[index], &action, &before_[index]);
        }
    }
    ~HeldSignals() {
        for (std::size_t index = 0; index < std::size(kEnding); ++index) {
            sigaction(kEnding[index], &before_[index], nullptr);
        }
        if (arrived_ != 0) {
            raise(arrived_);
        }
    }
    HeldSignals(const HeldSignals&) = delete;
    HeldSignals& operator=(const HeldSignals&) = delete;

    static bool has_arrived() noexcept { return arrived_ != 0; }

private:
    static constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    static inline volatile std::sig_atomic_t arrived_ = 0;
    struct sigaction before_[4];
};

bool begins_with(std::string_view text, std::string_view begin) { return text.substr(0, begin.size()) == begin; }

// The threads of a process, those first that are best to stop.
std::vector<Candidate> candidates_of(pid_t process) {
    const std::string folder = "/proc/" + std::to_string(process) + "/task";
    std::vector<Candidate> found;
    DIR* const directory = opendir(folder.c_str());
    if (directory == nullptr) {
        return found;
    }
    while (const dirent* entry = readdir(directory)) {
        const int thread = std::atoi(entry->d_name);
        if (thread <= 0) {
            continue;
        }
        const std::string word = file_text(folder + "/" + entry->d_name + "/syscall");
        if (begins_with(word, "running")) {
            found.push_back({thread, false, Waiting::kBeginsAgain});
        } else if (!word.empty()) {
            const auto call = waiting_calls().find(std::atol(word.c_str()));
            if (call != waiting_calls().end()) {
                found.push_back({thread, true, call->second});
            }
        }
    }
    closedir(directory);
    std::sort(found.begin(), found.end(), [](const Candidate& left, const Candidate& right) {
        return std::make_tuple(!left.waits, left.waiting, left.thread) <
               std::make_tuple(!right.waits, right.waiting, right.thread);
    });
    return found;
}

// Where the functions are that the process calls for us.
struct Functions {
    std::uint64_t open = 0;
    std::uint64_t find = 0;
    std::uint64_t map = 0;
    std::uint64_t unmap = 0;
    std::uint64_t error_number = 0;
    AddressRange calm;
    AddressRange loader_state;

    bool is_complete() const noexcept { return open != 0 && find != 0 && map != 0 && unmap != 0 && error_number != 0; }
};

Functions functions_of(const RemoteMemory& memory, const std::vector<RemoteImage>& images, const Request& request) {
    Functions functions;
    const auto set = [&memory](std::uint64_t& address, const RemoteImage& image, const char* name) {
        if (address == 0) {
            address = remote_symbol(memory, image, name).begin;
        }
    };
    for (const RemoteImage& image : images) {
        const std::string_view name = image.name();
        if (begins_with(name, "libc.so") || begins_with(name, "libc-2") || begins_with(name, "libdl") ||
            begins_with(name, "ld-musl")) {
            set(functions.open, image, "dlopen");
            set(functions.find, image, "dlsym");
            set(functions.map, image, "mmap");
            set(functions.unmap, image, "munmap");
            set(functions.error_number, image, "__errno_location");
        }
        if (functions.loader_state.begin == 0 && begins_with(name, "ld")) {
            functions.loader_state = remote_symbol(memory, image, "_rtld_global");
        }
        if (functions.calm.begin == 0 && name.find(request.calm_library) != std::string_view::npos) {
            functions.calm = remote_symbol(memory, image, request.calm_function.c_str());
        }
    }
    return functions;
}

// The calls in one stopped thread.
class Visit {
public:
    Visit(const RemoteMemory& memory, const Functions& functions, StoppedThread& thread)
        : memory_(memory), functions_(functions), thread_(thread) {}

    Answer make(const Request& request) {
        const std::uint64_t below = thread_.stack() - 2 * kRedZoneBytes;
        std::uint64_t error_place = 0;
        std::uint64_t stack = 0;
        if (!thread_.hold_signals() || !call(error_place, functions_.error_number, below, {})) {
            return broken();
        }
        int error_number = 0;
        const bool knows_error = memory_.read_value(error_place, error_number);
        const Answer answer =
            call(stack, functions_.map, below, {0, kStackBytes, PROT_READ | PROT_WRITE, kAnonymous, ~0ULL, 0})
                ? make_on(stack, request)
                : broken();
        std::uint64_t ignored = 0;
        if (answer.outcome != Outcome::kBroken && stack != kMapFailed) {
            call(ignored, functions_.unmap, below, {stack, kStackBytes});
        }
        if (knows_error) {
            memory_.write(error_place, &error_number, sizeof error_number);
        }
        return answer;
    }

private:
    static constexpr std::uint64_t kMapFailed = ~0ULL;
    static constexpr std::uint64_t kAnonymous = MAP_PRIVATE | MAP_ANONYMOUS;

    bool call(std::uint64_t& result, std::uint64_t function, std::uint64_t stack,
              std::initializer_list<std::uint64_t> arguments) {
        const std::optional<std::uint64_t> returned = thread_.call(function, stack, arguments, kCallPatience);
        result = returned.value_or(0);
        return returned.has_value();
    }

    Answer broken() const { return {Outcome::kBroken, thread_.failure()}; }

    // The texts lie at the low end of the stack.
    Answer make_on(std::uint64_t stack, const Request& request) {
        if (stack == kMapFailed) {
            return {Outcome::kNotLoaded};
        }
        const std::string texts = request.library + '\0' + request.function + '\0' + request.argument + '\0';
        if (!memory_.write(stack, texts.data(), texts.size())) {
            return broken();
        }
        const std::uint64_t top = stack + kStackBytes - kRedZoneBytes;
        const std::uint64_t function_text = stack + request.library.size() + 1;
        const std::uint64_t argument_text = function_text + request.function.size() + 1;
        std::uint64_t handle = 0;
        std::uint64_t function = 0;
        std::uint64_t status = 0;
        if (!call(handle, functions_.open, top, {stack, RTLD_NOW})) {
            return broken();
        }
        if (handle == 0) {
            return {Outcome::kNotLoaded};
        }
        if (!call(function, functions_.find, top, {handle, function_text})) {
            return broken();
        }
        if (function == 0) {
            return {Outcome::kNoFunction};
        }
        if (!call(status, function, top, {argument_text})) {
            return broken();
        }
        return {Outcome::kCalled, static_cast<int>(status)};
    }

    const RemoteMemory& memory_;
    const Functions& functions_;
    StoppedThread& thread_;
};

class Search {
public:
    explicit Search(const Request& request) : request_(request), memory_(request.process) {}

    Answer run() {
        if (memory_.error() != 0) {
            return {memory_.error() == ENOENT ? Outcome::kEnded : Outcome::kRefused};
        }
        const std::vector<RemoteImage> images = remote_images(request_.process);
        if (images.empty()) {
            return {Outcome::kEnded};
        }
        functions_ = functions_of(memory_, images, request_);
        if (!functions_.is_complete()) {
            return {Outcome::kNoLoader};
        }
        const Clock::time_point until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                           std::chrono::duration<double>(request_.patience_s));
        while (Clock::now() < until) {
            const std::vector<Candidate> candidates = candidates_of(request_.process);
            if (candidates.empty() && kill(request_.process, 0) != 0) {
                return {Outcome::kEnded};
            }
            for (const Candidate& candidate : candidates) {
                std::optional<Answer> answer;
                {
                    const HeldSignals held;
                    // A thread of its own: whatever it leaves traced is let go when it ends.
                    std::thread([&] { answer = visit(candidate); }).join();
                }
                if (answer.has_value()) {
                    return *answer;
                }
                if (HeldSignals::has_arrived()) {
                    return {Outcome::kInterrupted};
                }
            }
            std::this_thread::sleep_for(kPause);
        }
        return {Outcome::kNoMoment};
    }

private:
    // Nothing: this thread is not safe to stop now.
    std::optional<Answer> visit(const Candidate& candidate) {
        const Clock::time_point began = Clock::now();
        std::optional<Answer> answer;
        {
            StoppedThread thread(memory_, candidate.thread);
            const StopResult result = thread.stop();
            if (result == StopResult::kRefused) {
                return refused();
            }
            if (result != StopResult::kStopped || !is_safe(candidate, thread)) {
                return std::nullopt;
            }
            answer = Visit(memory_, functions_, thread).make(request_);
        }
        answer->stopped_s = std::chrono::duration<double>(Clock::now() - began).count();
        return answer;
    }

    std::optional<Answer> refused() {
        const Clock::time_point now = Clock::now();
        if (!refused_since_.has_value()) {
            refused_since_ = now;
        }
        if (now - *refused_since_ < kRefusalPatience) {
            std::this_thread::sleep_for(kPause);
            return std::nullopt;
        }
        return Answer{Outcome::kRefused};
    }

    bool is_safe(const Candidate& candidate, const StoppedThread& thread) {
        if (!candidate.waits) {
            return functions_.calm.contains(thread.instruction());
        }
        const bool may_be_moment = candidate.waiting == Waiting::kForThread;
        return thread.is_waiting() && !holds_lock_of_loader(candidate.thread) &&
               (!may_be_moment || stays_in_place(candidate.thread, thread));
    }

    // glibc's loader keeps its locks in one variable: recursive mutexes, which know the thread that holds them.
    bool holds_lock_of_loader(pid_t number) const {
        const AddressRange& state = functions_.loader_state;
        // Its size is what the process says of it.
        const std::uint64_t bytes = std::min(state.end - state.begin, kMostLoaderBytes);
        std::vector<std::int32_t> words(bytes / sizeof(std::int32_t));
        if (words.size() < std::size_t{kMutexWords} ||
            !memory_.read(state.begin, words.data(), words.size() * sizeof words[0])) {
            return false;
        }
        for (std::size_t index = 0; index + kMutexWords <= words.size(); ++index) {
            const std::int32_t* const mutex = &words[index];
            if (mutex[kOwner] == number && mutex[kLock] != 0 && mutex[kCount] > 0 && mutex[kKind] == kRecursive) {
                return true;
            }
        }
        return false;
    }

    bool stays_in_place(pid_t number, const StoppedThread& thread) {
        Place& place = places_[number];
        if (place.instruction != thread.instruction() || place.stack != thread.stack()) {
            place = {thread.instruction(), thread.stack(), Clock::now()};
        }
        return Clock::now() - place.since >= kStaysInPlace;
    }

    // The words of a pthread_mutex_t of glibc on 64-bit machines: lock, count, owner, users, kind.
    enum MutexWord : std::size_t { kLock = 0, kCount = 1, kOwner = 2, kKind = 4, kMutexWords = 5 };
    static constexpr std::int32_t kRecursive = PTHREAD_MUTEX_RECURSIVE_NP;

    const Request& request_;
    RemoteMemory memory_;
    Functions functions_;
    std::optional<Clock::time_point> refused_since_;
    std::map<pid_t, Place> places_;
};

}  // namespace

Answer load_and_call(const Request& request) { return Search(request).run(); }

}  // namespace msmemscope::remote_call

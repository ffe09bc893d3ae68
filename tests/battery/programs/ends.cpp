// Every way in which a process ends, with handlers and destructors that allocate; and exceptions and jumps on the way.
#include <cxxabi.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include "target.h"

namespace {

void pairs(long count) {
    for (long i = 0; i < count; i++) {
        fake_tensor_free(fake_tensor_allocate(size_of_block(i)));
    }
}

void at_exit() {
    pairs(3);
    print_text("at_exit=1\n");
}

struct AtEnd {
    ~AtEnd() {
        pairs(3);
        print_text("destructor=1\n");
    }
} at_end;

struct Block {
    void* memory = fake_tensor_allocate(256);
    ~Block() { fake_tensor_free(memory); }
};

void throw_from(int depth) {
    const Block block;
    if (depth == 0) {
        throw std::runtime_error("deep");
    }
    throw_from(depth - 1);
}

void exceptions() {
    int caught = 0;
    for (int i = 0; i < 300; i++) {
        try {
            throw_from(i % 30);
        } catch (const std::runtime_error&) {
            caught++;
        }
    }
    std::vector<std::thread> threads;
    std::atomic<int> passed{0};
    for (int i = 0; i < 8; i++) {
        threads.emplace_back([&passed] {
            std::exception_ptr kept;
            try {
                throw_from(10);
            } catch (...) {
                kept = std::current_exception();
            }
            try {
                std::rethrow_exception(kept);
            } catch (const std::exception&) {
                passed++;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    print_text("caught=%d passed=%d\n", caught, passed.load());
}

jmp_buf back;

void jumps() {
    volatile int jumped = 0;
    for (volatile int i = 0; i < 300; i = i + 1) {
        if (setjmp(back) == 0) {
            fake_tensor_free(fake_tensor_allocate(64));
            longjmp(back, 1);
        }
        jumped = jumped + 1;
    }
    print_text("jumped=%d\n", static_cast<int>(jumped));
}

[[noreturn]] void* forever(void*) {
    for (;;) {
        pairs(10);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view way = argc > 1 ? argv[1] : "return";
    std::atexit(at_exit);
    std::at_quick_exit([] { print_text("at_quick_exit=1\n"); });
    pairs(10);
    if (way == "exceptions") {
        exceptions();
    } else if (way == "jumps") {
        jumps();
    } else if (way == "_exit") {
        _exit(3);
    } else if (way == "quick_exit") {
        std::quick_exit(4);
    } else if (way == "abort") {
        std::abort();
    } else if (way == "terminate") {
        throw std::logic_error("nobody catches it");
    } else if (way == "exit in a thread") {
        std::thread([] { std::exit(5); }).join();
    } else if (way == "main thread first") {
        std::thread([] {
            usleep(50000);
            pairs(10);
            print_text("thread=1\n");
        }).detach();
        pthread_exit(nullptr);
    } else if (way == "threads still run") {
        for (int i = 0; i < 8; i++) {
            pthread_t thread;
            pthread_create(&thread, nullptr, forever, nullptr);
        }
        usleep(100000);
        return 6;
    } else if (way == "terminated") {
        raise(SIGTERM);
    } else if (way == "fault") {
        raise(SIGSEGV);
    } else if (way == "library closed at exit") {
        void* const library = dlopen(argv[2], RTLD_NOW);
        static auto* const allocate = reinterpret_cast<void* (*)(size_t)>(dlsym(library, "fake_tensor_allocate"));
        static void* const handle = library;
        fake_tensor_free(allocate(64));
        std::atexit([] { print_text("closed=%d\n", dlclose(handle)); });
    } else if (way == "another namespace") {
        void* const library = dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW);
        auto* const allocate = reinterpret_cast<void* (*)(size_t)>(dlsym(library, "fake_tensor_allocate"));
        auto* const release = reinterpret_cast<void (*)(void*)>(dlsym(library, "fake_tensor_free"));
        for (int i = 0; i < 100; i++) {
            release(allocate(64));
        }
        print_text("namespace=%d\n", dlclose(library));
    }
    return 0;
}

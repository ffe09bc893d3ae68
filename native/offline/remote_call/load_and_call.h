// Loads a library into a process that runs, and calls one of its functions there: what a debugger would be asked for.
//
// One thread of the process stands still for it, for milliseconds; the others go on. It must hold no lock of the C
// library's allocator or loader. One that waits in a system call holds none, unless the loader waits there itself,
// which is looked at. One that runs holds none while it is in a function that the caller names, such as Python's
// evaluation of a frame.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace msmemscope::remote_call {

struct Request {
    pid_t process = 0;
    std::string library;
    std::string function;  // int (*)(const char*)
    std::string argument;
    // A function in which a thread that runs may be stopped, and a part of the name of its library.
    std::string calm_function;
    std::string calm_library;
    double patience_s = 5;
};

enum class Outcome {
    kCalled,
    kRefused,  // it may not be traced, or somebody traces it
    kEnded,
    kNoMoment,  // no thread was safe to stop
    kNoLoader,  // there is no dlopen in it
    kNotLoaded,
    kNoFunction,   // the library does not export it
    kBroken,       // a call did not return
    kInterrupted,  // a signal to us came first, and was passed on
};

struct Answer {
    Outcome outcome = Outcome::kNoMoment;
    int status = 0;        // of the function, if it was called; of kBroken the signal, or 0 for too long
    double stopped_s = 0;  // for which the thread stood still
};

// Never throws but for lack of memory.
Answer load_and_call(const Request& request);

}  // namespace msmemscope::remote_call

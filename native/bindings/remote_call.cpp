#include "remote_call.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <string>
#include <tuple>
#include <utility>

#include "offline/remote_call/load_and_call.h"

namespace nb = nanobind;

namespace msmemscope {
namespace {

const char* word_of(remote_call::Outcome outcome) {
    switch (outcome) {
        case remote_call::Outcome::kCalled:
            return "called";
        case remote_call::Outcome::kRefused:
            return "refused";
        case remote_call::Outcome::kEnded:
            return "ended";
        case remote_call::Outcome::kNoMoment:
            return "no moment";
        case remote_call::Outcome::kNoLoader:
            return "no loader";
        case remote_call::Outcome::kNotLoaded:
            return "not loaded";
        case remote_call::Outcome::kNoFunction:
            return "no function";
        case remote_call::Outcome::kBroken:
            return "broken";
        case remote_call::Outcome::kInterrupted:
            return "interrupted";
    }
    return "";
}

std::tuple<std::string, int, double> load_and_call(int process, std::string library, std::string function,
                                                   std::string argument, double patience_s) {
    remote_call::Request request;
    request.process = process;
    request.library = std::move(library);
    request.function = std::move(function);
    request.argument = std::move(argument);
    // A thread that evaluates Python code holds no lock of the C library.
    request.calm_function = "_PyEval_EvalFrameDefault";
    request.calm_library = "python";
    request.patience_s = patience_s;
    const nb::gil_scoped_release release;
    const remote_call::Answer answer = remote_call::load_and_call(request);
    return {word_of(answer.outcome), answer.status, answer.stopped_s};
}

}  // namespace

void define_remote_call(nb::module_& module) {
    module.def(
        "load_and_call", &load_and_call, nb::arg("process"), nb::arg("library"), nb::arg("function"),
        nb::arg("argument"), nb::arg("patience_s"),
        "Have a process load a library and call one of its functions with a text.\n\n"
        "Returns what came of it ('called', 'refused', 'ended', 'no moment', 'no loader', 'not loaded',\n"
        "'no function', 'broken', 'interrupted'), the function's result or the signal that broke a call, and the\n"
        "seconds for which one thread stood still.");
}

}  // namespace msmemscope

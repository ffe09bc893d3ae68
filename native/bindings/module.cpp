// msmemscope._native: the extension. Control functions go through nanobind; the ones called for
// every operator and every function call are plain C functions, which cost less to call.
#include <Python.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "alignment.h"
#include "allocator_trace.h"
#include "backward_calls.h"
#include "block_stack.h"
#include "code_table.h"
#include "core/observe/blocks.h"
#include "core/observe/host_sampling.h"
#include "core/observe/out_of_memory.h"
#include "core/stacks/python_stack.h"
#include "core/writer/attributes.h"
#include "core/writer/control_group.h"
#include "core/writer/process_memory.h"
#include "core/writer/rank_choice.h"
#include "core/writer/recorder.h"
#include "core/writer/stderr_line.h"
#include "core/writer/steps.h"
#include "core/writer/texts.h"
#include "dump_rows.h"
#include "dump_writing.h"
#include "function_trace.h"
#include "garbage_collections.h"
#include "growing_containers.h"
#include "interpose/follow.h"
#include "interpose/patcher.h"
#include "line_tables.h"
#include "main_thread.h"
#include "operator_collector.h"
#include "packed_block.h"
#include "plain_pickle.h"
#include "python_frames.h"
#include "python_stack_walker.h"
#include "reference_search.h"
#include "remote_call.h"
#include "replay.h"
#include "sources/ascend/acl/visible_devices.h"
#include "sources/ascend/hal/device_usage.h"
#include "sources/ascend/mstx/mstx.h"
#include "sources/cuda/devices.h"
#include "watch.h"
#include "watch/memory_reader.h"
#include "watch/watch.h"

namespace nb = nanobind;
using namespace msmemscope;

namespace {

#if defined(__clang__)
#define MSMEMSCOPE_COMPILER "Clang " __clang_version__
#else
#define MSMEMSCOPE_COMPILER "GCC " __VERSION__
#endif
constexpr const char* kBuiltWith = "by " MSMEMSCOPE_COMPILER " for Python " PY_VERSION MSMEMSCOPE_FROM_COMMIT;

// Without it code ids could be wrong, so there are neither stacks nor traces then.
bool code_objects_are_watched = false;

void forget_everywhere(PyCodeObject* code) {
    forget_code(code);
    forget_traced_code(code);
}

bool is_left_out(const std::string& settings_text, std::vector<std::string> environment) {
    std::vector<char*> variables;
    variables.reserve(environment.size() + 1);
    for (std::string& variable : environment) {
        variables.push_back(variable.data());
    }
    variables.push_back(nullptr);
    return recorder::is_left_out(settings_text.c_str(), variables.data());
}

bool configure(const std::string& settings_text) {
    if (!recorder::configure(settings_text.c_str())) {
        return false;
    }
    watch::apply_settings();
    recorder::set_python_version(PY_VERSION_HEX);
    return true;
}

bool collect_python_stacks(bool enabled) {
    if (!code_objects_are_watched || python_frames_supported() == 0) {
        return false;
    }
    if (enabled) {
        recorder::set_python_version(PY_VERSION_HEX);
        recorder::forget_begin_of_program();  // the interpreter began before
    }
    set_python_stack_walker(enabled ? &walk_python_stack : nullptr, enabled ? &thread_imports : nullptr);
    return true;
}

void install_all_hooks() {
    install_hooks();
    mstx::make_findable();
}

void follow_live_blocks_of_process() {
    follow_live_blocks();
    mstx::make_findable();
}

std::uint32_t end_step(int device) { return steps::end_step(static_cast<format::Device>(device)); }

void mark(const std::string& message, std::uint64_t stream) { mstx::mark_from_python(message.c_str(), stream); }

std::uint64_t range_start(const std::string& message, std::uint64_t stream) {
    return mstx::range_start_from_python(message.c_str(), stream);
}

// key of an attribute -> a whole number, or a text.
std::uint32_t attribute_id(const RecordingScope& scope, const nb::dict& attributes) {
    Attributes found(scope);
    for (const auto& [key, value] : attributes) {
        const auto number = static_cast<format::AttributeKey>(nb::cast<int>(key));
        if (nb::isinstance<nb::str>(value)) {
            const auto text = nb::cast<std::string>(value);
            found.text(number, text.data(), text.size());
        } else {
            found.number(number, nb::cast<std::uint64_t>(value));
        }
    }
    return found.id();
}

std::uint64_t record_event(int kind, int device, std::int64_t size, const nb::dict& attributes, const std::string& name,
                           bool with_stacks, std::uint64_t extra, int pool) {
    const RecordingScope scope(true);
    if (!scope) {
        return 0;
    }
    Event event{static_cast<format::EventKind>(kind)};
    if (event.kind == format::EventKind::kOom) {
        out_of_memory::count_failure();
    }
    event.device = static_cast<format::Device>(device);
    event.size = size;
    event.extra = extra;
    event.pool = static_cast<format::Pool>(pool);
    event.attribute_id = attribute_id(scope, attributes);
    if (!name.empty()) {
        event.name_id = recorder::intern_string(scope, name.data(), name.size());
    }
    return with_stacks ? recorder::append_with_stacks(scope, event, MSMEMSCOPE_CALL_SITE())
                       : recorder::append(scope, event);
}

void set_thread_labels(const std::string& text) {
    recorder::set_thread_labels(texts::number_of(text.data(), text.size()));
}

bool label_block(std::uint64_t address, const std::string& text) {
    return recorder::label_block(address, texts::number_of(text.data(), text.size()));
}

bool imply_step(bool is_optimizer, int device) {
    return steps::imply_step(is_optimizer ? steps::ImpliedSource::kOptimizer : steps::ImpliedSource::kModule,
                             static_cast<format::Device>(device));
}

bool note_holder(std::uint64_t address, const std::string& chain, std::uint64_t viewed_bytes) {
    return recorder::note_holder(address, chain.data(), chain.size(), viewed_bytes);
}

// Blocks of pools that are alive and have a record, as (address, bytes, sequence of the MALLOC). Blocks of the driver
// are left out, because pools hand them out in parts.
std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>> recorded_live_blocks() {
    std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>> found;
    recorder::visit_live_blocks(
        [](void* into, const LiveBlock& block) {
            if (block.sequence != 0 && block.pool != format::Pool::kHal) {
                static_cast<decltype(found)*>(into)->emplace_back(block.address, block.size_bytes, block.sequence);
            }
        },
        &found);
    return found;
}

std::uint64_t live_bytes(int pool, int device) {
    return recorder::live_bytes(static_cast<format::Pool>(pool), static_cast<format::Device>(device));
}

bool follow_older_block(int pool, int device, std::uint64_t address, std::uint64_t size) {
    return recorder::follow_older_block(static_cast<format::Pool>(pool), static_cast<format::Device>(device), address,
                                        size);
}

// (total, free) in bytes, or None.
nb::object device_memory(unsigned device) {
    MemoryBytes memory{};
    if (!hal::ask_device_memory(device, memory)) {
        return nb::none();
    }
    return nb::make_tuple(memory.total, memory.free);
}

// Bytes: resident, and of the control group what is in use and its limit.
nb::tuple host_memory() {
    const GroupMemory group = group_memory();
    return nb::make_tuple(process_memory().resident, group.used, group.limit);
}

void hide_codes(const nb::tuple& codes) {
    for (const nb::handle code : codes) {
        if (!PyCode_Check(code.ptr()) || !hide_code(reinterpret_cast<PyCodeObject*>(code.ptr()))) {
            throw nb::value_error("not a code object, or too many of them");
        }
    }
}

void close_capture() {
    watch::finish();
    recorder::close();
}

void note_fact(const std::string& key, const std::string& value) { recorder::note_fact(key.c_str(), value.c_str()); }

}  // namespace

NB_MODULE(_native, module) {
    find_heap();
    code_objects_are_watched = watch_code_objects(&forget_everywhere) != 0;
    module.doc() = "The native core: see native/ and ARCHITECTURE.md.";
    module.attr("built_with") = kBuiltWith;
    module.def("configure", &configure, nb::arg("settings_text"),
               "Takes the settings (lines of key=value). False if they cannot be used.");
    module.def("is_left_out", &is_left_out, nb::arg("settings_text"), nb::arg("environment"),
               "Whether a process with these variables (name=value) runs unobserved: its rank was not chosen.");
    module.def("is_configured", &recorder::is_configured,
               "Whether the process has settings, from here or the launcher.");
    module.def("settings_text", [] { return std::string(recorder::settings().text); }, "The settings in force.");
    module.def("install_hooks", &install_all_hooks,
               "Redirects the observed libraries' calls; again for new libraries.");
    module.def("follow_live_blocks", &follow_live_blocks_of_process,
               "Follows which blocks are alive, and collects nothing, until settings come.");
    module.def("begin_tracing", &steps::begin_tracing,
               "Records events while a chosen step runs, and the blocks that are alive when it begins.");
    module.def(
        "begin_first_step", &steps::begin_first_step,
        "Step 1 begins here, although events were recorded before; nothing if a step has ended, or none is chosen.");
    module.def("begin_host_samples", &recorder::begin_host_samples,
               "Takes samples of host memory from now on, if the settings want them.");
    module.def("open_no_log_for_host_samples", &recorder::open_no_log_for_host_samples,
               "From now on samples of host memory are taken where there is a log already.");
    module.def("end_host_samples", &recorder::end_host_samples,
               "The program ends: what is freed from here on is freed because of that.");
    module.def("end_tracing", &steps::end_tracing, "Only follows which blocks are alive.");
    module.def("end_step", &end_step, nb::arg("device"),
               "Ends a step and begins the next; returns the number of the one that ended, 0 if marks make the steps.");
    module.def("mark", &mark, nb::arg("message"), nb::arg("stream") = 0, "Records a mark.");
    module.def("range_start", &range_start, nb::arg("message"), nb::arg("stream") = 0,
               "Records the beginning of a range; returns its number.");
    module.def("range_end", &mstx::range_end_from_python, nb::arg("range"), "Records the end of a range.");
    module.def("take_sanitizer_marks", &mstx::take_sanitizer_marks,
               "Records marks for torch_npu's sanitizer as operators from now on.");
    module.def("mstx_calls", &mstx::calls_of_this_thread,
               "How many marks and ends of ranges came from this thread through mstx.");
    module.def("is_collecting", &recorder::is_collecting, "Whether events are recorded now.");
    module.def("collect_python_stacks", &collect_python_stacks, nb::arg("enabled"),
               "Python stacks of allocations. False if this Python version's frames are not known.");
    module.def(
        "note_backward_calls", [](nb::type_object engine) { return note_backward_calls(engine.ptr()); },
        nb::arg("engine_type"),
        "Threads of torch's backward engine have the stack of who called backward(). False if it is not as known.");
    module.def(
        "new_collection_callback", []() { return nb::steal(new_collection_callback()); },
        "For gc.callbacks: what the collector frees when it begins by itself is marked.");
    module.def("hide_code", &hide_codes, nb::arg("codes"), "Leaves frames of these code objects out of stacks.");
    module.def("record_event", &record_event, nb::arg("kind"), nb::arg("device"), nb::arg("size") = 0,
               nb::arg("attributes") = nb::dict(), nb::arg("name") = "", nb::arg("with_stacks") = false,
               nb::arg("extra") = 0, nb::arg("pool") = 0,
               "Records one event; returns its sequence number, 0 if dropped.");
    module.def("set_thread_labels", &set_thread_labels, nb::arg("text"),
               "The labels of what this thread allocates from now on; empty for none.");
    module.def("label_block", &label_block, nb::arg("address"), nb::arg("text"),
               "Labels the live block that contains an address. False if none is known.");
    module.def("imply_step", &imply_step, nb::arg("is_optimizer"), nb::arg("device"),
               "A step seems to have ended. False if steps of this source are not wanted any more.");
    module.def("steps_are_ranges", &steps::are_ranges, "Whether ranges \"step start\" are this program's steps.");
    module.def(
        "note_holder", &note_holder, nb::arg("address"), nb::arg("chain"), nb::arg("viewed_bytes"),
        "Records what refers to the live block that contains an address, and how much of it tensors have (0: not "
        "known, or most). False if none is recorded.");
    module.def("recorded_live_blocks", &recorded_live_blocks,
               nb::sig("def recorded_live_blocks() -> list[tuple[int, int, int]]"),
               "Blocks that are alive and have a record: address, bytes, sequence number.");
    module.def("follow_older_block", &follow_older_block, nb::arg("pool"), nb::arg("device"), nb::arg("address"),
               nb::arg("size"),
               "Follows a block that is older than our hooks; False if that is done, or events are collected.");
    module.def("live_bytes", &live_bytes, nb::arg("pool"), nb::arg("device"), "Bytes of live blocks.");
    module.def("physical_device", &acl::physical_device, nb::arg("logical"),
               "The driver's number of an NPU that the program knows by another one; -1 if there is none.");
    module.def("cuda_device", &cuda::device_of_runtime, nb::arg("number"),
               "The CUDA device, as events have it, that the program knows by a number; -1 if there is none.");
    module.def("devices_can_be_read", &watch::devices_can_be_read,
               "Whether one may wait for devices now, and read their memory; not while a graph is captured.");
    define_allocator_trace(module);
    module.def(
        "device_memory", &device_memory, nb::arg("device"),
        nb::sig("def device_memory(device: int) -> tuple[int, int] | None"),
        "Bytes of an NPU and free bytes on it, as the management interface says, by the driver's number; None if "
        "it does not. Does not begin to use the device.");
    module.def("failure_was_recorded", &out_of_memory::just_recorded,
               "Whether this thread's latest allocation of the driver failed for lack of memory, and was recorded.");
    module.def("failed_allocations", &out_of_memory::recorded_failures,
               "How many allocations were recorded in this process that failed for lack of memory.");
    module.def(
        "records_cpu_tensors", [] { return recorder::settings().devices.cpu; },
        "Whether allocations of tensors of the CPU are recorded.");
    module.def("host_memory", &host_memory, nb::sig("def host_memory() -> tuple[int, int, int]"),
               "Resident bytes, and of the control group bytes in use and its limit; zeros without a limit.");
    module.def(
        "is_main_interpreter", [] { return PyInterpreterState_Get() == PyInterpreterState_Main(); },
        "Whether the calling code does not run in an interpreter that the program made beside its own.");
    module.def("note_fact", &note_fact, nb::arg("key"), nb::arg("value"), "Adds a fact to the event log.");
    module.def(
        "warn", [](const std::string& text) { recorder::warn(text.c_str()); }, nb::arg("text"),
        "One line in the event log, and on stderr unless errors alone are asked for.");
    module.def(
        "report_error", [](const std::string& text) { recorder::report_error(text.c_str()); }, nb::arg("text"),
        "One line on stderr and in the event log.");
    module.def("is_stderr_the_same", &is_stderr_the_same,
               "Whether descriptor 2 is the file that it was when the core was loaded.");
    module.def(
        "capture_directory", [] { return std::string(recorder::capture_directory()); },
        "The open event log's directory, empty if nothing was recorded yet.");
    module.def("next_sequence", &recorder::next_sequence, "The sequence number of the next event.");
    module.def("tool_memory_bytes", &recorder::tool_memory_bytes, "Memory of the tool in this process, bytes.");
    define_alignment(module);
    define_block_stack(module);
    define_dump_rows(module);
    define_dump_writing(module);
    define_line_tables(module);
    define_packed_block(module);
    define_plain_pickle(module);
    define_main_thread(module);
    define_remote_call(module);
    define_replay(module);
    define_watch(module);
    module.def("close", &close_capture, "Marks the capture as ended in an orderly way; recording may go on.");
    if (PyModule_AddFunctions(module.ptr(), kOperatorMethods) != 0 ||
        PyModule_AddFunctions(module.ptr(), kFunctionTraceMethods) != 0 ||
        PyModule_AddFunctions(module.ptr(), kContainerMethods) != 0 ||
        PyModule_AddFunctions(module.ptr(), kReferenceMethods) != 0) {
        nb::raise_python_error();
    }
}

// Native stacks begin at the caller of the hook, are interned, and lie in modules that the log defines. With an
// argument the C library is one that cannot say which library an address is in.
#include <unistd.h>

#include <cstring>

#include "core/stacks/unwind_tables.h"
#include "core/writer/recorder.h"
#include "interpose/patcher.h"
#include "tests/check.h"
#include "tests/hooked.h"
#include "tests/log_reader.h"

using namespace msmemscope;

namespace {

__attribute__((noinline)) void allocate_here() {
    void* memory = nullptr;
    CHECK(tests::hooked_posix_memalign(&memory, 64, 64) == 0);
    tests::hooked_free(memory);
}

__attribute__((noinline)) void recurse(int depth) {
    if (depth == 0) {
        allocate_here();
    } else {
        recurse(depth - 1);
        asm volatile("");  // not a tail call
    }
}

}  // namespace

int main(int argument_count, char**) {
    ScratchFolder folder;
    CHECK(recorder::configure(folder.settings("native_stack_depth=20\n").c_str()));
    install_hooks();
    if (argument_count > 1) {
        set_loader_search(nullptr);
    }
    for (volatile int round = 0; round < 3; round = round + 1) {  // volatile: one call site, not three
        recurse(3);
    }
    recurse(300);
    recorder::close();
    const tests::Log log = tests::read_log(folder.path(), getpid());
    const auto allocations = log.of(format::EventKind::kMalloc);
    CHECK_EQUAL(allocations.size(), 4U);
    CHECK(allocations[0].native_stack_id != 0);
    CHECK_EQUAL(allocations[0].native_stack_id, allocations[1].native_stack_id);
    CHECK(allocations[0].native_stack_id != allocations[3].native_stack_id);
    bool found_stack = false;
    bool found_module = false;
    std::uint64_t first_frame = 0;
    for (const tests::Definition& definition : log.definitions) {
        if (definition.header.kind == format::DefinitionKind::kNativeStack) {
            CHECK(definition.payload.size() <= 20 * sizeof(std::uint64_t));
            if (definition.header.id == allocations[0].native_stack_id) {
                found_stack = true;
                std::memcpy(&first_frame, definition.payload.data(), sizeof(first_frame));
            }
        }
    }
    CHECK(found_stack);
    for (const tests::Definition& definition : log.definitions) {
        if (definition.header.kind == format::DefinitionKind::kModule) {
            format::ModulePayload module{};
            std::memcpy(&module, definition.payload.data(), sizeof(module));
            CHECK_EQUAL(definition.payload.size(), sizeof(module) + module.build_id_bytes + module.path_bytes);
            if (first_frame >= module.start && first_frame < module.end) {
                found_module = true;
                CHECK(definition.payload.substr(sizeof(module) + module.build_id_bytes).find("test_native_stack") !=
                      std::string::npos);
            }
        }
    }
    CHECK(found_module);
    return 0;
}

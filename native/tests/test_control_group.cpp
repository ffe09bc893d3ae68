// The limit of a control group, in both versions of the kernel's files, and how near its use is.
#include <fstream>

#include "core/writer/control_group.h"
#include "tests/check.h"

using namespace msmemscope;

namespace {

constexpr std::uint64_t kMiB = 1UL << 20U;

void write(const std::filesystem::path& file, const std::string& text) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
}

void find(const ScratchFolder& scratch, const std::string& groups) {
    write(scratch.path() / "groups", groups);
    find_control_group((scratch.path() / "groups").c_str(), (scratch.path() / "all").c_str());
}

void no_group_has_a_limit() {
    const ScratchFolder scratch;
    find_control_group("/no such file", "/no such folder");
    CHECK_EQUAL(group_memory().limit, 0U);
    write(scratch.path() / "all/own/memory.max", "max\n");
    find(scratch, "0::/own\n");
    CHECK_EQUAL(group_memory().limit, 0U);
    write(scratch.path() / "all/memory/own/memory.limit_in_bytes", "9223372036854771712\n");
    find(scratch, "11:memory:/own\n0::/own\n");
    CHECK_EQUAL(group_memory().limit, 0U);
    CHECK(!group_memory().is_near_limit());
}

void the_least_limit_holds() {
    const ScratchFolder scratch;
    const auto outer = scratch.path() / "all/outer";
    write(outer / "memory.max", std::to_string(300 * kMiB));
    write(outer / "memory.current", std::to_string(200 * kMiB));
    write(outer / "inner/memory.max", std::to_string(400 * kMiB));
    write(outer / "inner/memory.current", std::to_string(100 * kMiB));
    find(scratch, "0::/outer/inner\n");
    CHECK_EQUAL(group_memory().limit, 300 * kMiB);
    CHECK_EQUAL(group_memory().used, 200 * kMiB);
    // In a container the name is that outside of it.
    write(scratch.path() / "all/memory.max", std::to_string(64 * kMiB));
    find(scratch, "0::/somewhere/else\n");
    CHECK_EQUAL(group_memory().limit, 64 * kMiB);
    CHECK_EQUAL(group_memory().used, 0U);  // no such file
}

// Pages that the kernel can drop at once do not bring the limit near.
void pages_of_files_do_not_count_near_the_limit() {
    const ScratchFolder scratch;
    const auto own = scratch.path() / "all/memory/own";
    write(own / "memory.limit_in_bytes", std::to_string(100 * kMiB) + "\n");
    write(own / "memory.usage_in_bytes", std::to_string(89 * kMiB) + "\n");
    write(own / "memory.stat", "cache 1\ninactive_file 7\ntotal_inactive_file " + std::to_string(3 * kMiB) + "\n");
    find(scratch, "4:memory:/own\n3:cpuset:/\n");
    CHECK_EQUAL(group_memory().used, 89 * kMiB);
    CHECK(!group_memory().is_near_limit());
    write(own / "memory.usage_in_bytes", std::to_string(92 * kMiB));
    CHECK_EQUAL(group_memory().used, 89 * kMiB);
    CHECK(!group_memory().is_near_limit());
    write(own / "memory.usage_in_bytes", std::to_string(94 * kMiB));
    CHECK_EQUAL(group_memory().used, 91 * kMiB);
    CHECK(group_memory().is_near_limit());
}

void odd_files_are_no_limit() {
    const ScratchFolder scratch;
    for (const char* const groups : {"", "\n\n", "memory", "::::", "1:memory", "1:memoryx:/own\n"}) {
        find(scratch, groups);
    }
    find(scratch, "0::/" + std::string(5000, 'x'));
}

}  // namespace

int main() {
    no_group_has_a_limit();
    the_least_limit_holds();
    pages_of_files_do_not_count_near_the_limit();
    odd_files_are_no_limit();
}

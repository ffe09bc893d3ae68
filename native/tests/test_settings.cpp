// The settings text: what is read, and what is refused without a change.
#include <cstring>

#include "core/writer/settings.h"
#include "tests/check.h"

using msmemscope::Settings;

int main() {
    static Settings settings;
    CHECK(
        settings.parse("output=/a b/ü=1\nsession=00000000000000ff\nlaunch_directory=/l\nevents=alloc,free,access\n"
                       "collect_mode=immediate\ndevices=npu:3,cpu\nsteps=2,1\npython_stack=1\n"
                       "python_stack_depth=5000\nnative_stack_depth=7\nmaximum_size=1048576\nutc_offset=-3600\n"
                       "unknown=kept as a fact\nno equals sign"));
    CHECK(std::strcmp(settings.output, "/a b/ü=1") == 0);
    CHECK(std::strcmp(settings.launch_directory, "/l") == 0);
    CHECK_EQUAL(settings.session, 255U);
    CHECK_EQUAL(settings.events, msmemscope::kSelectAlloc | msmemscope::kSelectFree | msmemscope::kSelectAccess);
    CHECK(settings.collect_immediately && settings.devices.cpu && settings.first_step_selected);
    CHECK(settings.write_python_stack);
    CHECK_EQUAL(settings.python_stack_depth, 1000U);
    CHECK_EQUAL(settings.native_stack_depth, 7U);
    CHECK_EQUAL(settings.maximum_size_bytes, 1048576U);
    CHECK_EQUAL(settings.utc_offset_seconds, -3600);

    CHECK(!settings.parse("output=relative"));
    CHECK(!settings.parse(""));
    CHECK(!settings.parse(("output=/" + std::string(5000, 'x')).c_str()));
    CHECK(!settings.parse(("output=/x\n" + std::string(Settings::kTextCapacity, 'x')).c_str()));
    CHECK(std::strcmp(settings.output, "/a b/ü=1") == 0);

    CHECK(settings.parse("output=/x\nevents=alloc\ndevices=npu\nsteps=11,2"));
    CHECK(!settings.collect_immediately && !settings.devices.cpu && !settings.first_step_selected);
    CHECK(settings.parse("output=/x"));
    CHECK(settings.first_step_selected);
    return 0;
}

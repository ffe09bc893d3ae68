// What the environment may say, and what is made of it.
#include <cstdlib>
#include <cstring>
#include <map>

#include "check.h"
#include "settings.h"

namespace {

std::map<std::string, std::string> variables;

const char* lookup(const char* name) {
    const auto place = variables.find(name);
    return place == variables.end() ? nullptr : place->second.c_str();
}

virtual_npu::Settings parsed(std::map<std::string, std::string> given) {
    variables = std::move(given);
    return virtual_npu::parse_settings(&lookup);
}

void refuses(const char* name, const char* value) {
    const virtual_npu::Settings settings = parsed({{name, value}});
    CHECK(settings.error.find(name) == 0);
    CHECK(settings.error.find("accepted:") != std::string::npos);
}

}  // namespace

int main() {
    using virtual_npu::Compute;

    const virtual_npu::Settings defaults = parsed({});
    CHECK(defaults.error.empty());
    CHECK_EQUAL(defaults.devices, 8u);
    CHECK_EQUAL(defaults.memory_bytes, uint64_t{64} << 30);
    CHECK(defaults.compute == Compute::kCpu);
    CHECK(!defaults.asynchronous);
    CHECK_EQUAL(defaults.overhead.size(), size_t{3});
    CHECK_EQUAL(defaults.faults.memory_limit, UINT64_MAX);

    const virtual_npu::Settings chosen =
        parsed({{"VNPU_DEVICES", "64"},
                {"VNPU_MEMORY", "1536MiB"},
                {"VNPU_COMPUTE", "none"},
                {"VNPU_STREAMS", "asynchronous"},
                {"VNPU_SOC", "Ascend910_9391"},
                {"VNPU_CANN", "9.0.RC1"},
                {"VNPU_DRIVER", "25.5.0"},
                {"VNPU_WORKSPACE", "0"},
                {"VNPU_OVERHEAD", "HCCL=1G,RUNTIME=0"},
                {"VNPU_FAULTS", "fail-allocation:7,memory-limit:2K,overrun:aclnnAdd:3:16B"}});
    CHECK(chosen.error.empty());
    CHECK_EQUAL(chosen.devices, 64u);
    CHECK_EQUAL(chosen.memory_bytes, uint64_t{1536} << 20);
    CHECK(chosen.compute == Compute::kNone);
    CHECK(chosen.asynchronous);
    CHECK(chosen.soc_name == "Ascend910_9391");
    CHECK(chosen.cann_version == "9.0.RC1");
    CHECK(chosen.driver_version == "25.5.0");
    CHECK_EQUAL(chosen.workspace_bytes, uint64_t{0});
    CHECK_EQUAL(chosen.overhead.size(), size_t{1});
    CHECK_EQUAL(chosen.overhead[0].module, 3u);
    CHECK_EQUAL(chosen.overhead[0].bytes, uint64_t{1} << 30);
    CHECK_EQUAL(chosen.faults.fail_allocation, uint64_t{7});
    CHECK_EQUAL(chosen.faults.memory_limit, uint64_t{2048});
    CHECK(chosen.faults.overrun_function == "aclnnAdd");
    CHECK_EQUAL(chosen.faults.overrun_call, uint64_t{3});
    CHECK_EQUAL(chosen.faults.overrun_bytes, uint64_t{16});

    using Numbers = std::vector<uint32_t>;
    using virtual_npu::parse_visible_devices;
    CHECK_EQUAL(parse_visible_devices(nullptr, 8).size(), size_t{8});
    CHECK(parse_visible_devices("5,2", 8) == (Numbers{5, 2}));
    CHECK(parse_visible_devices("1,8,0", 8) == (Numbers{1}));
    CHECK(parse_visible_devices("2, 5", 8) == (Numbers{2}));
    for (const char* none : {"", "x", ",0", " 0"}) CHECK(parse_visible_devices(none, 8).empty());

    CHECK(parsed({{"VNPU_OVERHEAD", ""}}).overhead.empty());
    CHECK_EQUAL(parsed({{"VNPU_DEVICES", ""}}).devices, 8u);

    for (const char* value : {"0", "65", "x", "-1", "1 ", "99999999999999999999"}) refuses("VNPU_DEVICES", value);
    for (const char* value : {"x", "1.5GiB", "GiB", "1XB", "99999999999999T"}) refuses("VNPU_MEMORY", value);
    for (const char* value : {"gpu", "CPU"}) refuses("VNPU_COMPUTE", value);
    for (const char* value : {"1", "both"}) refuses("VNPU_STREAMS", value);
    for (const char* value : {"8", "x.1", "8..1", "8.5.", "8.5.0.1.2.3", "8.5 .0", "8.11111111111111111"}) {
        refuses("VNPU_CANN", value);
        refuses("VNPU_DRIVER", value);
    }
    for (const char* value : {"RUNTIME", "=1G", "SPAM=1G", "RUNTIME=x", "RUNTIME=1G,"}) refuses("VNPU_OVERHEAD", value);
    for (const char* value : {"x", "fail-allocation", "fail-allocation:0", "memory-limit:", "overrun:", "overrun:a:b",
                              "overrun:a:1:1:1", "memory-limit:1G,"}) {
        refuses("VNPU_FAULTS", value);
    }

    for (uint32_t module = 0; module < virtual_npu::kModuleCount; ++module) {
        CHECK_EQUAL(virtual_npu::module_number(virtual_npu::module_name(module)), static_cast<int>(module));
    }
    CHECK(std::strcmp(virtual_npu::module_name(200), "UNKNOWN") == 0);
    CHECK_EQUAL(virtual_npu::module_number("SPAM"), -1);
    return 0;
}

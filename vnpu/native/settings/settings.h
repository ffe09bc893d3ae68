// What the user chose, as every emulated library reads it: from the environment, once. The command `vnpu` and
// virtual_npu.activate() check the values before a program starts; a variable set by hand is checked here, and the
// runtime then refuses to initialise (aclInit) with `error` as its text. The table of variables is in README.md and in
// src/virtual_npu/configuration.py.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace virtual_npu {

enum class Compute { kCpu, kNone };

struct ModuleOverhead {
    uint32_t module;  // the driver's module number
    uint64_t bytes;
};

struct Faults {
    uint64_t fail_allocation = 0;        // the number, from 1, of the driver allocation that fails; 0: none
    uint64_t memory_limit = UINT64_MAX;  // bytes a device really gives, whatever it reports
    std::string overrun_function;        // the aclnn function that writes behind its output; empty: none
    uint64_t overrun_call = 1;           // which call of it, from 1
    uint64_t overrun_bytes = 64;
};

struct Settings {
    uint32_t devices = 8;
    uint64_t memory_bytes = uint64_t{64} << 30;  // of each device
    std::string soc_name = "Ascend910B1";
    std::string cann_version;    // what the packages of CANN report; empty: none, as before CANN 8.1
    std::string driver_version;  // what the driver reports to who asks CANN
    Compute compute = Compute::kCpu;
    bool asynchronous = false;                      // streams run behind the host, each in a thread of its own
    uint64_t workspace_bytes = uint64_t{16} << 20;  // what matrix multiplication, convolution and attention ask for
    std::vector<ModuleOverhead> overhead;           // taken when a process first uses a device
    std::string kernels;                            // the compiled kernels for compute=cpu
    Faults faults;
    std::string error;  // why the environment cannot be used; empty if it can
};

const Settings& settings();

// The driver's numbers of the devices that the runtime shows; its own number is the place in this list. Unlike the
// settings it is read at the first use of a device: programs may set the variable after they imported torch.
const std::vector<uint32_t>& visible_devices();

// For tests: parses without looking at the process's environment. `lookup` returns null for a variable that is not set.
Settings parse_settings(const char* (*lookup)(const char* name));
std::vector<uint32_t> parse_visible_devices(const char* text, uint32_t devices);

// The driver's name of a module number, "UNKNOWN" for one without a name; and back, -1 for a name that is not known.
const char* module_name(uint32_t module);
int module_number(const std::string& name);

// With compute=none no data is worth the pages and the time that it would take, but programs read back what they wrote,
// and what other ranks told them: indices, flags, sizes, pickled objects. So what is small is moved, and more of it if
// it consists of bytes or whole numbers, or comes from the host.
constexpr uint64_t kMostBytesMoved = uint64_t{1} << 20;
constexpr uint64_t kMostBytesWrittenByHost = uint64_t{16} << 20;
constexpr uint64_t kMostBytesOfWholeNumbers = uint64_t{64} << 20;
constexpr uint64_t most_bytes_moved_without_compute(bool whole_numbers) {
    return whole_numbers ? kMostBytesOfWholeNumbers : kMostBytesMoved;
}

constexpr uint32_t kMostDevices = 64;
constexpr uint32_t kModuleCount = 76;
constexpr uint32_t kModuleApplication = 33;

}  // namespace virtual_npu

#include "sources/ascend/hal/allocation_flags.h"

#include <iterator>

namespace msmemscope::hal {
namespace {

// By number, spelled as in the driver's headers.
constexpr const char* kModuleNames[] = {
    "SLOG",        "IDEDD",
    "IDEDH",       "HCCL",
    "FMK",         "HIAIENGINE",
    "DVPP",        "RUNTIME",
    "CCE",         "HDC",
    "DRV",         "MDCFUSION",
    "MDCLOCATION", "MDCPERCEPTION",
    "MDCFSM",      "MDCCOMMON",
    "MDCMONITOR",  "MDCBSWP",
    "MDCDEFAULT",  "MDCSC",
    "MDCPNC",      "MLL",
    "DEVMM",       "KERNEL",
    "LIBMEDIA",    "CCECPU",
    "ASCENDDK",    "ROS",
    "HCCP",        "ROCE",
    "TEFUSION",    "PROFILING",
    "DP",          "APP",
    "TS",          "TSDUMP",
    "AICPU",       "LP",
    "TDT",         "FE",
    "MD",          "MB",
    "ME",          "IMU",
    "IMP",         "GE",
    "MDCFUSA",     "CAMERA",
    "ASCENDCL",    "TEEOS",
    "ISP",         "SIS",
    "HSM",         "DSS",
    "PROCMGR",     "BBOX",
    "AIVECTOR",    "TBE",
    "FV",          "MDCMAP",
    "TUNE",        "HSS",
    "FFTS",        "OP",
    "UDF",         "HICAID",
    "TSYNC",       "AUDIO",
    "TPRT",        "ASCENDCKERNEL",
    "ASYS",        "ATRACE",
    "RTC",         "SYSMONITOR",
    "AML",         "INVLID_MOUDLE_ID",
};
static_assert(std::size(kModuleNames) == 76);

constexpr const char* kPageTypes[] = {"normal", "huge", "giant"};
constexpr const char* kAllocationTypes[] = {"alloc", "create"};

}  // namespace

const char* module_name(std::uint32_t module) noexcept {
    return module < std::size(kModuleNames) ? kModuleNames[module] : "UNKNOWN";
}

const char* page_type_name(PageType type) noexcept { return kPageTypes[static_cast<unsigned>(type)]; }

const char* allocation_type_name(AllocationType type) noexcept { return kAllocationTypes[static_cast<unsigned>(type)]; }

}  // namespace msmemscope::hal

#include "settings.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>

namespace virtual_npu {
namespace {

// Driver module numbers; the index is the number.
constexpr const char* kModuleNames[kModuleCount] = {
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

// Used where VNPU_OVERHEAD is not set: of the order of what a device shows after initialisation, not a measurement.
constexpr const char* kDefaultOverhead = "RUNTIME=128MiB,AICPU=64MiB,OP=32MiB";

bool parse_count(std::string_view text, uint64_t* value) {
    if (text.empty() || text.size() > 19) return false;
    uint64_t number = 0;
    for (const char character : text) {
        if (character < '0' || character > '9') return false;
        number = number * 10 + static_cast<uint64_t>(character - '0');
    }
    *value = number;
    return true;
}

// "17179869184", "16GiB", "16G", "1.5 TiB" is not accepted: whole numbers, binary units.
bool parse_size(std::string_view text, uint64_t* bytes) {
    size_t digits = 0;
    while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
    uint64_t number = 0;
    if (!parse_count(text.substr(0, digits), &number)) return false;
    std::string_view unit = text.substr(digits);
    unsigned shift = 0;
    if (!unit.empty()) {
        const std::string_view letters = "KMGT";
        const size_t place = letters.find(unit[0]);
        const std::string_view rest = unit.substr(1);
        if (unit == "B") {
            shift = 0;
        } else if (place != std::string_view::npos && (rest.empty() || rest == "iB" || rest == "B")) {
            shift = 10 * static_cast<unsigned>(place + 1);
        } else {
            return false;
        }
    }
    if (shift != 0 && number > (UINT64_MAX >> shift)) return false;
    *bytes = number << shift;
    return true;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    while (true) {
        const size_t end = text.find(separator);
        parts.push_back(text.substr(0, end));
        if (end == std::string_view::npos) return parts;
        text.remove_prefix(end + 1);
    }
}

class Parser {
public:
    explicit Parser(const char* (*lookup)(const char*)) : lookup_(lookup) {}

    Settings parse() {
        uint64_t number = 0;
        if (const char* text = get("VNPU_DEVICES")) {
            if (parse_count(text, &number) && number >= 1 && number <= kMostDevices) {
                result_.devices = static_cast<uint32_t>(number);
            } else {
                refuse("VNPU_DEVICES", text, "a number from 1 to 64");
            }
        }
        size("VNPU_MEMORY", &result_.memory_bytes);
        size("VNPU_WORKSPACE", &result_.workspace_bytes);
        if (const char* text = get("VNPU_SOC")) result_.soc_name = text;
        version("VNPU_CANN", &result_.cann_version);
        version("VNPU_DRIVER", &result_.driver_version);
        if (const char* text = get("VNPU_KERNELS")) result_.kernels = text;
        if (const char* text = get("VNPU_COMPUTE")) {
            const std::string_view word = text;
            if (word == "none") {
                result_.compute = Compute::kNone;
            } else if (word != "cpu") {
                refuse("VNPU_COMPUTE", text, "cpu, none");
            }
        }
        if (const char* text = get("VNPU_STREAMS")) {
            const std::string_view word = text;
            result_.asynchronous = word == "asynchronous";
            if (!result_.asynchronous && word != "synchronous") {
                refuse("VNPU_STREAMS", text, "synchronous, asynchronous");
            }
        }
        const char* overhead = lookup_("VNPU_OVERHEAD");  // set and empty: none at all
        parse_overhead(overhead != nullptr ? overhead : kDefaultOverhead);
        if (const char* text = get("VNPU_FAULTS")) parse_faults(text);
        return std::move(result_);
    }

private:
    const char* get(const char* name) const {
        const char* text = lookup_(name);
        return text != nullptr && text[0] != '\0' ? text : nullptr;
    }

    void refuse(const char* name, std::string_view value, const char* accepted) {
        if (!result_.error.empty()) return;
        result_.error = std::string(name) + ": '" + std::string(value) + "' is not accepted; accepted: " + accepted;
    }

    void size(const char* name, uint64_t* bytes) {
        const char* text = get(name);
        if (text != nullptr && !parse_size(text, bytes)) refuse(name, text, "a size such as 512MiB or 64GiB");
    }

    // A number, and up to four parts behind points.
    void version(const char* name, std::string* result) {
        const char* text = get(name);
        if (text == nullptr) return;
        const std::vector<std::string_view> parts = split(text, '.');
        bool good = parts.size() >= 2 && parts.size() <= 5;
        for (const std::string_view part : parts) {
            good = good && !part.empty() && part.size() <= 16 &&
                   std::all_of(part.begin(), part.end(), [](unsigned char one) { return std::isalnum(one) != 0; });
        }
        if (good &&
            std::all_of(parts[0].begin(), parts[0].end(), [](unsigned char one) { return std::isdigit(one) != 0; })) {
            *result = text;
        } else {
            refuse(name, text, "a version such as 8.5.0 or 9.0.RC1");
        }
    }

    void parse_overhead(std::string_view text) {
        if (text.empty()) return;
        for (const std::string_view part : split(text, ',')) {
            const size_t equals = part.find('=');
            const int module =
                equals == std::string_view::npos ? -1 : module_number(std::string(part.substr(0, equals)));
            uint64_t bytes = 0;
            if (module < 0 || !parse_size(part.substr(equals + 1), &bytes)) {
                refuse("VNPU_OVERHEAD", part, "module=size pairs such as RUNTIME=128MiB,HCCL=1GiB");
                return;
            }
            if (bytes > 0) result_.overhead.push_back({static_cast<uint32_t>(module), bytes});
        }
    }

    void parse_faults(std::string_view text) {
        for (const std::string_view part : split(text, ',')) {
            const std::vector<std::string_view> words = split(part, ':');
            Faults& faults = result_.faults;
            bool good = false;
            if (words[0] == "fail-allocation" && words.size() == 2) {
                good = parse_count(words[1], &faults.fail_allocation) && faults.fail_allocation > 0;
            } else if (words[0] == "memory-limit" && words.size() == 2) {
                good = parse_size(words[1], &faults.memory_limit);
            } else if (words[0] == "overrun" && words.size() >= 2 && words.size() <= 4 && !words[1].empty()) {
                faults.overrun_function = std::string(words[1]);
                good = (words.size() < 3 || (parse_count(words[2], &faults.overrun_call) && faults.overrun_call > 0)) &&
                       (words.size() < 4 || parse_size(words[3], &faults.overrun_bytes));
            }
            if (!good) {
                refuse("VNPU_FAULTS", part, "fail-allocation:N, memory-limit:SIZE, overrun:FUNCTION[:CALL[:SIZE]]");
                return;
            }
        }
    }

    const char* (*lookup_)(const char*);
    Settings result_;
};

const char* environment(const char* name) { return std::getenv(name); }

}  // namespace

Settings parse_settings(const char* (*lookup)(const char* name)) { return Parser(lookup).parse(); }

const Settings& settings() {
    static const auto* chosen = new Settings(parse_settings(&environment));  // never destroyed: used by exit handlers
    return *chosen;
}

// Numbers are taken up to the first character that belongs to none, and up to the first device that is not there.
std::vector<uint32_t> parse_visible_devices(const char* text, uint32_t devices) {
    std::vector<uint32_t> numbers;
    if (text == nullptr) {
        for (uint32_t device = 0; device < devices; ++device) numbers.push_back(device);
        return numbers;
    }
    std::string_view list = text;
    list = list.substr(0, list.find_first_not_of("0123456789,"));
    for (const std::string_view part : split(list, ',')) {
        uint64_t number = 0;
        if (!parse_count(part, &number) || number >= devices) break;
        numbers.push_back(static_cast<uint32_t>(number));
    }
    return numbers;
}

const std::vector<uint32_t>& visible_devices() {
    static const auto* numbers = new std::vector<uint32_t>(
        parse_visible_devices(std::getenv("ASCEND_RT_VISIBLE_DEVICES"), settings().devices));  // likewise
    return *numbers;
}

const char* module_name(uint32_t module) { return module < kModuleCount ? kModuleNames[module] : "UNKNOWN"; }

int module_number(const std::string& name) {
    for (uint32_t module = 0; module < kModuleCount; ++module) {
        if (name == kModuleNames[module]) return static_cast<int>(module);
    }
    return -1;
}

}  // namespace virtual_npu

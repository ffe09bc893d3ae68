// The exported functions that make communicators, end them and say what is known about them.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "call_errors.h"
#include "registry.h"

namespace virtual_npu {
namespace {

constexpr uint64_t kDefaultBufferMib = 200;
constexpr uint64_t kDefaultExecutionTimeout = 1800;  // seconds
constexpr uint64_t kDefaultConnectTimeout = 120;

// The beginning of a root info; the rest is zeros.
struct RootInfoText {
    char magic[16];
    char place[64];
};
constexpr char kRootInfoMagic[16] = "virtual_npu";
static_assert(sizeof(RootInfoText) <= kRootInfoBytes);

// Meeting points that were opened with HcclGetRootInfo and wait for the same process to make the communicator.
std::mutex meeting_points_guard;
std::map<std::string, std::unique_ptr<MeetingPoint>>& meeting_points() {
    static auto* points = new std::map<std::string, std::unique_ptr<MeetingPoint>>();
    return *points;
}

std::unique_ptr<MeetingPoint> take_meeting_point(const std::string& place) {
    const std::lock_guard<std::mutex> lock(meeting_points_guard);
    const auto found = meeting_points().find(place);
    if (found == meeting_points().end()) return nullptr;
    std::unique_ptr<MeetingPoint> point = std::move(found->second);
    meeting_points().erase(found);
    return point;
}

// A whole number from the environment. False, with an error text, for something else.
bool number_from_environment(const char* name, uint64_t most, uint64_t* number) {
    const char* text = std::getenv(name);
    if (text == nullptr || text[0] == '\0') return true;
    char* end = nullptr;
    const unsigned long long value = std::strtoull(text, &end, 10);
    if (*end != '\0' || text[0] == '-' || value > most) {
        report(kHcclInvalidParameter, "EI0001: %s: '%s' is not accepted; accepted: a number from 0 to %llu", name, text,
               static_cast<unsigned long long>(most));
        return false;
    }
    *number = value;
    return true;
}

// A field of a configuration, as far as the caller's version has it.
bool has_field(const CommunicatorConfig* config, size_t offset, size_t bytes) {
    return config != nullptr && config->magic == kConfigMagic && config->size >= offset + bytes;
}
#define HAS_FIELD(config, field) \
    has_field(config, offsetof(CommunicatorConfig, field), sizeof(CommunicatorConfig::field))

template <size_t size>
std::string text_of(const char (&field)[size]) {
    return std::string(field, strnlen(field, size));
}

// What the environment says, unless the configuration says something.
int options_from(const CommunicatorConfig* config, CommunicatorOptions* options) {
    if (config != nullptr && config->magic != kConfigMagic) {
        return report(kHcclInvalidParameter, "EI0003: the communicator's configuration was not initialised");
    }
    uint64_t buffer_mib = kDefaultBufferMib;
    uint64_t execution_timeout = kDefaultExecutionTimeout;
    uint64_t connect_timeout = kDefaultConnectTimeout;
    if (!number_from_environment("HCCL_BUFFSIZE", uint64_t{1} << 20, &buffer_mib) ||
        !number_from_environment("HCCL_EXEC_TIMEOUT", INT32_MAX, &execution_timeout) ||
        !number_from_environment("HCCL_CONNECT_TIMEOUT", INT32_MAX, &connect_timeout)) {
        return kHcclInvalidParameter;
    }
    if (HAS_FIELD(config, buffer_size_mib) && config->buffer_size_mib != kNotSet) buffer_mib = config->buffer_size_mib;
    if (HAS_FIELD(config, execution_timeout_s) && config->execution_timeout_s >= 0) {
        execution_timeout = static_cast<uint64_t>(config->execution_timeout_s);
    }
    if (HAS_FIELD(config, name)) options->name = text_of(config->name);
    if (HAS_FIELD(config, buffer_name)) options->buffer_name = text_of(config->buffer_name);
    if (buffer_mib == 0) return report(kHcclInvalidParameter, "EI0001: a communicator's buffers cannot be empty");
    options->buffer_bytes = buffer_mib << 20;
    options->execution_timeout = std::chrono::seconds(execution_timeout);
    options->connect_timeout = std::chrono::seconds(connect_timeout);
    return kHcclSuccess;
}

// A name for a communicator that was given none; different for all communicators of the host's process.
std::string made_name(const std::string& place) {
    static std::atomic<uint32_t> number{0};
    return "hccl_" + place.substr(place.size() - std::min<size_t>(place.size(), 8)) + "_" + std::to_string(number++);
}

int make_communicator(std::unique_ptr<MeetingPoint> point, Participant self, const CommunicatorOptions& options,
                      void** handle) {
    self.deadline = Clock::now() + options.connect_timeout;
    std::string reason;
    std::unique_ptr<Segment> segment;
    if (point != nullptr) {
        const std::string name = options.name.empty() ? made_name(self.place) : options.name;
        segment = host_meeting(*point, self, name.c_str(), &reason);
        point.reset();  // the place is free again, and late ranks learn that they are late
    } else {
        segment = join_meeting(self, &reason);
    }
    if (segment == nullptr) {
        return report(kHcclConnect, "EI0006: no communicator of %u ranks for rank %u: %s", self.rank_count, self.rank,
                      reason.c_str());
    }
    int code = kHcclSuccess;
    std::shared_ptr<Communicator> made = Communicator::create(std::move(segment), self.rank, options, &code);
    if (made != nullptr) *handle = add_communicator(std::move(made));
    return code;
}

int check_group(uint32_t rank_count, uint32_t rank) {
    if (rank_count >= 1 && rank_count <= kMostRanks && rank < rank_count) return kHcclSuccess;
    return report(kHcclInvalidParameter, "EI0003: rank %u of %u ranks; a communicator has 1 to %u ranks", rank,
                  rank_count, kMostRanks);
}

int make_from_root_info(uint32_t rank_count, const RootInfo* root, uint32_t rank, const CommunicatorConfig* config,
                        void** handle) {
    if (root == nullptr || handle == nullptr) {
        return report(kHcclNullPointer, "EI0003: the root info or the place for the communicator is missing");
    }
    CommunicatorOptions options{};
    int status = check_group(rank_count, rank);
    if (status == kHcclSuccess) status = options_from(config, &options);
    if (status != kHcclSuccess) return status;
    RootInfoText text{};
    std::memcpy(&text, root->internal, sizeof text);
    if (std::memcmp(text.magic, kRootInfoMagic, sizeof kRootInfoMagic) != 0) {
        return report(kHcclInvalidParameter, "EI0003: the root info was not made by HcclGetRootInfo");
    }
    const std::string place = text_of(text.place);
    return make_communicator(take_meeting_point(place), {place, rank, rank_count, {}, false}, options, handle);
}

// The ranks of a new sub communicator all know their parent's secret, their ranks and its number, so they can meet
// without being told where.
std::string sub_place(const Communicator& parent, const uint32_t* ranks, uint32_t count, uint64_t number) {
    std::string text = "virtual_npu_";
    for (uint64_t digest : {uint64_t{0xcbf29ce484222325}, uint64_t{0x6c62272e07bb0142}}) {
        const auto add = [&digest](const void* data, size_t bytes) {
            for (size_t index = 0; index < bytes; ++index) {
                digest = (digest ^ static_cast<const uint8_t*>(data)[index]) * 0x100000001b3;
            }
        };
        add(parent.segment().header().secret, sizeof parent.segment().header().secret);
        add(ranks, count * sizeof *ranks);
        add(&number, sizeof number);
        char digits[17];
        std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(digest));
        text += digits;
    }
    return text;
}

}  // namespace
}  // namespace virtual_npu

using virtual_npu::Communicator;
using virtual_npu::CommunicatorConfig;
using virtual_npu::report;
using virtual_npu::RootInfo;

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int HcclGetRootInfo(RootInfo* root) {
    using namespace virtual_npu;
    if (root == nullptr) return report(kHcclNullPointer, "EI0003: HcclGetRootInfo: no place for the root info");
    const std::string place = random_place();
    std::unique_ptr<MeetingPoint> point = place.empty() ? nullptr : MeetingPoint::open(place);
    if (point == nullptr) return report(kHcclSystemCall, "EI0006: HcclGetRootInfo: %s", std::strerror(errno));
    RootInfoText text{};
    std::memcpy(text.magic, kRootInfoMagic, sizeof text.magic);
    std::strncpy(text.place, place.c_str(), sizeof text.place - 1);
    std::memset(root->internal, 0, sizeof root->internal);
    std::memcpy(root->internal, &text, sizeof text);
    const std::lock_guard<std::mutex> lock(meeting_points_guard);
    meeting_points()[place] = std::move(point);
    return kHcclSuccess;
}

EXPORTED int HcclCommInitRootInfo(uint32_t rank_count, const RootInfo* root, uint32_t rank, void** handle) {
    return virtual_npu::make_from_root_info(rank_count, root, rank, nullptr, handle);
}

EXPORTED int HcclCommInitRootInfoConfig(uint32_t rank_count, const RootInfo* root, uint32_t rank,
                                        const CommunicatorConfig* config, void** handle) {
    return virtual_npu::make_from_root_info(rank_count, root, rank, config, handle);
}

// Called by the ranks of the sub communicator; a rank that is not of it says so with no ranks, and gets none.
EXPORTED int HcclCreateSubCommConfig(void** parent_handle, uint32_t rank_count, uint32_t* ranks, uint64_t number,
                                     uint32_t rank, CommunicatorConfig* config, void** handle) {
    using namespace virtual_npu;
    constexpr const char* kCall = "HcclCreateSubCommConfig";
    if (parent_handle == nullptr || handle == nullptr) {
        return report(kHcclNullPointer, "EI0003: %s: a communicator is missing", kCall);
    }
    if (ranks == nullptr && rank_count == 0) {
        *handle = nullptr;
        return kHcclSuccess;
    }
    if (ranks == nullptr) return report(kHcclNullPointer, "EI0003: %s: the ranks are missing", kCall);
    const std::shared_ptr<Communicator> parent = find_communicator(*parent_handle, kCall);
    if (parent == nullptr) return kHcclInvalidParameter;
    CommunicatorOptions options{};
    int status = check_group(rank_count, rank);
    if (status == kHcclSuccess) status = options_from(config, &options);
    if (status != kHcclSuccess) return status;
    if (ranks[rank] != parent->rank()) {
        return report(kHcclInvalidParameter, "EI0003: %s: rank %u of the sub communicator is %u of its parent, not %u",
                      kCall, rank, ranks[rank], parent->rank());
    }
    const std::string place = sub_place(*parent, ranks, rank_count, number);
    std::unique_ptr<MeetingPoint> point;
    if (rank == 0) {
        point = MeetingPoint::open(place);
        if (point == nullptr) return report(kHcclSystemCall, "EI0006: %s: %s", kCall, std::strerror(errno));
    }
    return make_communicator(std::move(point), {place, rank, rank_count, {}, true}, options, handle);
}

// Another thread may be in a call of this communicator, for instance because its peers will never come: that call
// returns an error then, and the memory is given back when it has.
EXPORTED int HcclCommDestroy(void* handle) {
    const std::shared_ptr<Communicator> communicator = virtual_npu::remove_communicator(handle);
    if (communicator == nullptr) {
        return report(virtual_npu::kHcclInvalidParameter, "EI0003: HcclCommDestroy: %p is not a communicator", handle);
    }
    communicator->abort();
    return virtual_npu::kHcclSuccess;
}

EXPORTED int HcclGetCommName(void* handle, char* name) {
    const std::shared_ptr<Communicator> communicator = virtual_npu::find_communicator(handle, "HcclGetCommName");
    if (communicator == nullptr) return virtual_npu::kHcclInvalidParameter;
    std::strcpy(name, communicator->name());
    return virtual_npu::kHcclSuccess;
}

EXPORTED int HcclGetRankSize(void* handle, uint32_t* count) {
    const std::shared_ptr<Communicator> communicator = virtual_npu::find_communicator(handle, "HcclGetRankSize");
    if (communicator == nullptr) return virtual_npu::kHcclInvalidParameter;
    *count = communicator->size();
    return virtual_npu::kHcclSuccess;
}

EXPORTED int HcclGetRankId(void* handle, uint32_t* rank) {
    const std::shared_ptr<Communicator> communicator = virtual_npu::find_communicator(handle, "HcclGetRankId");
    if (communicator == nullptr) return virtual_npu::kHcclInvalidParameter;
    *rank = communicator->rank();
    return virtual_npu::kHcclSuccess;
}

// What went wrong behind the caller's back: nothing. All work is done in calls, and a call that cannot be done returns
// an error with a text. A watchdog that heard of it here would end the process before it could show that text.
EXPORTED int HcclGetCommAsyncError(void* handle, int* error) {
    if (virtual_npu::find_communicator(handle, "HcclGetCommAsyncError") == nullptr) {
        return virtual_npu::kHcclInvalidParameter;
    }
    *error = virtual_npu::kHcclSuccess;
    return virtual_npu::kHcclSuccess;
}

EXPORTED uint32_t HcclGetCommConfigCapability() { return virtual_npu::kConfigAbilities; }

// There is one network card, and it is the memory: any choice of cards is accepted.
EXPORTED int HcclCommWorkingDevNicSet(void*, uint32_t*, bool*, uint32_t) { return virtual_npu::kHcclSuccess; }

// Whether results have to be repeatable (0), and what computes them (1). They are repeatable, whatever is asked for.
namespace {
std::atomic<int32_t> chosen[2];
}
EXPORTED int HcclSetConfig(int config, int32_t value) {
    if (config < 0 || config > 1) {
        return report(virtual_npu::kHcclInvalidParameter, "EI0003: HcclSetConfig: there is no option %d", config);
    }
    chosen[config] = value;
    return virtual_npu::kHcclSuccess;
}
EXPORTED int HcclGetConfig(int config, int32_t* value) {
    if (config < 0 || config > 1 || value == nullptr) {
        return report(virtual_npu::kHcclInvalidParameter, "EI0003: HcclGetConfig: there is no option %d", config);
    }
    *value = chosen[config];
    return virtual_npu::kHcclSuccess;
}

EXPORTED const char* HcclGetErrorString(int code) {
    constexpr const char* kTexts[] = {"no error",
                                      "parameter error",
                                      "empty pointer",
                                      "memory error",
                                      "internal error",
                                      "not supported",
                                      "not found",
                                      "resource unavailable",
                                      "system call error",
                                      "timeout",
                                      "cannot open file",
                                      "TCP connection failed",
                                      "RoCE connection failed",
                                      "TCP transfer failed",
                                      "RoCE transfer failed",
                                      "runtime error",
                                      "driver error",
                                      "profiling error",
                                      "CCE error",
                                      "network error",
                                      "try again",
                                      "error of another rank",
                                      "communicator suspending",
                                      "retry failed",
                                      "out of memory"};
    return code >= 0 && static_cast<size_t>(code) < sizeof kTexts / sizeof kTexts[0] ? kTexts[code] : "unknown error";
}

// The numbers and layouts of the collective library's interface (libhccl.so) that its callers were compiled with.
#pragma once

#include <cstddef>
#include <cstdint>

namespace virtual_npu {

enum Result : int {
    kHcclSuccess = 0,
    kHcclInvalidParameter = 1,
    kHcclNullPointer = 2,
    kHcclNoMemory = 3,
    kHcclInternal = 4,
    kHcclUnsupported = 5,
    kHcclSystemCall = 8,
    kHcclTimeout = 9,
    kHcclConnect = 11,
    kHcclRuntime = 15,
    kHcclRemote = 21,  // something happened to another rank
    kHcclSuspending = 22,
};

enum class Reduction : uint32_t { kSum = 0, kProduct = 1, kMaximum = 2, kMinimum = 3 };

enum class ElementType : uint32_t {
    kInt8 = 0,
    kInt16 = 1,
    kInt32 = 2,
    kFloat16 = 3,
    kFloat32 = 4,
    kInt64 = 5,
    kUint64 = 6,
    kUint8 = 7,
    kUint16 = 8,
    kUint32 = 9,
    kFloat64 = 10,
    kBfloat16 = 11,
    kInt128 = 12,
    kHifloat8 = 14,
    kFloat8E4M3 = 15,
    kFloat8E5M2 = 16,
    kFloat8E8M0 = 17,
};

// What the rank that calls HcclGetRootInfo hands to all others, through a channel of their own.
constexpr size_t kRootInfoBytes = 4108;
struct RootInfo {
    char internal[kRootInfoBytes];
};

constexpr size_t kCommunicatorNameBytes = 128;
constexpr uint32_t kNotSet = 0xffffffff;
constexpr uint32_t kConfigMagic = 0xf0f0f0f0;

// HcclCommConfig. It grew with every release; `size` says how much of it a caller knows.
struct CommunicatorConfig {
    uint64_t size;
    uint32_t magic;
    uint32_t version;
    uint64_t reserved;
    uint32_t buffer_size_mib;
    uint32_t deterministic;
    char name[kCommunicatorNameBytes];
    char device_identity[128];
    uint32_t expansion_mode;
    uint32_t traffic_class;
    uint32_t service_level;
    uint32_t world_rank;
    uint64_t job;
    uint8_t graph_zero_copy;
    int32_t execution_timeout_s;
    char algorithm[1600];
    char retry_enable[50];
    char retry_parameters[128];
    char buffer_name[128];
    uint32_t service_quality;
    uint64_t symmetric_window_gib;
};
static_assert(offsetof(CommunicatorConfig, buffer_size_mib) == 24);
static_assert(offsetof(CommunicatorConfig, execution_timeout_s) == 316);
static_assert(offsetof(CommunicatorConfig, buffer_name) == 2098);
static_assert(sizeof(CommunicatorConfig) == 2240);

// How many of the numbered abilities of the configuration there are: all up to sharing a buffer by its name.
constexpr uint32_t kConfigAbilities = 12;

// The driver's number of the module HCCL, to whose account its memory of the device goes.
constexpr unsigned long long kModuleCollectives = 3;

// HcclSendRecvItem: one message of a batch.
constexpr int kSend = 0;
constexpr int kReceive = 1;
struct BatchItem {
    int direction;
    void* data;
    uint64_t count;
    int type;
    uint32_t peer;
};
static_assert(sizeof(BatchItem) == 32);

}  // namespace virtual_npu

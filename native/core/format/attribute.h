// Attributes: facts about an event that its record has no field for. They are pairs of key and value. Each distinct set
// is defined once.
#pragma once

#include <cstdint>

namespace msmemscope::format {

// The key of an attribute. Values are part of the file format: never renumber, only append. FORMAT.md says what each
// key means and where it occurs. Names and types for people are in src/msmemscope/model/attributes.py.
enum class AttributeKey : std::uint16_t {
    // Allocations of a driver.
    kModule = 1,
    kPageType = 2,
    kAllocationKind = 3,
    kIsPinned = 4,
    // Failures, and the state of a device.
    kFunction = 10,
    kRequestedBytes = 11,
    kAllocationFlag = 12,
    kReservedBytes = 13,
    kMaxReservedBytes = 14,
    kAllocatedBytes = 15,
    kMaxAllocatedBytes = 16,
    kTotalBytes = 17,
    kFreeBytes = 18,
    kDeviceRate = 19,
    kReservedRate = 20,
    kLimit = 21,
    kLimitBytes = 22,
    kLimitUsedBytes = 23,
    // Tensors and operators.
    kDtype = 30,
    kFormat = 31,
    kShape = 32,
    kPath = 33,
    kWorkspaceAddress = 34,
    kWorkspaceBytes = 35,
    kStreamId = 40,
    kPoolId = 41,
    // IMPLIED_STEP: what ended.
    kStepSource = 42,
    // Watched memory.
    kWatch = 50,
    kWatchId = 51,
    kOutput = 52,
    kContent = 53,
    kReason = 54,
    kWhen = 55,
    kOperator = 56,
    kCall = 57,
    kSource = 58,
    kPrevious = 59,
    kPreviousCall = 60,
    kIsExact = 61,
    kIsBeside = 62,
    kConcurrent = 63,
    kWriter = 64,
    kWriterCall = 65,
    kBefore = 66,
    kAfter = 67,
    kChangedBytes = 68,
    kFirst = 69,
    kLast = 70,
    kGranularity = 71,
    kRangeFirst = 72,
    kRangeLast = 73,
    kHasMoreRanges = 74,
    kNeighbour = 75,
    kNeighbourAddress = 76,
    kNeighbourSize = 77,
    kNeighbourIsWritten = 78,
    kNeighbourFirst = 79,
    kMoreBlocks = 80,
    kMoreUntil = 81,
    kIsTrained = 82,
    // CONTAINER.
    kContainerType = 90,
    kEntryType = 91,
    kFirstEntries = 92,
    kFirstSequence = 93,
    // HOST_MEMORY; it also has kWhen.
    kPrivateBytes = 94,
    kSharedBytes = 95,
    kGroupBytes = 96,
    kGroupLimit = 97,
    kProportionalBytes = 98,
    kUnrecordedBytes = 99,
    kViewedBytes = 100,
};

enum class ValueKind : std::uint16_t {
    kNumber = 1,
    // The value is a string id.
    kString = 2,
};

struct Attribute {
    AttributeKey key;
    ValueKind kind;
    std::uint32_t reserved;
    std::uint64_t value;
};
static_assert(sizeof(Attribute) == 16);

}  // namespace msmemscope::format

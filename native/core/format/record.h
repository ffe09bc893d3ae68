// The event record: one fixed-size, 64-byte entry of an event segment.
//
// No operating-system or vendor header may be included here: this file is the
// whole contract between the observed process and every reader. FORMAT.md has
// the byte pictures; src/msmemscope/formats/event_log/layout.py is the reader's copy and
// a test compares the two.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msmemscope::format {

// The kind of an event. Values are part of the file format: never renumber, only append.
enum class EventKind : std::uint8_t {
    kNone = 0,
    kMalloc = 1,
    kFree = 2,
    kAccessRead = 3,
    kAccessWrite = 4,
    kAccessUnknown = 5,
    // The memory of a freed block can be handed out again, because the streams that used it have got so far. It is the
    // block that was freed last at this address. The address and size are as the allocator has them, and extra is 0.
    // Not a row of a dump.
    kFreeCompleted = 6,
    // A sample of the host memory of the whole process, and its end (observe/host_samples.h). The size is that of the
    // block, and name is the function that allocated it. The extra of a HOST_SAMPLE is the bytes that it stands for.
    // The extra of a HOST_SAMPLE_FREE is its HOST_SAMPLE, and the size how much of it was in memory. Neither is a row
    // of a dump.
    kHostSample = 7,
    kHostSampleFree = 8,
    // size is how much of the process's resident memory belongs to no file and is not shared. Not a row of a dump.
    kHostMemory = 9,
    kAtenStart = 10,
    kAtenEnd = 11,
    kAtbStart = 12,
    kAtbEnd = 13,
    // A container of the program has grown from look to look. Its size is the number of its entries now. Not a row of a
    // dump.
    kContainer = 14,
    // How much of a block of the host is in memory: size. It is alive, and what its program never touched is not. extra
    // is the sequence of its HOST_SAMPLE or MALLOC. Not a row of a dump.
    kHostResident = 15,
    kKernelLaunch = 20,
    kKernelExecuteStart = 21,
    kKernelExecuteEnd = 22,
    kKernelStart = 23,
    kKernelEnd = 24,
    kMark = 30,
    kRangeStart = 31,
    kRangeEnd = 32,
    // Entries of the caching allocator about itself, in its own order (--events=allocator). The address and size are as
    // the allocator has them. The extra is the stream. Attribute pool_id is the private pool, if it is one. None of
    // these is a row of a dump. In this kind and the next two, size is the bytes asked for.
    kAllocatorAlloc = 33,
    kAllocatorFree = 34,
    kAllocatorFreeCompleted = 35,
    kSegmentAlloc = 36,
    kSegmentFree = 37,
    // Pieces of an expandable segment.
    kSegmentMap = 38,
    kSegmentUnmap = 39,
    kAclInit = 40,
    kAclFini = 41,
    kStartTrace = 42,
    kStopTrace = 43,
    kStep = 44,
    // A step seems to have ended: an optimizer stepped, or the outermost module's forward ended (attribute
    // step_source). Nobody said so. If the program itself says when steps end, that counts instead. Not a row of a
    // dump.
    kImpliedStep = 45,
    // Likewise: an allocation that failed, size the bytes asked for, address the bytes that were free on the device.
    kAllocatorOom = 46,
    // The program begins to empty the allocator's cache.
    kCacheEmptied = 47,
    // A setting of the allocator, name as the program gave it: max_split_size_mb:128, memory_fraction:0.5.
    kAllocatorSetting = 48,
    kSnapshot = 50,
    // How much a pool holds of the driver's memory on a device, in use or not. Not a row of a dump: memory events
    // of the pool that follow show it as their total.
    kReserved = 51,
    // Figures of the management interface about a device. The size is the bytes in use on it by anybody, and extra the
    // bytes that this process uses. A figure of -1 is not known. On the device cpu only this process's resident memory
    // is known. Not a row of a dump either.
    kDeviceUsage = 52,
    // A label was given to a block that is alive: to its owner, whatever allocated it. Not a row of a dump; the
    // block's MALLOC shows it.
    kOwner = 53,
    // An allocation failed for lack of memory.
    kOom = 54,
    // Watched memory changed: see FORMAT.md, "Watched memory". None of these three is a row of a dump.
    kWatch = 55,
    // Watching a piece of memory began, and ended.
    kWatchStart = 56,
    kWatchStop = 57,
    // A block is alive, and a part of the program refers to it. The name is the chain of references. Not a row of a
    // dump.
    kHolder = 58,
    kFunctionCall = 60,
    // MAPPED: physical memory of a driver was mapped at an address. Its extra is the MALLOC of the physical memory.
    // UNMAPPED: the mapping at an address is gone. Neither is a row of a dump.
    kMapped = 61,
    kUnmapped = 62,
    // The bytes that were asked for of a block. The block's own size is what its allocator made of them. Not a row of a
    // dump.
    kRequested = 63,
};

// Which allocator the bytes belong to. Events that are not about memory have kNone. kHal on the device cpu is pinned
// memory of the host. Dumps show it as HOST. kHost is CPU tensors.
enum class Pool : std::uint8_t {
    kNone = 0,
    kHal = 1,
    kHost = 2,
    kPta = 3,
    kPtaWorkspace = 4,
    kAtb = 5,
    kMindSpore = 6,
    // The caching allocator of PyTorch on CUDA devices.
    kCuda = 7,
};

// Bits of Record::flags.
enum RecordFlag : std::uint8_t {
    // MALLOC: the block was allocated while nothing was collected; the record
    // says that it existed when collection began. FREE: the block was recorded,
    // and freed while nothing was collected. Written as "shadow" in dumps.
    // SEGMENT_*, ALLOCATOR_*: what the allocator held when its recording began.
    kFlagShadow = 1U << 0U,
    // FUNCTION_CALL: the call was already running when tracing began, so
    // timestamp_ns is unknown (0).
    kFlagStartUnknown = 1U << 1U,
    // FUNCTION_CALL: the call had not returned when tracing ended, so
    // extra (the end) is unknown (0).
    kFlagEndUnknown = 1U << 2U,
    // MALLOC, FREE, ACCESS_*, ATEN_*: during an operator of a backward pass.
    kFlagBackward = 1U << 3U,
    // WATCH: by its schema and arguments, an operator that ran may write this memory.
    kFlagMayWrite = 1U << 4U,
    // WATCH: what the operator may write is not known (kernels; memory that changed between operators).
    kFlagWritesUnknown = 1U << 5U,
    // Beside kFlagBackward: with gradients on, as where a checkpoint runs its forward pass again.
    kFlagRecomputed = 1U << 6U,
    // FREE: by Python's garbage collector, which had begun by itself.
    kFlagCollected = 1U << 7U,
};

// A device: its kind and its index as one number, kind * kDevicesPerKind + index. Values of kinds are part of the file
// format.
using Device = std::int16_t;
enum class DeviceKind : std::uint8_t { kNpu = 0, kCuda = 1, kXpu = 2, kMps = 3 };
inline constexpr int kDeviceKinds = 4;
// As settings, facts and reports write them, by the number of the kind.
inline constexpr const char* kDeviceKindWords[kDeviceKinds] = {"npu", "cuda", "xpu", "mps"};
inline constexpr int kDevicesPerKind = 1024;
inline constexpr Device kDeviceNone = -1;
inline constexpr Device kDeviceCpu = -2;

// kDeviceNone for an index that no device has.
constexpr Device device_of(DeviceKind kind, int index) noexcept {
    return index >= 0 && index < kDevicesPerKind ? static_cast<Device>(static_cast<int>(kind) * kDevicesPerKind + index)
                                                 : kDeviceNone;
}
constexpr bool is_of_kind(Device device, DeviceKind kind) noexcept {
    return device >= 0 && device / kDevicesPerKind == static_cast<int>(kind);
}
// The allocator that PyTorch's tensors on a device are from.
constexpr Pool pool_of_tensors(Device device) noexcept {
    return device == kDeviceCpu ? Pool::kHost : is_of_kind(device, DeviceKind::kCuda) ? Pool::kCuda : Pool::kPta;
}
constexpr int index_of(Device device) noexcept { return device < 0 ? -1 : device % kDevicesPerKind; }

// One event. All integers are in the byte order of the process that wrote them;
// ProcessHeader::byte_order_mark tells which that is.
struct Record {
    // Process-wide, unique, from 1: the ID column and the total order. Stored
    // last, with release order: 0 means "not committed", whatever the rest holds.
    std::uint64_t sequence;
    // CLOCK_REALTIME at the event. FUNCTION_CALL, KERNEL_LAUNCH: when the call
    // began. KERNEL_EXECUTE_*: what the device's clock said.
    std::uint64_t timestamp_ns;
    // - MALLOC, FREE, ACCESS, OWNER, WATCH*, HOLDER, MAPPED, UNMAPPED, REQUESTED, HOST_SAMPLE*: first byte concerned.
    // - CONTAINER: of the object.
    // - FREE_COMPLETED, ALLOCATOR_*, SEGMENT_*: as the allocator has it. ALLOCATOR_OOM: bytes that were free on the
    //   device.
    // - STEP, IMPLIED_STEP, HOST_MEMORY: bytes that the C library's allocator keeps though they are free, at least 1.
    //   It is 0 if nobody asked.
    // - Others: 0.
    std::uint64_t address;
    // - MALLOC, OWNER, HOLDER, HOST_SAMPLE*: bytes of the block.
    // - FREE: bytes of the block freed (positive; 0 if the block was never seen).
    // - ACCESS: bytes of the tensor. WATCH*: bytes watched. MAPPED: bytes mapped.
    // - OOM, REQUESTED: bytes asked for. FREE_COMPLETED, ALLOCATOR_*, SEGMENT_*: as the allocator has it.
    // - STEP: the step that ended. IMPLIED_STEP: how many of this source have ended.
    // - RESERVED: bytes the pool holds. DEVICE_USAGE: bytes in use. HOST_MEMORY: bytes.
    // - CONTAINER: number of its entries, or of the objects of a class.
    // - Others: 0.
    std::int64_t size;
    // Linux thread id in the lower 24 bits (the kernel gives no more than 22), above them the high byte of the device.
    std::uint32_t thread_and_device;
    std::uint8_t device_low;
    EventKind kind;
    Pool pool;
    std::uint8_t flags;
    // String id. MALLOC, FREE: the outermost operator running on this thread,
    // or 0. FUNCTION_CALL: what was called, if it is not Python code. OOM: the
    // function that failed. WATCH*: what the user calls the memory, 0 where nobody chose it (automatic).
    // HOLDER, CONTAINER: the chain of references. HOST_SAMPLE: the function that allocated.
    std::uint32_t name_id;
    // Attribute id, or 0. MALLOC: what the allocator says of the block. ACCESS: dtype and shape. OWNER: string id of
    // labels. FUNCTION_CALL: see extra.
    std::uint32_t attribute_id;
    // Stack ids, 0 where no stack was taken.
    std::uint32_t python_stack_id;
    std::uint32_t native_stack_id;
    // The meaning of extra by kind. The sequence of a MALLOC is 0 if no such block is known.
    // - FREE, ACCESS, OWNER, WATCH*, HOLDER, MAPPED, REQUESTED: sequence of the block's MALLOC.
    // - ALLOCATOR_*, SEGMENT_*: the stream.
    // - FUNCTION_CALL: CLOCK_REALTIME at the return. A call of Python code has the code id in attribute_id.
    // - KERNEL_*: stream id << 32 | task id.
    // - RANGE_*: range id. MARK and RANGE_START have the stream id among the attributes.
    // - STEP, IMPLIED_STEP: bytes of this process's resident memory that belong to no file, 0 if nobody asked.
    // - DEVICE_USAGE: bytes in use by this process. In both of its fields all ones say that the figure is not known.
    // - MALLOC: string id of the labels in force.
    // - HOST_SAMPLE: bytes that it stands for. HOST_SAMPLE_FREE: sequence of its HOST_SAMPLE.
    // - HOST_RESIDENT: sequence of the block's HOST_SAMPLE or MALLOC.
    // - HOST_MEMORY: bytes of resident memory that has a file or is shared.
    // - CONTAINER: bytes of it and of its entries, an estimate.
    // - OOM: how many of the latest and how many of the largest blocks a dump is to show. Twice as many sequence
    //   numbers behind the OOM are left free for them.
    std::uint64_t extra;
};

static_assert(sizeof(Record) == 64, "a record is one cache line");
static_assert(offsetof(Record, thread_and_device) == 32);
static_assert(offsetof(Record, device_low) == 36);
static_assert(offsetof(Record, name_id) == 40);
static_assert(offsetof(Record, extra) == 56);

constexpr std::uint32_t thread_of(const Record& record) noexcept { return record.thread_and_device & 0xFFFFFFU; }
constexpr Device device_of(const Record& record) noexcept {
    return static_cast<Device>(record.thread_and_device >> 24U << 8U | record.device_low);
}

}  // namespace msmemscope::format

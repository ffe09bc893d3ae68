// Memory pools of frameworks, as they report themselves through mstx domains.
//
// The meaning of a heap and a region depends on the domain. In those of torch_npu and MindSpore, a "heap" says how many
// bytes their pool has reserved on a device. They register a region for each block in use. ATB registers real heaps and
// wants handles for them and for its regions.
//
// A call of torch_npu comes while it holds its allocator's lock. So nothing here waits for another thread or takes the
// GIL.
#pragma once

#include <cstdint>

#include "core/format/record.h"
#include "core/writer/recorder.h"
#include "sources/ascend/mstx/protocol.h"

namespace msmemscope::mstx {

// The same handle for the same name each time; null for domains that are no pools.
void* create_domain(const char* name);

void* register_heap(void* domain, const HeapDescription* description);
void unregister_heap(void* domain, void* heap);
void register_regions(void* domain, const RegionsRegisterBatch* batch);
void unregister_regions(void* domain, const RegionsUnregisterBatch* batch);

// Whether somebody has asked for the domain of a pool. torch_npu asks once, for its first block.
#pragma GCC visibility push(default)
bool is_domain_known(format::Pool pool) noexcept;
#pragma GCC visibility pop

// The same for a pool that says nothing through mstx, told by somebody else. device: the driver's number.
void set_reserved(format::Pool pool, int device, std::int64_t bytes) noexcept;
void add_reserved(format::Pool pool, int device, std::int64_t bytes) noexcept;

// Writes the bytes that pools have reserved on each device. It leaves out a device if the bytes are 0 and were not
// written before in this log.
void record_reserved_again(const RecordingScope& scope) noexcept;

// The bytes that a pool last said it holds on a device. device: the driver's number. False if nobody has such a pool.
bool reserved_bytes(format::Pool pool, int device, std::uint64_t& bytes) noexcept;

}  // namespace msmemscope::mstx

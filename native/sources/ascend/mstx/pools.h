// Memory pools of frameworks, as they report themselves through mstx domains.
//
// What a heap and a region are depends on the domain. torch_npu and MindSpore register a "heap" to say how many
// bytes their pool has reserved on a device, and a region for each block in use. ATB registers real heaps and wants
// handles for them and for its regions.
//
// torch_npu calls while it holds its allocator's lock: nothing here waits for another thread or takes the GIL.
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

// Writes what pools have reserved, of all devices of which that was written before or is anything.
void record_reserved_again(const RecordingScope& scope) noexcept;

// What a pool holds on a device, as last told; device is the driver's number. False if nobody has such a pool.
bool reserved_bytes(format::Pool pool, int device, std::uint64_t& bytes) noexcept;

}  // namespace msmemscope::mstx

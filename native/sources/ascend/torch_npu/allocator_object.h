// torch_npu's caching allocator, recognised: an object of a class whose layout is no promise for later versions.
#pragma once

namespace msmemscope::allocator_trace {

// Its first word points to its virtual functions.
using AllocatorObject = void** const*;

// Finds it in the loaded libtorch_npu.so. version: of torch_npu. Returns why it is not the one that we know; null if it
// is.
const char* find_allocator(const char* version, AllocatorObject& allocator) noexcept;

// The virtual function that attaches a trace tracker.
void* attach_function(AllocatorObject allocator) noexcept;

}  // namespace msmemscope::allocator_trace

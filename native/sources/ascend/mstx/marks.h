// Marks and ranges: what a program says about its own course.
#pragma once

#include <cstdint>

namespace msmemscope::mstx {

// As mstx calls them. stream: of the runtime, may be null. The message may be null too.
void mark(const char* message, void* stream);
// Returns the range's number, counted from 1 over all threads. A range whose message is "step start" is a step.
std::uint64_t range_start(const char* message, void* stream);
void range_end(std::uint64_t range);
void get_tool_id(std::uint64_t* tool);

// With a domain: ours are pools and have no marks; null is the global domain.
void domain_mark(void* domain, const char* message, void* stream);
std::uint64_t domain_range_start(void* domain, const char* message, void* stream);
void domain_range_end(void* domain, std::uint64_t range);

}  // namespace msmemscope::mstx

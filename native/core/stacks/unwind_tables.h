// Where the unwind tables of a function are: its frame description entry (FDE) in .eh_frame of the library it is in.
//
// The C library knows the library of an address since glibc 2.35 and says it without a lock. That function is looked up
// when the process runs, so that we need no newer C library than the program has; where it is missing, the list of
// loaded libraries is walked under the loader's lock, once for each library: the last ones are remembered.
#pragma once

#include <cstdint>

namespace msmemscope {

// The tables of a function; description is null where there are none.
struct FunctionTables {
    const unsigned char* description = nullptr;
    std::uint64_t function = 0;  // its first address
};

// glibc's _dl_find_object, or null where the C library has none: the list of loaded libraries is walked then, and until
// this has been called.
void set_loader_search(void* dl_find_object) noexcept;

// The tables of the function that an address is in.
FunctionTables find_function_tables(std::uint64_t address) noexcept;

// The same, given the library's index of its tables (.eh_frame_hdr).
FunctionTables search_index(const unsigned char* index, std::uint64_t address) noexcept;

}  // namespace msmemscope

// Where the unwind tables of a function are: its frame description entry (FDE) in .eh_frame of the library it is in.
//
// Since glibc 2.35 the C library finds the library of an address without a lock. We look that function up at run time,
// so we need no newer C library than the program has. If it is missing, we walk the list of loaded libraries under the
// loader's lock. The last libraries are remembered, so each needs one walk.
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

// The file of the library that an address is in: empty of the program's own, null where it is not known.
const char* find_library(const void* address) noexcept;

// The same as find_function_tables, given the library's index of its tables (.eh_frame_hdr).
FunctionTables search_index(const unsigned char* index, std::uint64_t address) noexcept;

}  // namespace msmemscope

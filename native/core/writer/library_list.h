// The loader's list of loaded libraries, walked so that no fork comes in between.
//
// A walk holds a lock of the loader (dl_iterate_phdr). The C library does not give it back in a forked child. If
// another thread walked at that moment, the child would wait for ever in its next walk, or in its next dlopen. So a
// fork waits until nobody walks, and nobody begins to walk meanwhile.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

namespace msmemscope {

// Whoever comes while a fork is under way: waits for its end, or does not walk.
enum class DuringFork { kWait, kGiveUp };

// As dl_iterate_phdr. False if the list was not walked.
bool walk_libraries(int (*look)(dl_phdr_info*, std::size_t, void*), void* argument, DuringFork during_fork) noexcept;

// How many walks were given up so far: whoever sees another number behind its work may have missed a library.
std::uint64_t walks_given_up() noexcept;

// To be called once. False if the C library has no room to remember it.
bool keep_forks_out_of_walks() noexcept;

}  // namespace msmemscope

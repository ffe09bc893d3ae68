// What containers take from libstdc++ since GCC 11, for programs whose libstdc++ is that of GCC 8.
#include <new>

namespace std {

// NOLINTNEXTLINE(bugprone-reserved-identifier)
[[noreturn]] __attribute__((visibility("hidden"))) void __throw_bad_array_new_length() { throw bad_array_new_length(); }

}  // namespace std

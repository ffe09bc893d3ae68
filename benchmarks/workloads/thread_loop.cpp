// Blocks that are allocated and freed as PyTorch's CPU allocator does it, as fast as can be: built as libc10.so, whose
// calls of posix_memalign and free are observed.
#include <cstddef>
#include <cstdlib>

extern "C" void allocate_and_free(std::size_t pairs) {
    for (std::size_t number = 0; number < pairs; ++number) {
        void* block = nullptr;
        if (posix_memalign(&block, 64, 64 * (1 + number % 31)) == 0) {
            free(block);
        }
    }
}

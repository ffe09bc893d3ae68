// Blocks of 64 bytes that are allocated and freed as any library does it, as fast as can be.
#include <cstddef>
#include <cstdlib>

extern "C" void allocate_and_free(std::size_t pairs) {
    for (std::size_t number = 0; number < pairs; ++number) {
        void* volatile block = malloc(64);
        free(block);
    }
}

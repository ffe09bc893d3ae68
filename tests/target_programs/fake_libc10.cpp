// A stand-in for PyTorch's libc10.so: the file name, and calls of posix_memalign and free through the PLT, as the CPU
// allocator makes them. Nothing else of this file matters to the observer.
#include <cstddef>
#include <cstdlib>

extern "C" {

__attribute__((noinline)) void* fake_tensor_allocate(std::size_t bytes) {
    void* block = nullptr;
    if (posix_memalign(&block, 64, bytes) != 0) {
        return nullptr;
    }
    return block;
}

__attribute__((noinline)) void fake_tensor_free(void* block) {
    // NOLINTNEXTLINE: the call is the point.
    free(block);
}
}

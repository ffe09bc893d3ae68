/* A stand-in for libc10 that takes the loader a while: many addresses to relocate, in pages that it makes read-only
 * when it is done, and the entries of the allocator among them. */
#include <stdlib.h>

__asm__(
    ".section .data.rel.ro, \"aw\"\n"
    ".rept 300000\n"
    ".quad .text\n"
    ".endr\n"
    ".text\n");

void* fake_tensor_allocate(size_t bytes) {
    void* block = NULL;
    return posix_memalign(&block, 64, bytes) == 0 ? block : NULL;
}

void fake_tensor_free(void* block) { free(block); }

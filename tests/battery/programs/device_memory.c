/* The allocator of target.h on an NPU, in the place of libc10: the programs of this folder then use device memory. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int aclrtSetDevice(int32_t device);
int aclrtMalloc(void** block, size_t bytes, int policy);
int aclrtFree(void* block);

void* fake_tensor_allocate(size_t bytes) {
    static __thread int is_set;
    void* block = NULL;
    if (!is_set) {
        is_set = aclrtSetDevice(0) == 0;
    }
    return aclrtMalloc(&block, bytes, 0) == 0 ? block : NULL;
}

void fake_tensor_free(void* block) {
    if (block != NULL && aclrtFree(block) != 0) {
        abort();
    }
}

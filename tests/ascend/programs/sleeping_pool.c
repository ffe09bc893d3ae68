/* A library with an allocator for a memory pool of torch_npu whose memory can sleep: its blocks keep their addresses, and the
   memory behind them goes back to the driver. Blocks allocated while sleep_persistent is set stay as they are. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

typedef struct {
    int32_t handle_type, allocation_type, memory_attribute;
    uint32_t device;
    int32_t location_type;
    uint64_t reserved;
} properties_t;

int aclrtReserveMemAddress(void** pointer, size_t bytes, size_t alignment, void* hint, uint64_t flags);
int aclrtReleaseMemAddress(void* pointer);
int aclrtMallocPhysical(void** handle, size_t bytes, const properties_t* properties, uint64_t flags);
int aclrtFreePhysical(void* handle);
int aclrtMapMem(void* pointer, size_t bytes, size_t offset, void* handle, uint64_t flags);
int aclrtUnmapMem(void* pointer);

enum { kMostPieces = 64 };
static const size_t kGranularity = (size_t)2 << 20;

typedef struct {
    void* pointer;
    void* handle;
    size_t bytes;
    int device;
    int is_persistent;
} piece_t;

static piece_t pieces[kMostPieces];
static int count;
int sleep_persistent;

static void require(int is_met) {
    if (!is_met) abort();
}

static void take(piece_t* piece) {
    properties_t properties = {0};
    properties.device = (uint32_t)piece->device;
    properties.location_type = 1;
    require(aclrtMallocPhysical(&piece->handle, piece->bytes, &properties, 0) == 0);
    require(aclrtMapMem(piece->pointer, piece->bytes, 0, piece->handle, 0) == 0);
}

static void give_back(piece_t* piece) {
    require(aclrtUnmapMem(piece->pointer) == 0);
    require(aclrtFreePhysical(piece->handle) == 0);
    piece->handle = NULL;
}

void* my_malloc(ssize_t size, int device, void* stream) {
    (void)stream;
    require(count < kMostPieces);
    piece_t* const piece = &pieces[count++];
    piece->bytes = ((size_t)size + kGranularity - 1) / kGranularity * kGranularity;
    piece->device = device;
    piece->is_persistent = sleep_persistent;
    require(aclrtReserveMemAddress(&piece->pointer, piece->bytes, 0, NULL, 0) == 0);
    take(piece);
    return piece->pointer;
}

void my_free(void* pointer, ssize_t size, int device, void* stream) {
    (void)size, (void)device, (void)stream;
    for (int place = 0; place < count; ++place) {
        if (pieces[place].pointer == pointer) {
            if (pieces[place].handle != NULL) give_back(&pieces[place]);
            require(aclrtReleaseMemAddress(pointer) == 0);
            pieces[place] = pieces[--count];
            return;
        }
    }
}

void pool_sleep(void) {
    for (int place = 0; place < count; ++place) {
        if (!pieces[place].is_persistent) give_back(&pieces[place]);
    }
}

void pool_wake(void) {
    for (int place = 0; place < count; ++place) {
        if (pieces[place].handle == NULL) take(&pieces[place]);
    }
}

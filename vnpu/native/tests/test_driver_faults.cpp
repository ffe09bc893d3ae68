// The third allocation fails; and a device that says 4 GiB gives 1 GiB.
#include "check.h"
#include "driver.h"

namespace {

constexpr uint64_t kGib = uint64_t{1} << 30;

drvError_t allocate(uint64_t bytes, void** block) {
    return halMemAlloc(block, bytes, virtual_npu::kKindDevice << virtual_npu::kFlagKindShift);
}

}  // namespace

int main() {
    void* blocks[4] = {};
    CHECK_EQUAL(allocate(100, &blocks[0]), DRV_ERROR_NONE);
    CHECK_EQUAL(allocate(100, &blocks[1]), DRV_ERROR_NONE);
    CHECK_EQUAL(allocate(100, &blocks[2]), DRV_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(allocate(100, &blocks[2]), DRV_ERROR_NONE);
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    virtual_npu_device_memory(0, &free_bytes, &total_bytes);
    CHECK_EQUAL(total_bytes, 4 * kGib);
    CHECK_EQUAL(free_bytes, 4 * kGib - 300);
    CHECK_EQUAL(allocate(kGib, &blocks[3]), DRV_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(allocate(kGib - 300, &blocks[3]), DRV_ERROR_NONE);
    for (void* block : blocks) CHECK_EQUAL(halMemFree(block), DRV_ERROR_NONE);
    return 0;
}

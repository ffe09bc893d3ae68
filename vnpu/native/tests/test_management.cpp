// The management interface, and devices that a program sees under other numbers than the driver.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <thread>

#include "check.h"
#include "driver.h"

extern "C" {
int aclrtGetDeviceCount(uint32_t*);
int aclrtSetDevice(int32_t);
int aclrtGetMemInfo(int, size_t*, size_t*);
int aclrtGetDevice(int32_t*);
int aclrtMallocAlign32(void**, size_t, uint32_t);
int aclrtFree(void*);
int dcmi_init();
int dcmi_get_card_list(int*, int*, int);
int dcmi_get_device_num_in_card(int, int*);
int dcmi_get_device_logic_id(int*, int, int);
int dcmi_get_device_hbm_info(int, int, void*);
int dcmi_get_npu_proc_mem_info(int, int, void*, int*);
}

namespace {

constexpr uint64_t kMib = uint64_t{1} << 20;

struct Hbm {
    uint64_t memory_size;
    uint32_t frequency;
    uint64_t memory_usage;
    int32_t temperature;
    uint32_t bandwidth_utilization;
};

struct Process {
    int32_t process_id;
    unsigned long usage;
};

void cards() {
    int count = 0;
    int cards[32] = {};
    int number = -1;
    CHECK_EQUAL(dcmi_init(), 0);
    CHECK_EQUAL(dcmi_get_card_list(&count, cards, 32), 0);
    CHECK_EQUAL(count, 2);
    CHECK_EQUAL(cards[1], 1);
    CHECK_EQUAL(dcmi_get_device_num_in_card(1, &count), 0);
    CHECK_EQUAL(count, 1);
    CHECK_EQUAL(dcmi_get_device_logic_id(&number, 1, 0), 0);
    CHECK_EQUAL(number, 1);
    CHECK(dcmi_get_device_logic_id(&number, 1, 1) != 0);
    CHECK(dcmi_get_device_num_in_card(2, &count) != 0);
}

uint64_t used_mib(int card) {
    Hbm information{};
    CHECK_EQUAL(dcmi_get_device_hbm_info(card, 0, &information), 0);
    CHECK_EQUAL(information.memory_size, uint64_t{4096});
    return information.memory_usage;
}

void usage() {
    uint32_t devices = 0;
    void* block = nullptr;
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    Process processes[64] = {};
    int count = -1;
    CHECK_EQUAL(aclrtGetDeviceCount(&devices), 0);
    CHECK_EQUAL(devices, 2u);
    CHECK_EQUAL(dcmi_get_npu_proc_mem_info(1, 0, processes, &count), 0);
    CHECK_EQUAL(count, 0);

    CHECK_EQUAL(aclrtSetDevice(2), 107001);
    CHECK_EQUAL(aclrtSetDevice(0), 0);  // ASCEND_RT_VISIBLE_DEVICES=1,0
    CHECK_EQUAL(aclrtMallocAlign32(&block, 3 * kMib + 1, 0), 0);
    // A thread that has set no device is told of the first visible one, which stays unset.
    std::thread([] {
        size_t free_there = 0;
        size_t total_there = 0;
        int32_t device = -1;
        CHECK_EQUAL(aclrtGetMemInfo(0, &free_there, &total_there), 0);
        CHECK_EQUAL(total_there - free_there, 3 * kMib + 1);
        CHECK_EQUAL(aclrtGetDevice(&device), 107002);
    }).join();
    CHECK_EQUAL(aclrtGetMemInfo(0, &free_bytes, &total_bytes), 0);
    CHECK_EQUAL(total_bytes - free_bytes, 3 * kMib + 1);
    CHECK_EQUAL(used_mib(1), uint64_t{4});
    CHECK_EQUAL(used_mib(0), uint64_t{0});
    CHECK_EQUAL(dcmi_get_npu_proc_mem_info(1, 0, processes, &count), 0);
    CHECK_EQUAL(count, 1);
    CHECK_EQUAL(processes[0].process_id, getpid());
    CHECK_EQUAL(processes[0].usage, 3 * kMib + 1);
    CHECK_EQUAL(aclrtFree(block), 0);
    CHECK_EQUAL(used_mib(1), uint64_t{0});
}

}  // namespace

int main() {
    cards();
    usage();
    return 0;
}

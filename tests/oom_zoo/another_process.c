// Another process on the first device of the virtual NPU: preloaded, it takes memory of the device that the observed
// process's functions never asked for, and the management interface tells of it as of another process.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static const uint64_t kMib = 1 << 20;
static const unsigned long long kOnDevice = 1ULL << 10;  // kind of memory in the driver's flag
static uint64_t taken_bytes = 0;

struct hbm_information {
    uint64_t memory_size;
    uint32_t frequency;
    uint64_t memory_usage;
    int32_t temperature;
    uint32_t bandwidth_utilization;
};

struct process_memory {
    int32_t process_id;
    unsigned long usage;
};

static void* driver_function(const char* name) { return dlsym(dlopen("libascend_hal.so", RTLD_LAZY), name); }

static void device_memory(size_t* free_bytes, size_t* total_bytes) {
    void (*real)(uint32_t, size_t*, size_t*) = NULL;
    *(void**)&real = driver_function("virtual_npu_device_memory");
    real(0, free_bytes, total_bytes);
}

int another_process_takes(int mebibytes) {
    int (*allocate)(void**, unsigned long long, unsigned long long) = NULL;
    void* place = NULL;
    // The driver's inner function: what observers of a process hook is not called.
    *(void**)&allocate = driver_function("halMemAllocInner");
    const int status = allocate(&place, (uint64_t)mebibytes * kMib, kOnDevice);
    if (status == 0) taken_bytes += (uint64_t)mebibytes * kMib;
    return status;
}

int dcmi_init(void) { return 0; }

int dcmi_get_card_list(int* count, int* cards, int room) {
    (void)room;
    *count = 1;
    cards[0] = 0;
    return 0;
}

int dcmi_get_device_num_in_card(int card, int* count) {
    (void)card;
    *count = 1;
    return 0;
}

int dcmi_get_device_logic_id(int* number, int card, int device) {
    (void)device;
    *number = card;
    return 0;
}

int dcmi_get_device_hbm_info(int card, int device, struct hbm_information* information) {
    size_t free_bytes = 0, total_bytes = 0;
    (void)card;
    (void)device;
    device_memory(&free_bytes, &total_bytes);
    memset(information, 0, sizeof(*information));
    information->memory_size = total_bytes / kMib;
    information->memory_usage = (total_bytes - free_bytes + kMib - 1) / kMib;
    return 0;
}

int dcmi_get_npu_proc_mem_info(int card, int device, struct process_memory* processes, int* count) {
    size_t free_bytes = 0, total_bytes = 0;
    (void)card;
    (void)device;
    device_memory(&free_bytes, &total_bytes);
    processes[0] = (struct process_memory){getppid(), taken_bytes};
    processes[1] = (struct process_memory){getpid(), total_bytes - free_bytes - taken_bytes};
    *count = 2;
    return 0;
}

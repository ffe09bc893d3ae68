// Pretends that another process uses every device of the virtual NPU. It is preloaded, and adds OTHER_PROCESS_MIB to
// the bytes in use that the driver and the management interface report. The setting memory-limit takes the same memory
// away.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint64_t kMib = 1 << 20;

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

static uint64_t other_bytes(void) {
    const char* const text = getenv("OTHER_PROCESS_MIB");
    return text != NULL ? strtoull(text, NULL, 10) * kMib : 0;
}

static void own_memory(uint32_t device, size_t* free_bytes, size_t* total_bytes) {
    static void (*real)(uint32_t, size_t*, size_t*) = NULL;
    *free_bytes = *total_bytes = 0;
    if (real == NULL) {
        *(void**)&real = dlsym(RTLD_NEXT, "virtual_npu_device_memory");
    }
    if (real == NULL) {
        *(void**)&real = dlsym(dlopen("libascend_hal.so", RTLD_LAZY), "virtual_npu_device_memory");
    }
    real(device, free_bytes, total_bytes);
}

// The runtime takes its own figures from here.
void virtual_npu_device_memory(uint32_t device, size_t* free_bytes, size_t* total_bytes) {
    own_memory(device, free_bytes, total_bytes);
    *free_bytes -= *free_bytes < other_bytes() ? *free_bytes : other_bytes();
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
    size_t free_bytes, total_bytes;
    (void)device;
    virtual_npu_device_memory((uint32_t)card, &free_bytes, &total_bytes);
    memset(information, 0, sizeof(*information));
    information->memory_size = total_bytes / kMib;
    information->memory_usage = (total_bytes - free_bytes + kMib - 1) / kMib;
    return 0;
}

int dcmi_get_npu_proc_mem_info(int card, int device, struct process_memory* processes, int* count) {
    size_t free_bytes, total_bytes;
    (void)device;
    own_memory((uint32_t)card, &free_bytes, &total_bytes);
    processes[0] = (struct process_memory){getppid(), other_bytes()};
    processes[1] = (struct process_memory){getpid(), total_bytes - free_bytes};
    *count = 2;
    return 0;
}

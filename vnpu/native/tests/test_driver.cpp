// The driver: blocks, accounts, physical memory and its addresses, and many threads at once.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "addresses.h"
#include "check.h"
#include "driver.h"

namespace {

constexpr uint64_t kMib = uint64_t{1} << 20;
constexpr uint64_t kTotal = uint64_t{4} << 30;

unsigned long long flag_of(unsigned device, unsigned module = 33) {
    return device | (virtual_npu::kKindDevice << virtual_npu::kFlagKindShift) |
           (static_cast<unsigned long long>(module) << virtual_npu::kFlagModuleShift);
}

size_t free_of(uint32_t device) {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    virtual_npu_device_memory(device, &free_bytes, &total_bytes);
    CHECK_EQUAL(total_bytes, kTotal);
    return free_bytes;
}

void blocks() {
    void* block = nullptr;
    CHECK_EQUAL(halMemAlloc(&block, 3 * kMib + 1, flag_of(0)), DRV_ERROR_NONE);
    CHECK(reinterpret_cast<uintptr_t>(block) % (2 * kMib) == 0);
    CHECK_EQUAL(free_of(0), kTotal - 3 * kMib - 1);
    CHECK_EQUAL(free_of(1), kTotal);
    std::memset(block, 1, 3 * kMib + 1);
    uint64_t current = 0;
    uint64_t peak = 0;
    virtual_npu_module_memory(0, 33, &current, &peak);
    CHECK_EQUAL(current, 3 * kMib + 1);
    CHECK_EQUAL(halMemFree(block), DRV_ERROR_NONE);
    virtual_npu_module_memory(0, 33, &current, &peak);
    CHECK_EQUAL(current, uint64_t{0});
    CHECK_EQUAL(peak, 3 * kMib + 1);
    CHECK_EQUAL(free_of(0), kTotal);

    CHECK_EQUAL(halMemFree(block), DRV_ERROR_INVALID_VALUE);
    CHECK_EQUAL(halMemAlloc(&block, 0, flag_of(0)), DRV_ERROR_INVALID_VALUE);
    CHECK_EQUAL(halMemAlloc(nullptr, 1, flag_of(0)), DRV_ERROR_INVALID_VALUE);
    CHECK_EQUAL(halMemAlloc(&block, 1, flag_of(2)), DRV_ERROR_INVALID_VALUE);
    CHECK_EQUAL(halMemAlloc(&block, UINT64_MAX, flag_of(0)), DRV_ERROR_INVALID_VALUE);
    CHECK_EQUAL(halMemAlloc(&block, kTotal + 1, flag_of(0)), DRV_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(free_of(0), kTotal);

    // Memory of the host is not the device's.
    CHECK_EQUAL(halMemAlloc(&block, 5 * kMib, virtual_npu::kKindHost << virtual_npu::kFlagKindShift), DRV_ERROR_NONE);
    CHECK_EQUAL(free_of(0), kTotal);
    CHECK_EQUAL(halMemFree(block), DRV_ERROR_NONE);
}

// Memory lies at the lowest addresses that are free and large enough; a reservation is no different.
void addresses() {
    const auto allocated = [](uint64_t bytes) {
        void* block = nullptr;
        CHECK_EQUAL(halMemAlloc(&block, bytes, flag_of(1)), DRV_ERROR_NONE);
        return reinterpret_cast<uintptr_t>(block);
    };
    const auto released = [](uintptr_t block) {
        CHECK_EQUAL(halMemFree(reinterpret_cast<void*>(block)), DRV_ERROR_NONE);
    };
    const uintptr_t first = allocated(3 * kMib);
    CHECK_EQUAL(first, uintptr_t{virtual_npu::kFirstDeviceAddress});
    const uintptr_t second = allocated(2 * kMib);
    CHECK_EQUAL(second, first + 4 * kMib);
    void* reserved = nullptr;
    CHECK_EQUAL(halMemAddressReserve(&reserved, 20 * kMib, 0, nullptr, 0), DRV_ERROR_NONE);
    CHECK_EQUAL(reinterpret_cast<uintptr_t>(reserved), second + 2 * kMib);
    released(first);
    CHECK_EQUAL(allocated(6 * kMib), second + 22 * kMib);  // the gap has room for 4 MiB
    CHECK_EQUAL(allocated(1), first);
    CHECK_EQUAL(allocated(2 * kMib), first + 2 * kMib);
    CHECK_EQUAL(halMemAddressFree(reserved), DRV_ERROR_NONE);
    CHECK_EQUAL(allocated(kMib), second + 2 * kMib);
    for (const uintptr_t block : {first, first + 2 * kMib, second, second + 2 * kMib, second + 22 * kMib}) {
        released(block);
    }

    // Where the machine has something else there, memory lies elsewhere.
    void* const wanted = reinterpret_cast<void*>(first);
    CHECK(mmap(wanted, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == wanted);
    const uintptr_t elsewhere = allocated(2 * kMib);
    CHECK(elsewhere != first);
    CHECK(elsewhere % (2 * kMib) == 0);
    std::memset(reinterpret_cast<void*>(elsewhere), 1, 2 * kMib);
    released(elsewhere);
    CHECK_EQUAL(munmap(wanted, 4096), 0);
}

void twins() {
    for (const char* name : {"halMemAllocInner", "halMemFreeInner", "halMemCreateInner", "halMemReleaseInner"}) {
        CHECK(dlsym(RTLD_DEFAULT, name) != nullptr);
    }
}

drv_mem_handle_t* physical(uint64_t size, uint32_t device = 0) {
    const drv_mem_prop properties{1, device, 33, 1, 0, 0};
    drv_mem_handle_t* handle = nullptr;
    CHECK_EQUAL(halMemCreate(&handle, size, &properties, 0), DRV_ERROR_NONE);
    return handle;
}

void physical_memory() {
    void* address = nullptr;
    for (const size_t too_many : {SIZE_MAX, SIZE_MAX - 2 * kMib, SIZE_MAX / 2}) {
        CHECK_EQUAL(halMemAddressReserve(&address, too_many, 0, nullptr, 0), DRV_ERROR_OUT_OF_MEMORY);
    }
    CHECK_EQUAL(halMemAddressReserve(&address, 64 * kMib, 0, nullptr, 0), DRV_ERROR_NONE);
    char* base = static_cast<char*>(address);
    drv_mem_handle_t* handle = physical(2 * kMib);
    CHECK_EQUAL(free_of(0), kTotal - 2 * kMib);
    // The same memory at two addresses.
    CHECK_EQUAL(halMemMap(base, 2 * kMib, 0, handle, 0), DRV_ERROR_NONE);
    CHECK_EQUAL(halMemMap(base + 8 * kMib, 2 * kMib, 0, handle, 0), DRV_ERROR_NONE);
    std::strcpy(base, "one memory");
    CHECK(std::strcmp(base + 8 * kMib, "one memory") == 0);
    // Released, it lives on until it is unmapped.
    CHECK_EQUAL(halMemRelease(handle), DRV_ERROR_NONE);
    CHECK_EQUAL(halMemUnmap(base), DRV_ERROR_NONE);
    CHECK_EQUAL(free_of(0), kTotal - 2 * kMib);
    CHECK(std::strcmp(base + 8 * kMib, "one memory") == 0);
    CHECK_EQUAL(halMemUnmap(base + 8 * kMib), DRV_ERROR_NONE);
    CHECK_EQUAL(free_of(0), kTotal);
    CHECK_EQUAL(halMemUnmap(base), DRV_ERROR_INVALID_VALUE);

    // Memory that was given back comes again empty.
    handle = physical(2 * kMib);
    CHECK_EQUAL(halMemMap(base, 2 * kMib, 0, handle, 0), DRV_ERROR_NONE);
    CHECK_EQUAL(base[0], 0);
    CHECK_EQUAL(halMemMap(base, 4 * kMib, 0, handle, 0), DRV_ERROR_INVALID_VALUE);

    // Another process of this machine maps the exported memory.
    std::strcpy(base, "exported");
    const uint64_t shareable = virtual_npu_export_memory(handle);
    CHECK(shareable != 0);
    const pid_t child = fork();
    if (child == 0) {
        drv_mem_handle_t* imported = nullptr;
        void* place = nullptr;
        const bool good = virtual_npu_import_memory(shareable, 1, &imported) == DRV_ERROR_NONE &&
                          halMemAddressReserve(&place, 2 * kMib, 0, nullptr, 0) == DRV_ERROR_NONE &&
                          halMemMap(place, 2 * kMib, 0, imported, 0) == DRV_ERROR_NONE &&
                          std::strcmp(static_cast<char*>(place), "exported") == 0;
        if (good) std::strcpy(static_cast<char*>(place), "answered");
        _exit(good ? 0 : 1);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_EQUAL(status, 0);
    CHECK(std::strcmp(base, "answered") == 0);
    CHECK_EQUAL(halMemUnmap(base), DRV_ERROR_NONE);
    CHECK_EQUAL(halMemRelease(handle), DRV_ERROR_NONE);
    CHECK_EQUAL(halMemAddressFree(address), DRV_ERROR_NONE);
    CHECK_EQUAL(halMemAddressFree(address), DRV_ERROR_INVALID_VALUE);

    drv_mem_handle_t* none = nullptr;
    const drv_mem_prop properties{1, 0, 33, 1, 0, 0};
    CHECK_EQUAL(halMemCreate(&none, kTotal + 2 * kMib, &properties, 0), DRV_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(halMemCreate(&none, kMib, &properties, 0), DRV_ERROR_INVALID_VALUE);
    CHECK_EQUAL(halMemCreate(&none, 2 * kMib, nullptr, 0), DRV_ERROR_INVALID_VALUE);
    CHECK_EQUAL(halMemRelease(nullptr), DRV_ERROR_INVALID_VALUE);
    CHECK_EQUAL(free_of(0), kTotal);
}

void many_threads() {
    std::vector<std::thread> threads;
    for (unsigned number = 0; number < 8; ++number) {
        threads.emplace_back([number] {
            std::mt19937 random(number);
            std::vector<void*> held;
            std::vector<drv_mem_handle_t*> handles;
            for (int round = 0; round < 300; ++round) {
                void* block = nullptr;
                if (random() % 2 == 0 || held.empty()) {
                    if (halMemAlloc(&block, 1 + random() % (4 * kMib), flag_of(number % 2)) == DRV_ERROR_NONE) {
                        *static_cast<char*>(block) = 1;
                        held.push_back(block);
                    }
                    if (handles.size() < 8) handles.push_back(physical(2 * kMib, number % 2));
                } else {
                    CHECK_EQUAL(halMemFree(held.back()), DRV_ERROR_NONE);
                    held.pop_back();
                }
            }
            for (void* block : held) CHECK_EQUAL(halMemFree(block), DRV_ERROR_NONE);
            for (drv_mem_handle_t* handle : handles) CHECK_EQUAL(halMemRelease(handle), DRV_ERROR_NONE);
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK_EQUAL(free_of(0), kTotal);
    CHECK_EQUAL(free_of(1), kTotal);
}

}  // namespace

int main() {
    blocks();
    addresses();
    twins();
    physical_memory();
    many_threads();
    return 0;
}

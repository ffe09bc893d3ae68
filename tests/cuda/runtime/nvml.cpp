// The emulated management library, libnvidia-ml.so.1: it tells what the emulated runtime of this process has taken.
// EMULATED_NVML_DELAY_US: how long an answer takes.
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define EXPORTED extern "C" __attribute__((visibility("default")))

extern "C" void emulated_cuda_memory(int device, std::size_t* used, std::size_t* used_by_others, std::size_t* total);
extern "C" int cudaGetDeviceCount(int* count);

namespace {

// Devices are handles from 1 on.
int number_of(void* handle) { return static_cast<int>(reinterpret_cast<std::size_t>(handle)) - 1; }
void* handle_of(int device) { return reinterpret_cast<void*>(static_cast<std::size_t>(device) + 1); }

struct Memory {
    unsigned long long total, free, used;
};
struct ProcessUsage {
    unsigned process_id;
    unsigned long long bytes;
    unsigned instances[2];
};

}  // namespace

EXPORTED int nvmlInit_v2() { return 0; }
EXPORTED int nvmlInit() { return 0; }
EXPORTED int nvmlShutdown() { return 0; }
EXPORTED int nvmlDeviceGetCount_v2(unsigned* count) { return cudaGetDeviceCount(reinterpret_cast<int*>(count)); }
EXPORTED int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
    *handle = handle_of(static_cast<int>(index));
    return 0;
}
EXPORTED int nvmlDeviceGetName(void* handle, char* name, unsigned length) {
    std::snprintf(name, length, "Emulated GPU %c", 'A' + number_of(handle));
    return 0;
}
EXPORTED int nvmlSystemGetDriverVersion(char* version, unsigned length) {
    std::snprintf(version, length, "580.1");
    return 0;
}
// 0000:01:00.0 is device 0.
EXPORTED int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** handle) {
    *handle = handle_of(static_cast<int>(std::strtol(bus + 5, nullptr, 16)) - 1);
    return 0;
}
EXPORTED int nvmlDeviceGetMemoryInfo(void* handle, Memory* memory) {
    const char* const delay = std::getenv("EMULATED_NVML_DELAY_US");
    if (delay != nullptr) {
        usleep(static_cast<useconds_t>(std::strtoul(delay, nullptr, 10)));
    }
    std::size_t used = 0;
    std::size_t others = 0;
    std::size_t total = 0;
    emulated_cuda_memory(number_of(handle), &used, &others, &total);
    *memory = {total, total - used - others, used + others};
    return 0;
}
EXPORTED int nvmlDeviceGetComputeRunningProcesses_v3(void* handle, unsigned* count, ProcessUsage* processes) {
    std::size_t used = 0;
    std::size_t others = 0;
    std::size_t total = 0;
    emulated_cuda_memory(number_of(handle), &used, &others, &total);
    *count = 1;
    processes[0] = {static_cast<unsigned>(getpid()), used, {0, 0}};
    return 0;
}
EXPORTED int nvmlDeviceGetComputeRunningProcesses(void*, unsigned* count, void*) {
    *count = 0;
    return 0;
}

// torch looks these up, too, and calls none of them where memory is enough.
#define DOES_NOTHING(name) \
    EXPORTED int name() { return 0; }
DOES_NOTHING(nvmlDeviceGetNvLinkRemoteDeviceType)
DOES_NOTHING(nvmlDeviceGetNvLinkRemotePciInfo_v2)
DOES_NOTHING(nvmlSystemGetCudaDriverVersion_v2)

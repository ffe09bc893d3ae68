// A profiler's view of launches: commands, callbacks with the names of kernels, and the driver's log of tasks.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "kernel_launch.h"
#include "profiler.h"
#include "stars_channel.h"

extern "C" {
int aclInit(const char*);
int aclrtSetDevice(int32_t);
int aclrtCreateStream(void**);
int aclrtDestroyStream(void*);
int aclrtStreamGetId(void*, int32_t*);
int aclrtBinaryLoadFromData(const void*, size_t, const void*, void**);
int aclrtBinaryGetFunction(void*, const char*, void**);
int aclrtLaunchKernelWithConfig(void*, uint32_t, void*, void*, void*, void*);
}

using namespace virtual_npu;

namespace {

std::vector<std::string> names;
std::vector<TaskTrack> tracks;

uint64_t take_name(const char* text, size_t length) {
    names.emplace_back(text, length);
    return names.size();
}

int32_t take_track(uint32_t, const void* data, uint32_t length) {
    TaskTrack track;
    CHECK_EQUAL(length, sizeof track);
    std::memcpy(&track, data, length);
    tracks.push_back(track);
    return 0;
}

void command(uint32_t type) {
    static ProfilerCommand asked;
    asked.switches = kSwitchTaskTime | kSwitchRuntimeTrace;
    asked.device_count = 1;
    asked.devices[0] = 0;
    asked.type = type;
    CHECK_EQUAL(profSetProfCommand(&asked, sizeof asked), 0);
}

struct StartParameters {
    int32_t channel_type;
    uint32_t sample_period;
    uint32_t real_time;
    const void* user_data;
    uint32_t user_data_bytes;
};

int start_log(uint32_t user_data_bytes) {
    const uint32_t user_data[11] = {1, 0, 0, 0, 0, 0, 1};
    StartParameters parameters{0, 20, 1, user_data, user_data_bytes};
    return prof_drv_start(0, kStarsChannel, &parameters);
}

int work_done = 0;

}  // namespace

int main() {
    void* binary = nullptr;
    void* function = nullptr;
    void* stream = nullptr;
    int32_t device = -1;
    CHECK_EQUAL(aclInit(nullptr), 0);
    CHECK_EQUAL(rtGetDevice(&device), kRuntimeNoContext);
    CHECK_EQUAL(aclrtBinaryLoadFromData("", 0, nullptr, &binary), 0);
    CHECK_EQUAL(aclrtBinaryGetFunction(binary, "any_name", &function), 0);
    CHECK_EQUAL(rtLaunchKernelByFuncHandle(function, 1, nullptr, nullptr), kRuntimeNoContext);
    CHECK_EQUAL(aclrtSetDevice(0), 0);
    CHECK_EQUAL(rtGetDevice(&device), 0);
    CHECK_EQUAL(device, 0);
    CHECK_EQUAL(aclrtCreateStream(&stream), 0);
    int32_t number = 0;
    CHECK_EQUAL(aclrtStreamGetId(stream, &number), 0);

    // Nobody listens: the work is done and nothing is told.
    void* working = virtual_npu_kernel_function("working", [](void* work) { ++*static_cast<int*>(work); });
    CHECK(working == virtual_npu_kernel_function("working", nullptr));
    CHECK_EQUAL(rtLaunchKernelByFuncHandleV2(working, 1, &work_done, stream, nullptr), 0);
    CHECK_EQUAL(work_done, 1);
    char buffer[4096];
    CHECK_EQUAL(prof_channel_read(0, kStarsChannel, buffer, sizeof buffer), 0);

    CHECK_EQUAL(MsprofRegisterProfileCallback(kCallbackHashId, reinterpret_cast<void*>(&take_name), 8), 0);
    CHECK_EQUAL(MsprofRegisterProfileCallback(kCallbackCompact, reinterpret_cast<void*>(&take_track), 8), 0);
    CHECK_EQUAL(rtLaunchKernelByFuncHandleV2(working, 1, &work_done, stream, nullptr), 0);
    CHECK(tracks.empty());  // no command was given
    command(kCommandStart);
    CHECK(start_log(44) != 0);  // what another generation of chips takes
    CHECK_EQUAL(start_log(36), 0);
    CHECK(prof_drv_start(0, 7, nullptr) != 0);
    CHECK_EQUAL(rtLaunchKernelByFuncHandleV2(working, 1, &work_done, stream, nullptr), 0);
    CHECK_EQUAL(aclrtLaunchKernelWithConfig(function, 1, nullptr, nullptr, nullptr, nullptr), 0);
    CHECK_EQUAL(work_done, 3);
    CHECK((names == std::vector<std::string>{"working", "any_name"}));
    CHECK_EQUAL(tracks.size(), size_t{2});
    CHECK_EQUAL(tracks[0].stream, number);
    CHECK_EQUAL(tracks[0].task, 2u);
    CHECK_EQUAL(tracks[0].kernel_name, 1u);
    CHECK_EQUAL(tracks[1].stream, 0);

    // Begin and end of both, in the order of the device's clock.
    CHECK_EQUAL(prof_channel_read(0, kStarsChannel, buffer, 100), 64);  // whole records only
    CHECK_EQUAL(prof_channel_read(0, kStarsChannel, buffer + 64, sizeof buffer - 64), 192);
    uint64_t counter = 0;
    for (int index = 0; index < 4; ++index) {
        uint32_t words[4];
        std::memcpy(words, buffer + index * 64, sizeof words);
        CHECK_EQUAL(words[0] & 0x3f, static_cast<uint32_t>(index % 2));
        CHECK_EQUAL(words[1] & 0xffff, index < 2 ? static_cast<uint32_t>(number) : 0u);
        const uint64_t next = words[2] | static_cast<uint64_t>(words[3]) << 32;
        CHECK(next >= counter);
        counter = next;
    }
    CHECK_EQUAL(prof_stop(0, kStarsChannel), 0);
    command(kCommandStop);
    CHECK_EQUAL(rtLaunchKernelByFuncHandleV2(working, 1, &work_done, stream, nullptr), 0);
    CHECK_EQUAL(tracks.size(), size_t{2});
    CHECK_EQUAL(prof_channel_read(0, kStarsChannel, buffer, sizeof buffer), 0);

    // What cannot be launched.
    CHECK_EQUAL(rtKernelLaunch(&device, 1, nullptr, 0, nullptr, nullptr), kRuntimeInvalidParameter);
    CHECK_EQUAL(rtLaunchKernelByFuncHandle(nullptr, 1, nullptr, nullptr), kRuntimeInvalidParameter);
    CHECK_EQUAL(rtDevBinaryUnRegister(binary), 0);
    CHECK_EQUAL(aclrtDestroyStream(stream), 0);
    return 0;
}

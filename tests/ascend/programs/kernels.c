// Launches kernels by every launch function: kernels [MODE]
//   every (default)  each function once, on the default stream and on one more
//   burst N          N launches of one kernel, with pauses: the log of a device has bounded room
//   threads          four threads, a stream and a kernel of their own each, 500 launches each
//   fork             two launches, and two in a child
//   devices          a launch on device 0 and one on device 1
//   finalize         a launch, aclFinalize, aclInit, a launch
//   none             initialises and launches nothing
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int aclInit(const char*);
int aclFinalize(void);
int aclrtSetDevice(int32_t);
int aclrtCreateStream(void**);
int aclrtBinaryLoadFromData(const void*, size_t, const void*, void**);
int aclrtBinaryGetFunction(void*, const char*, void**);
int aclrtLaunchKernel(void*, uint32_t, const void*, size_t, void*);
int aclrtLaunchKernelV2(void*, uint32_t, const void*, size_t, void*, void*);
int aclrtLaunchKernelWithConfig(void*, uint32_t, void*, void*, void*, void*);
int aclrtLaunchKernelWithHostArgs(void*, uint32_t, void*, void*, void*, size_t, void*, size_t);
int rtDevBinaryRegister(const void*, void**);
int rtFunctionRegister(void*, const void*, const char*, const void*, uint32_t);
int rtKernelLaunch(const void*, uint32_t, void*, uint32_t, void*, void*);
int rtKernelLaunchWithHandleV2(void*, uint64_t, uint32_t, void*, void*, void*, const void*);
int rtKernelLaunchWithFlagV2(const void*, uint32_t, void*, void*, void*, uint32_t, const void*);
int rtAicpuKernelLaunchExWithArgs(uint32_t, const char*, uint32_t, const void*, void*, void*, uint32_t);
int rtLaunchKernelByFuncHandle(void*, uint32_t, void*, void*);
int rtLaunchKernelByFuncHandleV2(void*, uint32_t, void*, void*, const void*);

static void good(int status, const char* what) {
    if (status != 0) {
        fprintf(stderr, "%s: %d\n", what, status);
        exit(1);
    }
}
#define GOOD(call) good(call, #call)

static void* binary;

static void* function(const char* name) {
    void* found = NULL;
    GOOD(aclrtBinaryGetFunction(binary, name, &found));
    return found;
}

static void* stream(void) {
    void* made = NULL;
    GOOD(aclrtCreateStream(&made));
    return made;
}

static void every(void) {
    static const char stubs[2];
    void* registered = NULL;
    void* side = stream();
    GOOD(rtDevBinaryRegister(&stubs, &registered));
    GOOD(rtFunctionRegister(registered, &stubs[0], "by_stub", "by_stub", 0));
    GOOD(rtFunctionRegister(registered, &stubs[1], "by_stub_with_flag", "by_stub_with_flag", 0));
    GOOD(rtKernelLaunch(&stubs[0], 1, NULL, 0, NULL, NULL));
    GOOD(rtKernelLaunchWithFlagV2(&stubs[1], 1, NULL, NULL, side, 0, NULL));
    GOOD(rtKernelLaunchWithHandleV2(function("by_handle"), 7, 1, NULL, NULL, NULL, NULL));
    GOOD(rtAicpuKernelLaunchExWithArgs(2, "on_ai_cpu", 1, NULL, NULL, side, 0));
    GOOD(rtLaunchKernelByFuncHandle(function("by_function"), 1, NULL, NULL));
    GOOD(rtLaunchKernelByFuncHandleV2(function("by_function_v2"), 1, NULL, side, NULL));
    GOOD(aclrtLaunchKernel(function("acl"), 1, NULL, 0, NULL));
    GOOD(aclrtLaunchKernelV2(function("acl_v2"), 1, NULL, 0, NULL, side));
    GOOD(aclrtLaunchKernelWithConfig(function("acl_with_config"), 1, NULL, NULL, NULL, NULL));
    GOOD(aclrtLaunchKernelWithHostArgs(function("acl_with_host_args"), 1, side, NULL, NULL, 0, NULL, 0));
}

static void* launch_in_thread(void* name) {
    GOOD(aclrtSetDevice(0));
    void* own = stream();
    void* kernel = function(name);
    for (int launch = 0; launch < 500; ++launch) {
        GOOD(aclrtLaunchKernel(kernel, 1, NULL, 0, own));
    }
    return NULL;
}

static void threads(void) {
    static char names[4][16];
    pthread_t started[4];
    for (int number = 0; number < 4; ++number) {
        snprintf(names[number], sizeof names[number], "thread_%d", number);
        pthread_create(&started[number], NULL, launch_in_thread, names[number]);
    }
    for (int number = 0; number < 4; ++number) {
        pthread_join(started[number], NULL);
    }
}

static void launch_twice(const char* name) {
    for (int launch = 0; launch < 2; ++launch) {
        GOOD(aclrtLaunchKernel(function(name), 1, NULL, 0, NULL));
    }
}

int main(int count, char** arguments) {
    const char* mode = count > 1 ? arguments[1] : "every";
    GOOD(aclInit(NULL));
    GOOD(aclrtSetDevice(0));
    GOOD(aclrtBinaryLoadFromData("", 0, NULL, &binary));
    if (strcmp(mode, "every") == 0) {
        every();
    } else if (strcmp(mode, "burst") == 0) {
        void* kernel = function("burst");
        for (int launch = 0; launch < atoi(arguments[2]); ++launch) {
            GOOD(aclrtLaunchKernel(kernel, 1, NULL, 0, NULL));
            if (launch % 1000 == 0) {
                usleep(2000);
            }
        }
    } else if (strcmp(mode, "threads") == 0) {
        threads();
    } else if (strcmp(mode, "fork") == 0) {
        launch_twice("in_parent");
        const pid_t child = fork();
        if (child == 0) {
            launch_twice("in_child");
            exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        GOOD(status);
        launch_twice("in_parent_again");
    } else if (strcmp(mode, "devices") == 0) {
        GOOD(aclrtLaunchKernel(function("on_device_0"), 1, NULL, 0, NULL));
        GOOD(aclrtSetDevice(1));
        GOOD(aclrtLaunchKernel(function("on_device_1"), 1, NULL, 0, NULL));
    } else if (strcmp(mode, "finalize") == 0) {
        GOOD(aclrtLaunchKernel(function("before"), 1, NULL, 0, NULL));
        GOOD(aclFinalize());
        GOOD(aclInit(NULL));
        GOOD(aclrtLaunchKernel(function("after"), 1, NULL, 0, NULL));
    }
    return 0;
}

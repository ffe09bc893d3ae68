// A program of fixed addresses that takes addresses of functions: the linker makes an entry of its own table of calls
// the one address that such a function has for all. Keeps 64 MiB by malloc and 64 MiB by mmap, half of each through
// addresses that were taken, here and in a library. Compilers are such programs.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROUNDS = 64, BYTES = 256 << 10 };

typedef void* Allocate(size_t);
typedef void* Map(void*, size_t, int, int, int, off64_t);
Allocate* malloc_of_library(void);
Map* map_of_library(void);

static void* map(Map* function) {
    return function(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int main(void) {
    // What the package calls when a program imports torch.
    void (*const begin)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "_ZN10msmemscope8recorder18begin_host_samplesEv");
    if (begin != NULL) {
        begin();
    }
    // Volatile: a compiler that knows what they hold would call the functions themselves.
    Allocate* volatile taken = malloc;
    Map* volatile mapped = mmap64;
    for (int round = 0; round < ROUNDS; ++round) {
        void* const memory[] = {malloc(BYTES), taken(BYTES), malloc_of_library()(BYTES), malloc(BYTES),
                                map(&mmap64),  map(mapped),  map(map_of_library()),      map(&mmap64)};
        for (int kind = 0; kind < 8; ++kind) {
            memset(memory[kind], 1, BYTES);
            usleep(300);  // not faster than each sample counts
        }
    }
    printf("addresses=%s\n", malloc_of_library() == taken && map_of_library() == mapped ? "equal" : "different");
    fflush(stdout);
    return 0;
}

/* Like the runtime of a sanitizer that is linked into a program: functions of the C library that cannot be called before
 * it has set itself up, which it does before all constructors. Says how often that happened. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_set_up;
static int early_calls;

static void count(void) { early_calls += !is_set_up; }

int fstat(int descriptor, struct stat* status) {
    count();
    return (int)syscall(SYS_fstat, descriptor, status);
}

ssize_t readlink(const char* restrict path, char* restrict text, size_t bytes) {
    count();
    return syscall(SYS_readlinkat, -100, path, text, bytes);
}

int strcmp(const char* left, const char* right) {
    count();
    while (*left != '\0' && *left == *right) {
        left++;
        right++;
    }
    return (unsigned char)*left - (unsigned char)*right;
}

void INIT(void) { is_set_up = 1; }

__attribute__((section(".preinit_array"), used)) static void (*const set_up)(void) = INIT;

int main(int argc, char** argv) {
    void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (library == NULL) {
        return 98;
    }
    void* (*allocate)(size_t) = NULL;
    void (*release)(void*) = NULL;
    *(void**)&allocate = dlsym(library, "fake_tensor_allocate");
    *(void**)&release = dlsym(library, "fake_tensor_free");
    release(allocate(64));
    printf("early_calls=%d\n", early_calls);
    return 0;
}

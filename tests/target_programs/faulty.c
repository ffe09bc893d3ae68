/* Allocates in an observed library, then makes one fault that a sanitizer finds. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile int shared;

static void* write_shared(void* argument) {
    for (int i = 0; i < 1000; i++) {
        shared++;
    }
    return argument;
}

/* Leaves a deep part of the stack behind that nobody has initialised. */
static int leave_stack(int depth) {
    char unused[512];
    char* volatile place = unused;
    return place == NULL || depth == 0 ? 0 : leave_stack(depth - 1) + 1;
}

int main(int argc, char** argv) {
    const char* fault = argc > 1 ? argv[1] : "none";
    leave_stack(50);
    void* library = argc > 2 ? dlopen(argv[2], RTLD_NOW) : NULL;
    if (library != NULL) {
        void* (*allocate)(size_t) = NULL;
        void (*release)(void*) = NULL;
        *(void**)&allocate = dlsym(library, "fake_tensor_allocate");
        *(void**)&release = dlsym(library, "fake_tensor_free");
        for (int i = 0; i < 100; i++) {
            leave_stack(20);
            release(allocate(64));
        }
    }
    printf("allocated\n");
    fflush(stdout);
    char* volatile block = malloc(10);
    if (strcmp(fault, "overflow") == 0) {
        block[10] = 1;
    } else if (strcmp(fault, "uninitialised") == 0) {
        if (block[5] == 3) {
            printf("three\n");
        }
    } else if (strcmp(fault, "race") == 0) {
        pthread_t threads[2];
        for (int i = 0; i < 2; i++) {
            pthread_create(&threads[i], NULL, write_shared, NULL);
        }
        for (int i = 0; i < 2; i++) {
            pthread_join(threads[i], NULL);
        }
    }
    if (strcmp(fault, "leak") == 0) {
        block = malloc(77);
        block = NULL;
    }
    free(block);
    printf("ended\n");
    return 0;
}

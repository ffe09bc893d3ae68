/* Opens libc10 after the start, by the name given: a bare one found through this program's RUNPATH, or a path.
 * With a second argument, another thread allocates without pause from the moment that the library is there. */
#include <dlfcn.h>
#include <pthread.h>

#include "target.h"

typedef void* (*allocate_function)(size_t);
typedef void (*free_function)(void*);

static allocate_function allocate;
static free_function release;

static void* work(void* argument) {
    (void)argument;
    for (long i = 0; i < 500; i++) {
        release(allocate(size_of_block(i)));
    }
    return NULL;
}

int main(int argc, char** argv) {
    void* library = dlopen(argc > 1 ? argv[1] : "libc10.so", RTLD_LAZY | RTLD_LOCAL);
    if (library == NULL) {
        print_text("error=%s\n", dlerror());
        return 98;
    }
    *(void**)&allocate = dlsym(library, "fake_tensor_allocate");
    *(void**)&release = dlsym(library, "fake_tensor_free");
    pthread_t thread;
    const int threaded = argc > 2;
    if (threaded && pthread_create(&thread, NULL, work, NULL) != 0) {
        return 97;
    }
    (void)work(NULL);
    if (threaded) {
        pthread_join(thread, NULL);
    }
    print_text("allocs=%d frees=%d\n", 500 * (1 + threaded), 500 * (1 + threaded));
    return 0;
}

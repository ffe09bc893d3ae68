/* Opens plugins into scopes of their own and calls the function that each of them has under the same name. */
#include <dlfcn.h>

#include "../target.h"

int main(int argc, char** argv) {
    const int mode = argc > 1 && argv[1][0] == 'l' ? RTLD_LAZY : RTLD_NOW;
    for (int number = 2; number < argc; number++) {
        void* library = dlopen(argv[number], mode | RTLD_LOCAL);
        int (*set_device)(int) = NULL;
        int (*has_init)(void) = NULL;
        if (library == NULL) {
            return 98;
        }
        *(void**)&set_device = dlsym(library, "set_device");
        *(void**)&has_init = dlsym(library, "has_init");
        print_text("set_device=%d has_init=%d\n", set_device(7), has_init());
    }
    return 0;
}

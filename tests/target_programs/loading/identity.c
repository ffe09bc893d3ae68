/* Opens libraries by the names given, each by itself or through the library libopens.so (a name that begins with @), and
 * says which ones came. */
#include <dlfcn.h>

#include "../target.h"

int main(int argc, char** argv) {
    for (int number = 1; number < argc; number++) {
        const char* name = argv[number];
        void* library = NULL;
        if (*name == '@') {
            void* opener = dlopen("libopens.so", RTLD_NOW | RTLD_LOCAL);
            void* (*open_for_me)(const char*) = NULL;
            if (opener != NULL) {
                *(void**)&open_for_me = dlsym(opener, "open_for_me");
                library = open_for_me(name + 1);
            }
        } else {
            library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        }
        if (library == NULL) {
            print_text("%s\n", dlerror());
            continue;
        }
        const char* (*which)(void) = NULL;
        *(void**)&which = dlsym(library, "which");
        if (which == NULL) {
            *(void**)&which = dlsym(library, "which_of_needed");
        }
        print_text("%s\n", which());
    }
    return 0;
}

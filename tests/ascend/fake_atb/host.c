/* Opens the driver into a scope of its own and runs it: host LIBRARY INPUTS EXECUTIONS */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char** arguments) {
    if (count != 4) return 2;
    void* const library = dlopen(arguments[1], RTLD_LAZY | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    int (*run)(int, int) = (int (*)(int, int))dlsym(library, "run");
    return run(atoi(arguments[2]), atoi(arguments[3]));
}

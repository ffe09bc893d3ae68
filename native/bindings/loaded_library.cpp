#include "loaded_library.h"

#include <dlfcn.h>

namespace msmemscope {

void* find_in_library(const char* library, const char* name) {
    void* const handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) {
        return nullptr;
    }
    void* const found = dlsym(handle, name);
    dlclose(handle);  // whoever loaded it keeps it loaded
    return found;
}

}  // namespace msmemscope

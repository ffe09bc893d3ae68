// Python loads extension modules, and with them this library, into a local scope. Tools look for the "Inner" functions
// in the global scope, where the real driver is: the library moves itself there.
#include <dlfcn.h>

#include <cstdio>

namespace {

__attribute__((constructor)) void become_global() {
    Dl_info self;
    if (dladdr(reinterpret_cast<void*>(&become_global), &self) == 0 ||
        dlopen(self.dli_fname, RTLD_NOLOAD | RTLD_LAZY | RTLD_GLOBAL) == nullptr) {
        std::fprintf(stderr, "[vnpu] libascend_hal.so stays in a local scope; memory tools may not find it: %s\n",
                     dlerror());
    }
}

}  // namespace

/* A library that opens others in its own name. */
#include <dlfcn.h>

void* open_for_me(const char* name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }

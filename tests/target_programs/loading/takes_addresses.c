// Takes the addresses of functions in a library.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

void* (*malloc_of_library(void))(size_t) { return malloc; }

void* (*map_of_library(void))(void*, size_t, int, int, int, off64_t) { return mmap64; }

/* What every target program needs: the allocator of the stand-in for libc10, and one way to say what was done.
 *
 * A program prints lines of key=value pairs, separated by blanks. The tests compare them with what was recorded, so a
 * program must say exactly what it did, and say it after it was done.
 */
#ifndef TARGET_H
#define TARGET_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In libc10.so, see fake_libc10.cpp. */
void* fake_tensor_allocate(size_t bytes);
void fake_tensor_free(void* block);

/* One write(2), whole or not at all: usable in handlers, and with stdio already closed. */
__attribute__((format(printf, 1, 2))) static inline void print_text(const char* format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof line || write(STDOUT_FILENO, line, (size_t)length) != length) {
        _exit(99);
    }
}

/* The argument at a place, as a number, or what to take if it is not there. */
static inline long number_argument(int count, char** values, int place, long otherwise) {
    return place < count ? strtol(values[place], NULL, 10) : otherwise;
}

/* Sizes differ from block to block, so that a mixed-up pair shows. */
static inline size_t size_of_block(long number) { return 64U * (size_t)(1 + number % 31); }

#ifdef __cplusplus
}
#endif

#endif

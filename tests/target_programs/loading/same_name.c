/* A plugin with a function of its own that is called like one of the runtime's. */
#include <stdint.h>

__attribute__((visibility("default"))) int aclrtSetDevice(int32_t device) { return 100 * NUMBER + device; }

/* May also come from elsewhere: the program looks whether it is there. */
__attribute__((weak)) extern int aclInit(const char*);

int set_device(int32_t device) { return aclrtSetDevice(device); }
int has_init(void) { return aclInit != 0; }

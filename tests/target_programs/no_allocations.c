/* Loads libc10 and never calls it. */
#include "target.h"

int main(void) {
    print_text("allocs=0 frees=0\n");
    return 0;
}

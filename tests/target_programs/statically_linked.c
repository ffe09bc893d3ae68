/* No dynamic loader, so nothing can be observed; the program itself must not notice. */
#include "target.h"

int main(void) {
    void* block = NULL;
    if (posix_memalign(&block, 64, 4096) != 0) {
        return 98;
    }
    free(block);
    print_text("allocs=0 frees=0\n");
    return 0;
}

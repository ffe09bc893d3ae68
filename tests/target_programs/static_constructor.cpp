// Allocates before main: in constructors of static objects, and in an early function of the executable.
#include "target.h"

namespace {

long allocs = 0;

__attribute__((constructor(101))) void early() {
    (void)fake_tensor_allocate(2048);
    allocs++;
}

struct Tensor {
    Tensor() : block(fake_tensor_allocate(1024)) { allocs++; }
    void* block;
};

Tensor tensors[5];

}  // namespace

int main() {
    for (Tensor& tensor : tensors) {
        fake_tensor_free(tensor.block);
    }
    print_text("allocs=%ld frees=5\n", allocs);
    return 0;
}

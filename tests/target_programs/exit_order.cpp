// Allocates at every stage of the end of a process: handlers of atexit, destructors of static objects, functions that
// run when the executable is finalised. The last of them says how much it was.
#include "target.h"

namespace {

long allocs = 0;
long frees = 0;

void pairs(long count) {
    for (long i = 0; i < count; i++) {
        void* block = fake_tensor_allocate(size_of_block(i));
        allocs++;
        fake_tensor_free(block);
        frees++;
    }
}

struct Tensor {
    Tensor() : block(fake_tensor_allocate(1024)) { allocs++; }
    ~Tensor() {
        pairs(2);
        fake_tensor_free(block);
        frees++;
    }
    Tensor(const Tensor&) = delete;
    Tensor& operator=(const Tensor&) = delete;
    void* block;
};

Tensor first;

void at_exit() { pairs(5); }

__attribute__((destructor)) void at_finalisation() {
    pairs(7);
    print_text("allocs=%ld frees=%ld\n", allocs, frees);
}

}  // namespace

int main() {
    static Tensor second;
    if (atexit(at_exit) != 0) {
        return 98;
    }
    pairs(1);
    return 0;
}

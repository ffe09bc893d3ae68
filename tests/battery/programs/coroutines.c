/* Coroutines on stacks of their own, by makecontext and by hand, whose outermost frame lies at the very end of mapped
 * memory: whoever looks further than the stack reaches faults. They allocate, switch, and free each other's blocks. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "target.h"

enum { kCoroutines = 20, kRounds = 50, kStackBytes = 65536, kGuardBytes = 65536 };

static ucontext_t main_context;
static ucontext_t contexts[kCoroutines];
static void* blocks[kCoroutines];

static char* guarded_stack(void) {
    char* const memory =
        mmap(NULL, kGuardBytes + kStackBytes + kGuardBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + kGuardBytes, kStackBytes, PROT_READ | PROT_WRITE) != 0) {
        _exit(98);
    }
    return memory + kGuardBytes;
}

static void work(int number) {
    for (int round = 0; round < kRounds; round++) {
        const int next = (number + 1) % kCoroutines;
        fake_tensor_free(blocks[next]);
        blocks[next] = fake_tensor_allocate(size_of_block(round));
        swapcontext(&contexts[number], &contexts[next]);
    }
    setcontext(&main_context);
}

#if defined(__x86_64__)
/* A switch as hand-written libraries have it: without unwind information, its outermost return address is zero. */
static void* by_hand_stack_pointer;
static long by_hand_done;

void switch_to(void** keep, void* to);
asm(".text\n.globl switch_to\nswitch_to:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");

/* A function whose frame is found by rbp, and an address in it. */
extern const char within_framed[];
asm(".text\nframed:\n.cfi_startproc\n"
    "pushq %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset 6, -16\nmovq %rsp, %rbp\n.cfi_def_cfa_register 6\n"
    "nop\n.globl within_framed\nwithin_framed:\nnop\n"
    "popq %rbp\n.cfi_def_cfa 7, 8\nret\n.cfi_endproc\n");

static void* by_hand_main;
static void by_hand(void) {
    for (;;) {
        fake_tensor_free(fake_tensor_allocate(size_of_block(by_hand_done)));
        by_hand_done++;
        switch_to(&by_hand_stack_pointer, by_hand_main);
    }
}

static void run_by_hand(const void* return_address, void* registers) {
    void** top = (void**)(guarded_stack() + kStackBytes);
    *--top = (void*)return_address; /* what by_hand would return to */
    *--top = (void*)by_hand;
    for (int i = 0; i < 6; i++) {
        *--top = registers;
    }
    by_hand_stack_pointer = top;
    for (int i = 0; i < kRounds; i++) {
        switch_to(&by_hand_main, by_hand_stack_pointer);
    }
}
#endif

static long run_by_makecontext(void) {
    for (int i = 0; i < kCoroutines; i++) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = guarded_stack();
        contexts[i].uc_stack.ss_size = kStackBytes;
        contexts[i].uc_link = &main_context;
        makecontext(&contexts[i], (void (*)(void))work, 1, i);
    }
    swapcontext(&main_context, &contexts[0]);
    for (int i = 0; i < kCoroutines; i++) {
        fake_tensor_free(blocks[i]);
    }
    return (long)kCoroutines * kRounds;
}

int main(int argc, char** argv) {
    long pairs = 0;
    if (argc > 1 && strcmp(argv[1], "makecontext") == 0) {
        pairs = run_by_makecontext();
    }
#if defined(__x86_64__)
    if (argc > 1 && strcmp(argv[1], "by hand") == 0) {
        run_by_hand(NULL, NULL);
        pairs = by_hand_done;
    }
    if (argc > 1 && strcmp(argv[1], "onto nothing") == 0) {
        run_by_hand((void*)0x10, (void*)0x10);
        run_by_hand((void*)-1, (void*)-1);
        pairs = by_hand_done;
    }
    if (argc > 1 && strcmp(argv[1], "into a function") == 0) {
        run_by_hand(within_framed, (void*)0x10);
        run_by_hand(within_framed, (void*)-16);
        pairs = by_hand_done;
    }
#endif
    print_text("allocs=%ld frees=%ld\n", pairs, pairs);
    return 0;
}

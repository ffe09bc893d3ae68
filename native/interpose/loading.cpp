#include "interpose/loading.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>

#include "core/writer/keep_errno.h"
#include "interpose/patcher.h"

extern "C" {
// NOLINTBEGIN(readability-identifier-naming)
void* msmemscope_dlopen_entry(const char* name, int flags);
void* msmemscope_dlsym_entry(void* handle, const char* name);
// If one of these returns something, the program gets it in place of the real call. If it returns null, the real call
// is made.
__attribute__((visibility("hidden"))) void* msmemscope_before_dlopen() noexcept;
__attribute__((visibility("hidden"))) void* msmemscope_before_dlsym(void* handle, const char* name) noexcept;
__attribute__((visibility("hidden"))) void* msmemscope_real_dlopen = reinterpret_cast<void*>(&dlopen);
__attribute__((visibility("hidden"))) void* msmemscope_real_dlsym = reinterpret_cast<void*>(&dlsym);

// Nobody calls it; dlsym on its name runs its resolver.
__attribute__((visibility("default"))) void msmemscope_loader_lock() noexcept;
__attribute__((visibility("default"))) void __gmon_start__() noexcept;  // NOLINT(bugprone-reserved-identifier)
// NOLINTEND(readability-identifier-naming)
}

// Both entries keep the arguments, look for new images, and return what they are given or jump on.
#if defined(__x86_64__)
#define MSMEMSCOPE_LOADER_ENTRY(name)      \
    asm("    .text\n"                      \
        "    .hidden msmemscope_" name     \
        "_entry\n"                         \
        "    .globl msmemscope_" name      \
        "_entry\n"                         \
        "    .type msmemscope_" name       \
        "_entry, @function\n"              \
        "msmemscope_" name                 \
        "_entry:\n"                        \
        "    .cfi_startproc\n"             \
        "    endbr64\n"                    \
        "    pushq %rdi\n"                 \
        "    .cfi_adjust_cfa_offset 8\n"   \
        "    pushq %rsi\n"                 \
        "    .cfi_adjust_cfa_offset 8\n"   \
        "    subq $8, %rsp\n"              \
        "    .cfi_adjust_cfa_offset 8\n"   \
        "    call msmemscope_before_" name \
        "\n"                               \
        "    addq $8, %rsp\n"              \
        "    .cfi_adjust_cfa_offset -8\n"  \
        "    popq %rsi\n"                  \
        "    .cfi_adjust_cfa_offset -8\n"  \
        "    popq %rdi\n"                  \
        "    .cfi_adjust_cfa_offset -8\n"  \
        "    testq %rax, %rax\n"           \
        "    jne 1f\n"                     \
        "    movq msmemscope_real_" name   \
        "(%rip), %rax\n"                   \
        "    jmp *%rax\n"                  \
        "1:  ret\n"                        \
        "    .cfi_endproc\n"               \
        "    .size msmemscope_" name "_entry, .-msmemscope_" name "_entry\n")
#elif defined(__aarch64__)
#define MSMEMSCOPE_LOADER_ENTRY(name)                     \
    asm("    .text\n"                                     \
        "    .hidden msmemscope_" name                    \
        "_entry\n"                                        \
        "    .globl msmemscope_" name                     \
        "_entry\n"                                        \
        "    .type msmemscope_" name                      \
        "_entry, %function\n"                             \
        "msmemscope_" name                                \
        "_entry:\n"                                       \
        "    .cfi_startproc\n"                            \
        "    hint #34\n"                                  \
        "    stp x29, x30, [sp, #-32]!\n"                 \
        "    .cfi_def_cfa_offset 32\n"                    \
        "    .cfi_offset x29, -32\n"                      \
        "    .cfi_offset x30, -24\n"                      \
        "    stp x0, x1, [sp, #16]\n"                     \
        "    bl msmemscope_before_" name                  \
        "\n"                                              \
        "    mov x17, x0\n"                               \
        "    ldp x0, x1, [sp, #16]\n"                     \
        "    ldp x29, x30, [sp], #32\n"                   \
        "    .cfi_restore x29\n"                          \
        "    .cfi_restore x30\n"                          \
        "    .cfi_def_cfa_offset 0\n"                     \
        "    cbnz x17, 1f\n"                              \
        "    adrp x16, msmemscope_real_" name             \
        "\n"                                              \
        "    ldr x16, [x16, #:lo12:msmemscope_real_" name \
        "]\n"                                             \
        "    br x16\n"                                    \
        "1:  mov x0, x17\n"                               \
        "    ret\n"                                       \
        "    .cfi_endproc\n"                              \
        "    .size msmemscope_" name "_entry, .-msmemscope_" name "_entry\n")
#endif

MSMEMSCOPE_LOADER_ENTRY("dlopen");
MSMEMSCOPE_LOADER_ENTRY("dlsym");

namespace msmemscope {
namespace {

// Something was loaded by a dlopen whose library may have had no start-up code.
std::atomic<bool> may_have_loaded{false};

}  // namespace

void patch_under_loader_lock() noexcept {
    const KeepErrno keep_errno;
    // From the global scope where we are preloaded, else from our own: found in either case.
    static_cast<void>(dlsym(RTLD_DEFAULT, "msmemscope_loader_lock"));
}

LoaderCall loader_call(const char* name) noexcept {
    if (std::strcmp(name, "dlopen") == 0) {
        return {reinterpret_cast<void*>(&msmemscope_dlopen_entry), msmemscope_real_dlopen};
    }
    if (std::strcmp(name, "dlsym") == 0) {
        return {reinterpret_cast<void*>(&msmemscope_dlsym_entry), msmemscope_real_dlsym};
    }
    return {nullptr, nullptr};
}

}  // namespace msmemscope

extern "C" {
static void do_nothing() noexcept {}

// The resolver that dlsym calls with the loader's lock held. It is marked as used, because it is used by its name
// alone, which not every compiler sees.
__attribute__((used)) static void (*resolve_loader_lock() noexcept)() noexcept {
    msmemscope::patch_new_images();
    return &do_nothing;
}
}

__attribute__((ifunc("resolve_loader_lock"))) void msmemscope_loader_lock() noexcept;

void __gmon_start__() noexcept {
    if (&msmemscope::begin_if_postponed != nullptr) {
        msmemscope::begin_if_postponed();
    }
    msmemscope::patch_under_loader_lock();
}

void* msmemscope_before_dlopen() noexcept {
    if (msmemscope::may_have_loaded.exchange(true, std::memory_order_acq_rel)) {
        msmemscope::patch_under_loader_lock();
    }
    return nullptr;
}

void* msmemscope_before_dlsym(void* handle, const char* name) noexcept {
    if (msmemscope::may_have_loaded.load(std::memory_order_acquire) &&
        msmemscope::may_have_loaded.exchange(false, std::memory_order_acq_rel)) {
        msmemscope::patch_under_loader_lock();
    }
    return msmemscope::replacement_by_name(name, handle);
}

#include "interpose/patcher.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "interpose/elf_image.h"
#include "interpose/hooks.h"
#include "interpose/search_path.h"
#include "stacks/modules.h"
#include "writer/bounded_lock.h"
#include "writer/keep_errno.h"

extern "C" {
// dlopen decides by its return address whose search path and namespace to use. The entry passes that
// address on, so that the search can be done for the caller; where even that would not be the same,
// it jumps to the real dlopen with the return address untouched.
// NOLINTNEXTLINE(readability-identifier-naming)
void* msmemscope_dlopen_entry(const char* name, int flags);
// 1: we open the library and look at what came; 0: jump to dlopen.
__attribute__((visibility("hidden"))) int msmemscope_dlopen_is_ours(const char* name) noexcept;
__attribute__((visibility("hidden"))) void* msmemscope_dlopen_and_scan(const char* name, int flags,
                                                                       const void* caller) noexcept;
__attribute__((visibility("hidden"))) void* msmemscope_real_dlopen = nullptr;
}

#if defined(__x86_64__)
asm(R"(
    .text
    .hidden msmemscope_dlopen_entry
    .globl msmemscope_dlopen_entry
    .type msmemscope_dlopen_entry, @function
msmemscope_dlopen_entry:
    .cfi_startproc
    endbr64
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    call msmemscope_dlopen_is_ours
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    movq (%rsp), %rdx
    testl %eax, %eax
    jne msmemscope_dlopen_and_scan
    movq msmemscope_real_dlopen(%rip), %rax
    jmp *%rax
    .cfi_endproc
    .size msmemscope_dlopen_entry, .-msmemscope_dlopen_entry
)");
#elif defined(__aarch64__)
asm(R"(
    .text
    .hidden msmemscope_dlopen_entry
    .globl msmemscope_dlopen_entry
    .type msmemscope_dlopen_entry, %function
msmemscope_dlopen_entry:
    .cfi_startproc
    hint #34
    stp x29, x30, [sp, #-32]!
    .cfi_def_cfa_offset 32
    .cfi_offset x29, -32
    .cfi_offset x30, -24
    stp x0, x1, [sp, #16]
    bl msmemscope_dlopen_is_ours
    mov w9, w0
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #32
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa_offset 0
    mov x2, x30
    cbnz w9, msmemscope_dlopen_and_scan
    adrp x16, msmemscope_real_dlopen
    ldr x16, [x16, #:lo12:msmemscope_real_dlopen]
    br x16
    .cfi_endproc
    .size msmemscope_dlopen_entry, .-msmemscope_dlopen_entry
)");
#endif

namespace msmemscope {
namespace {

BoundedLock patch_lock;
std::atomic<bool> installed{false};
// Changes of the set of libraries that were looked at: dl_iterate_phdr counts loads and unloads.
std::atomic<std::uint64_t> seen_changes{0};

// Images patched so far, by load address. An image that is unloaded and another one that takes its
// place are told apart by the count of loads: the set is cleared when anything was unloaded.
constexpr std::size_t kMostImages = 8192;
std::uint64_t patched_images[kMostImages];
std::size_t patched_image_count = 0;
std::uint64_t seen_unloads = 0;

bool is_patched(std::uint64_t start) noexcept {
    for (std::size_t index = 0; index < patched_image_count; ++index) {
        if (patched_images[index] == start) {
            return true;
        }
    }
    return false;
}

// Names that some hook is about, as a filter: most of the many symbols of a large library end here.
constexpr std::size_t kFilterBits = 1024;
bool name_filter[kFilterBits];

std::size_t filter_place(const char* name) noexcept {
    std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
    for (; *name != '\0'; ++name) {
        hash = (hash ^ static_cast<unsigned char>(*name)) * 0x100000001b3ULL;
    }
    return (hash ^ (hash >> 32U)) % kFilterBits;
}

void fill_name_filter() noexcept {
    name_filter[filter_place("dlopen")] = true;
    for (const HookTable& table : kHookTables) {
        for (std::size_t index = 0; index < table.count; ++index) {
            name_filter[filter_place(table.hooks[index].function)] = true;
        }
    }
}

// Whether the slot holds the replacement now.
bool redirect(const ElfImage& image, void** slot, void* replacement, void** previous) noexcept {
    void* const before = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (before == replacement) {
        return true;
    }
    // A slot that points into its own image is a lazy one: calling through it would resolve it and
    // overwrite our value. The real function is then the one that we are bound to ourselves, or the one that
    // find_real_function finds.
    if (previous != nullptr && before != nullptr && !image.contains(reinterpret_cast<std::uint64_t>(before))) {
        __atomic_store_n(previous, before, __ATOMIC_RELEASE);
    }
    return image.store(slot, replacement);
}

bool is_named_by(const ElfImage& image, const char* library) noexcept {
    const std::size_t bytes = std::strlen(library);
    return bytes > 0 && library[bytes - 1] == '*' ? std::strncmp(image.name(), library, bytes - 1) == 0
                                                  : std::strcmp(image.name(), library) == 0;
}

// What came of a table's hooks in one image.
struct Outcome {
    std::uint64_t found = 0;  // a bit for each hook
    std::uint64_t refused = 0;
};

void note_outcome(const ElfImage& image, const HookTable& table, const Outcome& outcome) noexcept {
    const char* told = nullptr;
    for (std::size_t index = 0; index < table.count; ++index) {
        const Hook& hook = table.hooks[index];
        const bool is_named = hook.library != nullptr && is_named_by(image, hook.library);
        const bool found = ((outcome.found >> index) & 1U) != 0;
        const bool refused = ((outcome.refused >> index) & 1U) != 0;
        char key[128];
        if (refused || (is_named && hook.required && !found)) {
            std::snprintf(key, sizeof(key), "unobserved.%s", hook.source);
            char reason[512];
            std::snprintf(reason, sizeof(reason), "%s of %s %s", hook.function, image.path(),
                          refused ? "cannot be redirected" : "is not called through its table");
            recorder::note_fact(key, reason);
        } else if ((found || is_named) && told != hook.source) {
            told = hook.source;
            std::snprintf(key, sizeof(key), "observed.%s", hook.source);
            recorder::note_fact(key, image.path());
        }
    }
}

void patch_image(const ElfImage& image) noexcept {
    Outcome outcomes[std::size(kHookTables)];
    image.for_each_slot([&](const char* symbol, void** slot) noexcept {
        if (!name_filter[filter_place(symbol)]) {
            return;
        }
        if (std::strcmp(symbol, "dlopen") == 0) {
            redirect(image, slot, reinterpret_cast<void*>(&msmemscope_dlopen_entry), nullptr);
            return;
        }
        for (std::size_t number = 0; number < std::size(kHookTables); ++number) {
            const HookTable& table = kHookTables[number];
            for (std::size_t index = 0; index < table.count; ++index) {
                const Hook& hook = table.hooks[index];
                if (std::strcmp(symbol, hook.function) != 0 ||
                    (hook.library != nullptr && !is_named_by(image, hook.library))) {
                    continue;
                }
                outcomes[number].found |= std::uint64_t{1} << index;
                if (!redirect(image, slot, hook.replacement, hook.previous)) {
                    outcomes[number].refused |= std::uint64_t{1} << index;
                }
            }
        }
    });
    for (std::size_t number = 0; number < std::size(kHookTables); ++number) {
        note_outcome(image, kHookTables[number], outcomes[number]);
    }
}

// Is this our own library? Its calls must stay as they are.
bool is_ours(const ElfImage& image) noexcept { return image.contains(reinterpret_cast<std::uint64_t>(&is_patched)); }

int visit_image(dl_phdr_info* info, std::size_t, void*) noexcept {
    if (info->dlpi_subs != seen_unloads) {
        seen_unloads = info->dlpi_subs;
        patched_image_count = 0;
    }
    seen_changes.store(info->dlpi_adds + info->dlpi_subs, std::memory_order_release);
    const ElfImage image(*info);
    if (is_patched(image.start())) {
        return 0;
    }
    if (!is_ours(image)) {
        patch_image(image);
    }
    note_module(image);
    if (patched_image_count < kMostImages) {
        patched_images[patched_image_count++] = image.start();
    }
    return 0;
}

int read_changes(dl_phdr_info* info, std::size_t, void* changes) noexcept {
    *static_cast<std::uint64_t*>(changes) = info->dlpi_adds + info->dlpi_subs;
    return 1;
}

}  // namespace

void install_hooks() noexcept {
    msmemscope_real_dlopen = reinterpret_cast<void*>(&dlopen);
    if (!installed.exchange(true, std::memory_order_acq_rel)) {
        fill_name_filter();
        // Another thread may have been at it when this one forked, and is not there to let go.
        pthread_atfork(nullptr, nullptr, [] { patch_lock.release(); });
    }
    rescan_libraries();
}

void* find_real_function(const char* library, const char* function) noexcept {
    void* found = dlsym(RTLD_DEFAULT, function);
    if (found == nullptr) {
        // Python loads extension modules, and what they are linked to, into local scopes.
        const auto real_dlopen = reinterpret_cast<void* (*)(const char*, int)>(
            msmemscope_real_dlopen != nullptr ? msmemscope_real_dlopen : reinterpret_cast<void*>(&dlopen));
        void* const handle = real_dlopen(library, RTLD_NOLOAD | RTLD_LAZY);
        found = handle != nullptr ? dlsym(handle, function) : nullptr;
    }
    return found;
}

void rescan_libraries() noexcept {
    if (!installed.load(std::memory_order_acquire)) {
        return;
    }
    std::uint64_t changes = 0;
    dl_iterate_phdr(read_changes, &changes);
    if (changes == seen_changes.load(std::memory_order_acquire)) {
        return;
    }
    const BoundedLockGuard guard(patch_lock);
    if (guard) {
        dl_iterate_phdr(visit_image, nullptr);
    }
}

}  // namespace msmemscope

int msmemscope_dlopen_is_ours(const char* name) noexcept {
    // Null is the program itself. "$ORIGIN" in a name means the caller's folder.
    return name != nullptr && std::strchr(name, '$') == nullptr ? 1 : 0;
}

void* msmemscope_dlopen_and_scan(const char* name, int flags, const void* caller) noexcept {
    const auto real_dlopen = reinterpret_cast<void* (*)(const char*, int)>(msmemscope_real_dlopen);
    char found[4200];
    void* handle = nullptr;
    if (std::strchr(name, '/') == nullptr) {
        // A library of that name that is loaded already comes first, then the caller's own search path;
        // what is left (LD_LIBRARY_PATH, the cache, the system's folders) is the same for every caller.
        handle = real_dlopen(name, flags | RTLD_NOLOAD);
        if (handle == nullptr && msmemscope::find_on_search_path_of(caller, name, found, sizeof(found))) {
            name = found;
        }
    }
    if (handle == nullptr) {
        handle = real_dlopen(name, flags);
    }
    const msmemscope::KeepErrno keep_errno;
    msmemscope::rescan_libraries();
    return handle;
}

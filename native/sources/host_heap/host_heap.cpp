#include "sources/host_heap/host_heap.h"

#include <linux/magic.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "core/observe/host_samples.h"
#include "core/stacks/modules.h"
#include "core/writer/keep_errno.h"
#include "core/writer/recorder.h"

namespace msmemscope::host_heap {
namespace {

using host_samples::is_due;
using host_samples::may_be_sample;
using host_samples::note_allocation;

// Analyses tell shared memory by it.
constexpr const char* kSharedMap = "mmap(MAP_SHARED)";

// Nearly all calls take only two or three instructions here. Everything beyond them stays out of their way.
template <typename Allocate>
__attribute__((noinline)) void* allocate_due(Allocate allocate, std::size_t bytes, const char* function,
                                             CallSite site) {
    void* const memory = allocate();
    note_allocation(memory, bytes, function, site);
    return memory;
}

void* allocate(const Call<void*(std::size_t)>& call, std::size_t bytes) {
    if (!is_due(bytes)) {
        return call.real(bytes);
    }
    return allocate_due([real = call.real, bytes] { return real(bytes); }, bytes, "malloc", call.site);
}

void* allocate_zeros(const Call<void*(std::size_t, std::size_t)>& call, std::size_t count, std::size_t each) {
    const std::size_t bytes = count * each;  // where that is too large, the call fails
    if (!is_due(bytes)) {
        return call.real(count, each);
    }
    return allocate_due([real = call.real, count, each] { return real(count, each); }, bytes, "calloc", call.site);
}

void* allocate_aligned(const Call<void*(std::size_t, std::size_t)>& call, std::size_t alignment, std::size_t bytes) {
    if (!is_due(bytes)) {
        return call.real(alignment, bytes);
    }
    return allocate_due([real = call.real, alignment, bytes] { return real(alignment, bytes); }, bytes, "aligned_alloc",
                        call.site);
}

// A name of its own: hooks with one body share their entries.
void* allocate_by_memalign(const Call<void*(std::size_t, std::size_t)>& call, std::size_t alignment,
                           std::size_t bytes) {
    if (!is_due(bytes)) {
        return call.real(alignment, bytes);
    }
    return allocate_due([real = call.real, alignment, bytes] { return real(alignment, bytes); }, bytes, "memalign",
                        call.site);
}

int allocate_posix(const Call<int(void**, std::size_t, std::size_t)>& call, void** memory, std::size_t alignment,
                   std::size_t bytes) {
    const int result = call.real(memory, alignment, bytes);
    if (is_due(bytes)) {
        note_allocation(result == 0 ? *memory : nullptr, bytes, "posix_memalign", call.site);
    }
    return result;
}

// The end of one block and the beginning of another, also where it stays in its place.
template <typename Reallocate>
__attribute__((noinline)) void* reallocate_slowly(Reallocate reallocate, void* memory, std::size_t bytes, bool is_due,
                                                  const char* function, CallSite site) {
    host_samples::TakenSample sample{};
    const bool was_sample = memory != nullptr && may_be_sample(memory) && host_samples::take(memory, sample);
    void* const result = reallocate();
    if (was_sample && result == nullptr && bytes != 0) {
        host_samples::put_back(sample);
    } else if (was_sample) {
        host_samples::note_free(sample);
    }
    if (is_due) {
        note_allocation(result, bytes, function, site);
    }
    return result;
}

void* reallocate(const Call<void*(void*, std::size_t)>& call, void* memory, std::size_t bytes) {
    const bool due = is_due(bytes);
    if (!due && !may_be_sample(memory)) {
        return call.real(memory, bytes);
    }
    return reallocate_slowly([real = call.real, memory, bytes] { return real(memory, bytes); }, memory, bytes, due,
                             "realloc", call.site);
}

void* reallocate_array(const Call<void*(void*, std::size_t, std::size_t)>& call, void* memory, std::size_t count,
                       std::size_t each) {
    const std::size_t bytes = count * each;
    const bool due = is_due(bytes);
    if (!due && !may_be_sample(memory)) {
        return call.real(memory, count, each);
    }
    return reallocate_slowly([real = call.real, memory, count, each] { return real(memory, count, each); }, memory,
                             bytes, due, "reallocarray", call.site);
}

void free(const Call<void(void*)>& call, void* memory) {
    if (may_be_sample(memory)) {
        host_samples::end(memory);
    }
    call.real(memory);
}

// A file that lies in memory, as those of /dev/shm do. Anonymous memory that is shared has no file.
bool is_file_in_memory(int file) noexcept {
    const KeepErrno keep_errno;
    struct statfs system{};
    return fstatfs(file, &system) == 0 && (system.f_type == TMPFS_MAGIC || system.f_type == HUGETLBFS_MAGIC);
}

// The name of the function that samples of a mapping have; null if it does not count. A writable mapping may count that
// is private and has no file, or is shared. These say nothing of memory that is taken:
// - a large mapping that only reserves: where the kernel overcommits, jemalloc maps all of its memory in that way;
// - a mapping at a place that was mapped already;
// - somebody's stack.
const char* counted_as(std::size_t bytes, int protection, int flags) noexcept {
    constexpr int kOthers = MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_STACK | MAP_GROWSDOWN;
    constexpr std::size_t kLargeReserve = 64UL << 20U;
    const bool is_reserve = (flags & MAP_NORESERVE) != 0 && bytes >= kLargeReserve;
    if ((protection & PROT_WRITE) == 0 || (flags & kOthers) != 0 || is_reserve) {
        return nullptr;
    }
    const bool is_anonymous = (flags & MAP_ANONYMOUS) != 0;
    if ((flags & MAP_SHARED) != 0) {
        return kSharedMap;
    }
    return is_anonymous ? "mmap" : nullptr;
}

// Of a shared mapping its file is looked at here, where it is rare: on a network file system that asks its server.
__attribute__((noinline)) void note_mapping(void* memory, std::size_t bytes, int flags, int file, const char* function,
                                            CallSite site) {
    // Memory of the program's own malloc is counted where the program takes it.
    const bool is_reserve = is_allocator_code(reinterpret_cast<std::uint64_t>(site.return_address));
    const bool takes_memory =
        memory != MAP_FAILED && !is_reserve && ((flags & MAP_ANONYMOUS) != 0 || is_file_in_memory(file));
    note_allocation(takes_memory ? memory : nullptr, bytes, function, site);
}

void* map(const Call<void*(void*, std::size_t, int, int, int, off_t)>& call, void* place, std::size_t bytes,
          int protection, int flags, int file, off_t offset) {
    void* const memory = call.real(place, bytes, protection, flags, file, offset);
    const char* const function = counted_as(bytes, protection, flags);
    if (function != nullptr && is_due(bytes)) {
        note_mapping(memory, bytes, flags, file, function, call.site);
    }
    return memory;
}

void* map_64(const Call<void*(void*, std::size_t, int, int, int, off64_t)>& call, void* place, std::size_t bytes,
             int protection, int flags, int file, off64_t offset) {
    void* const memory = call.real(place, bytes, protection, flags, file, offset);
    const char* const function = counted_as(bytes, protection, flags);
    if (function != nullptr && is_due(bytes)) {
        note_mapping(memory, bytes, flags, file, function, call.site);
    }
    return memory;
}

int unmap(const Call<int(void*, std::size_t)>& call, void* memory, std::size_t bytes) {
    if (may_be_sample(memory)) {
        host_samples::end(memory);
    }
    return call.real(memory, bytes);
}

void* place_of(pthread_t thread) noexcept { return reinterpret_cast<void*>(thread); }

// The thread that was just created. It may have ended, and what held its number may be gone with it, so the kernel
// reads.
bool read_thread(const pthread_t* place, pthread_t& thread) noexcept {
    const KeepErrno keep_errno;
    const iovec here{&thread, sizeof(thread)};
    const iovec there{const_cast<pthread_t*>(place), sizeof(thread)};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == static_cast<ssize_t>(sizeof(thread));
}

// The most that the stack of a new thread may take.
std::uint64_t stack_bytes_of(const pthread_attr_t* attributes) noexcept {
    constexpr std::uint64_t kWithoutLimit = 2UL << 20U;  // of glibc, where the limit is infinite
    std::size_t asked = 0;
    if (attributes != nullptr && pthread_attr_getstacksize(attributes, &asked) == 0) {
        return asked;
    }
    rlimit limit{};
    return getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : kWithoutLimit;
}

int create_thread(const Call<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>& call, pthread_t* thread,
                  const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
    const int result = call.real(thread, attributes, start, argument);
    pthread_t created{};
    if (result != 0 || !host_samples::are_taken() || !read_thread(thread, created)) {
        return result;
    }
    host_samples::note_end_of_thread(place_of(created));
    if (may_be_sample(place_of(created))) {
        host_samples::end(place_of(created));  // a thread that nobody joined has ended, and left its place to this one
    }
    host_samples::note_thread(place_of(created), stack_bytes_of(attributes), call.site);
    return 0;
}

int join_thread(const Call<int(pthread_t, void**)>& call, pthread_t thread, void** result) {
    host_samples::TakenSample sample{};
    host_samples::note_end_of_thread(place_of(thread));
    const bool was_sample = may_be_sample(place_of(thread)) && host_samples::take(place_of(thread), sample);
    const int error = call.real(thread, result);
    if (was_sample && error != 0) {
        host_samples::put_back(sample);
    } else if (was_sample) {
        host_samples::note_free(sample);
    }
    return error;
}

constexpr Hook kHookList[] = {
    hook<&create_thread>(nullptr, "pthread_create", nullptr),
    hook<&join_thread>(nullptr, "pthread_join", nullptr),
    hook<&allocate>(nullptr, "malloc", nullptr),
    hook<&allocate_zeros>(nullptr, "calloc", nullptr),
    hook<&reallocate>(nullptr, "realloc", nullptr),
    hook<&reallocate_array>(nullptr, "reallocarray", nullptr),
    hook<&allocate_posix>(nullptr, "posix_memalign", nullptr),
    hook<&allocate_aligned>(nullptr, "aligned_alloc", nullptr),
    hook<&allocate_by_memalign>(nullptr, "memalign", nullptr),
    hook<&free>(nullptr, "free", nullptr),
    hook<&map>(nullptr, "mmap", nullptr),
    hook<&map_64>(nullptr, "mmap64", nullptr),
    hook<&unmap>(nullptr, "munmap", nullptr),
};

bool begins_with(const char* text, const char* beginning) noexcept {
    return std::strncmp(text, beginning, std::strlen(beginning)) == 0;
}

// Not the dynamic loader, which calls while it changes its own lists; not our extension.
bool takes(const char* image) noexcept {
    const HostSampling sampling = recorder::settings().host_sampling;
    const bool is_wanted = sampling == HostSampling::kSampled || sampling == HostSampling::kAll;
    return is_wanted && std::strcmp(image, "libc10.so") != 0 && !begins_with(image, "ld-linux") &&
           !begins_with(image, "ld-musl") && !begins_with(image, "_native.") && !begins_with(image, "_memray.");
}

}  // namespace

const HookTable kHooks = table_of(kHookList, takes, Names::kKnown);

}  // namespace msmemscope::host_heap

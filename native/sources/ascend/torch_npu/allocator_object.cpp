#include "sources/ascend/torch_npu/allocator_object.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>

namespace msmemscope::allocator_trace {
namespace {

// The versions of torch_npu with this layout, each looked at by itself. The class and its entries in 2.14.0 are those
// of 2.13.0, function by function. The allocator of 2.10 has 48 functions, and none that attaches a tracker.
constexpr const char* kVersions[] = {"2.13.0", "2.14.0"};
constexpr char kAllocatorSymbol[] = "_ZN7c10_npu19NPUCachingAllocator9allocatorE";
constexpr char kAllocatorType[] = "N7c10_npu19NPUCachingAllocator19NpuCachingAllocatorE";
// Its virtual functions: how many, which one attaches a tracker, which one it has from torch itself.
constexpr std::size_t kFunctions = 59;
constexpr std::size_t kAttachFunction = 57;
constexpr std::size_t kFunctionOfTorch = 3;

// The layout of std::type_info, and of a table of virtual functions with the two words in front of them.
struct TypeInfo {
    const void* functions;
    const char* name;
};
struct Functions {
    std::ptrdiff_t offset_to_top;
    const TypeInfo* type;
    void* functions[kFunctions + 1];
};

// Begin of the loaded file that an address is in; null if there is none.
const void* image_of(const void* address) noexcept {
    Dl_info found{};
    return address != nullptr && dladdr(address, &found) != 0 ? found.dli_fbase : nullptr;
}

bool is_known(const char* version) noexcept {
    return std::any_of(std::begin(kVersions), std::end(kVersions),
                       [version](const char* known) { return std::strcmp(version, known) == 0; });
}

// Why this is not the allocator that we know; null if it is.
const char* why_unknown(AllocatorObject allocator, const void* image) noexcept {
    if (allocator == nullptr) {
        return "it is not there yet";
    }
    if (image_of(*allocator) != image) {
        return "another allocator is in its place";
    }
    const auto* const known = reinterpret_cast<const Functions*>(*allocator - 2);
    if (known->offset_to_top != 0 || image_of(known->type) != image || image_of(known->type->name) != image ||
        std::strcmp(known->type->name, kAllocatorType) != 0) {
        return "another allocator is in its place";
    }
    for (std::size_t number = 0; number <= kFunctions; ++number) {
        const void* const found = image_of(known->functions[number]);
        const bool is_right = number == kFunctions         ? found == nullptr
                              : number == kFunctionOfTorch ? found != nullptr && found != image
                                                           : found == image;
        if (!is_right) {
            return "its class is not laid out as that of this version was";
        }
    }
    return nullptr;
}

}  // namespace

const char* find_allocator(const char* version, AllocatorObject& allocator) noexcept {
    if (version == nullptr || !is_known(version)) {
        return "its trace tracker is known of torch_npu 2.13.0 and 2.14.0 alone";
    }
    void* const library = dlopen("libtorch_npu.so", RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) {
        return "libtorch_npu.so is not loaded";
    }
    const void* const place = dlsym(library, kAllocatorSymbol);
    dlclose(library);  // Python keeps it
    if (place == nullptr) {
        return "libtorch_npu.so does not export it";
    }
    allocator = *static_cast<AllocatorObject const*>(place);
    return why_unknown(allocator, image_of(place));
}

void* attach_function(AllocatorObject allocator) noexcept { return (*allocator)[kAttachFunction]; }

}  // namespace msmemscope::allocator_trace

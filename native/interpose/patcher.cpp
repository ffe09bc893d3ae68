#include "interpose/patcher.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "core/stacks/modules.h"
#include "core/stacks/unwind_tables.h"
#include "core/writer/keep_errno.h"
#include "core/writer/library_list.h"
#include "interpose/elf_image.h"
#include "interpose/hook.h"
#include "interpose/loading.h"

namespace msmemscope {
namespace {

// Everything here is read and written with the loader's lock held, except this.
std::atomic<bool> installed{false};

// How many images the loader had added to its list when we last looked through it (dlpi_adds). The loader appends to
// the list, and an unloaded image leaves no gap. So the new images are the last ones, at most as many as were added.
std::uint64_t seen_additions = 0;

// The beginning of the file name of the Python extension. The rest differs from one Python to another.
constexpr const char* kExtensionName = "_native.";
constexpr const char* kCoreLibraryName = "libmsmemscope_core.so";

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
    name_filter[filter_place("dlsym")] = true;
    for (std::size_t number = 0; number < kHookTables.count; ++number) {
        const HookTable* const table = kHookTables.tables[number];
        for (std::size_t index = 0; index < table->count; ++index) {
            name_filter[filter_place(table->hooks[index].function)] = true;
        }
    }
}

// The loaded image that defines a function: the one that another image means with it.
struct Search {
    const ElfImage& user;
    const char* function;
    void* needed;   // of an image that the user is linked to
    void* any;      // of whichever image
    bool is_clear;  // no two images have it
};

int look_for_definition(dl_phdr_info* info, std::size_t, void* argument) noexcept {
    auto& search = *static_cast<Search*>(argument);
    const ElfImage image(*info);
    void* const found = image.definition_of(search.function);
    if (found == nullptr) {
        return 0;
    }
    if (search.needed == nullptr && search.user.needs(image.name())) {
        search.needed = found;
    }
    search.is_clear = search.is_clear && search.any == nullptr;
    search.any = found;
    return 0;
}

// Is this only the program's stand-in for a function of that name? The program is the first image of the list.
bool is_stand_in(const void* place, const char* function) noexcept {
    struct Question {
        const void* place;
        const char* function;
        bool is_stand_in;
    } question{place, function, false};
    walk_libraries(
        [](dl_phdr_info* info, std::size_t, void* argument) {
            auto& asked = *static_cast<Question*>(argument);
            const ElfImage program(*info);
            asked.is_stand_in = program.contains(reinterpret_cast<std::uint64_t>(asked.place)) &&
                                program.stand_in_for(asked.function) == asked.place;
            return 1;
        },
        &question, DuringFork::kWait);
    return question.is_stand_in;
}

// The function that the loader has stored in a slot. A lazy slot may still lead into the image's own table. Then it is
// the function that the loader will store. Null if there is none, or if it cannot be known.
void* stored_or_searched(const ElfImage& image, const ElfImage::Slot& slot) noexcept {
    void* const held = __atomic_load_n(slot.place, __ATOMIC_ACQUIRE);
    if (!image.contains(reinterpret_cast<std::uint64_t>(held)) || held == slot.own) {
        return held;
    }
    // We search as the loader does: the global scope first. It would search the scope next into which the image was
    // loaded. There is no function for that, and asking for a handle of the image would run constructors before their
    // time. So we look at the image itself, then at those it is linked to, and then at all. A definition in any other
    // image counts only if no second image has one.
    void* const found = dlsym(RTLD_DEFAULT, slot.symbol);
    if (found != nullptr) {
        return found;
    }
    dlerror();  // the program shall not find our errors
    if (void* const own = image.definition_of(slot.symbol); own != nullptr) {
        return own;
    }
    Search search{image, slot.symbol, nullptr, nullptr, true};
    walk_libraries(look_for_definition, &search, DuringFork::kWait);
    return search.needed != nullptr || !search.is_clear ? search.needed : search.any;
}

// The function that a slot leads to; null as above. A stand-in leads to the slot of the program itself, so it must not
// be taken for the function. The hook in that slot would call the stand-in, and so call itself again.
void* function_behind(const ElfImage& image, const ElfImage::Slot& slot) noexcept {
    void* const place = stored_or_searched(image, slot);
    return place != nullptr && is_stand_in(place, slot.symbol) ? find_function(slot.symbol) : place;
}

enum class Redirected { kNo, kYes, kRefused };

Redirected redirect(const ElfImage& image, const ElfImage::Slot& slot, const Hook& hook) noexcept {
    HookEntries& entries = *hook.entries;
    void* const held = __atomic_load_n(slot.place, __ATOMIC_ACQUIRE);
    if (std::find(std::begin(entries.replacement), std::end(entries.replacement), held) !=
        std::end(entries.replacement)) {
        return Redirected::kYes;
    }
    // The program's stand-in leads to the hook by itself. Left as it is, the function has one address for all still.
    if (hook.library == nullptr && !image.contains(reinterpret_cast<std::uint64_t>(held)) &&
        is_stand_in(held, slot.symbol)) {
        return Redirected::kYes;
    }
    // A weak symbol that nothing defines stays null: the program looks whether it is.
    void* const function = function_behind(image, slot);
    if (function == nullptr) {
        return Redirected::kNo;
    }
    void* const entry = replacement_of(entries, function);
    return entry != nullptr && image.store(slot.place, entry) ? Redirected::kYes : Redirected::kRefused;
}

void redirect(const ElfImage& image, const ElfImage::Slot& slot, const LoaderCall& call) noexcept {
    if (function_behind(image, slot) == call.real) {
        image.store(slot.place, call.replacement);
    }
}

bool is_named_by(const ElfImage& image, const char* library) noexcept {
    const std::size_t bytes = std::strlen(library);
    return bytes > 0 && library[bytes - 1] == '*' ? std::strncmp(image.name(), library, bytes - 1) == 0
                                                  : std::strcmp(image.name(), library) == 0;
}

// The result of a table's hooks in one image.
struct Outcome {
    std::uint64_t found = 0;  // a bit for each hook
    std::uint64_t refused = 0;
};

void note_outcome(const ElfImage& image, const HookTable& table, const Outcome& outcome) noexcept {
    const char* noted = nullptr;
    for (std::size_t index = 0; index < table.count; ++index) {
        const Hook& hook = table.hooks[index];
        const bool is_named = hook.library != nullptr && is_named_by(image, hook.library);
        const bool found = ((outcome.found >> index) & 1U) != 0;
        const bool refused = ((outcome.refused >> index) & 1U) != 0;
        if (hook.source == nullptr) {
            continue;
        }
        char key[128];
        if (refused || (is_named && hook.required && !found)) {
            std::snprintf(key, sizeof(key), "unobserved.%s", hook.source);
            char reason[512];
            std::snprintf(reason, sizeof(reason), "%s of %s %s", hook.function, image.path(),
                          refused ? "cannot be redirected" : "is not called through its table");
            recorder::note_fact(key, reason);
        } else if ((found || is_named) && noted != hook.source) {
            noted = hook.source;
            std::snprintf(key, sizeof(key), "observed.%s", hook.source);
            recorder::note_fact(key, image.path());
        }
    }
}

void patch_image(const ElfImage& image) noexcept {
    Outcome outcomes[HookTables::kMost];
    bool takes[HookTables::kMost];
    for (std::size_t number = 0; number < kHookTables.count; ++number) {
        const auto takes_image = kHookTables.tables[number]->takes;
        takes[number] = takes_image == nullptr || takes_image(image.name());
    }
    image.for_each_slot([&](const ElfImage::Slot& slot) noexcept {
        if (!name_filter[filter_place(slot.symbol)]) {
            return;
        }
        if (const LoaderCall call = loader_call(slot.symbol); call.replacement != nullptr) {
            redirect(image, slot, call);
            return;
        }
        for (std::size_t number = 0; number < kHookTables.count; ++number) {
            const HookTable& table = *kHookTables.tables[number];
            for (std::size_t index = 0; takes[number] && index < table.count; ++index) {
                const Hook& hook = table.hooks[index];
                if (std::strcmp(slot.symbol, hook.function) != 0 ||
                    (hook.library != nullptr && !is_named_by(image, hook.library))) {
                    continue;
                }
                const Redirected result = redirect(image, slot, hook);
                outcomes[number].found |= std::uint64_t{result != Redirected::kNo} << index;
                outcomes[number].refused |= std::uint64_t{result == Redirected::kRefused} << index;
            }
        }
    });
    for (std::size_t number = 0; number < kHookTables.count; ++number) {
        note_outcome(image, *kHookTables.tables[number], outcomes[number]);
    }
}

// Is this our own library? Its calls must stay as they are.
bool is_ours(const ElfImage& image) noexcept { return image.contains(reinterpret_cast<std::uint64_t>(&patch_image)); }

// Whether an image is our Python extension. Its frames count as ours in stacks, because the program calls us through
// it.
bool is_extension(const ElfImage& image) noexcept {
    return std::strncmp(image.name(), kExtensionName, std::strlen(kExtensionName)) == 0 &&
           image.needs(kCoreLibraryName);
}

// The loader's list: how many images are in it, and how many were ever added.
struct List {
    std::uint64_t images;
    std::uint64_t additions;
};

int count_image(dl_phdr_info* info, std::size_t, void* argument) noexcept {
    auto& list = *static_cast<List*>(argument);
    ++list.images;
    list.additions = info->dlpi_adds;
    return 0;
}

// Some images of the list, from a place in it on. They are patched after the loader let go of its list. Other threads
// need that list to unwind, and looking up functions needs another lock of the loader's.
struct Part {
    std::uint64_t skipped;
    std::size_t count;
    dl_phdr_info images[128];
};

int copy_image(dl_phdr_info* info, std::size_t, void* argument) noexcept {
    auto& part = *static_cast<Part*>(argument);
    if (part.skipped > 0) {
        --part.skipped;
        return 0;
    }
    part.images[part.count++] = *info;
    return part.count == std::size(part.images) ? 1 : 0;
}

}  // namespace

void install_hooks() noexcept {
    fill_name_filter();
    set_loader_search(find_function("_dl_find_object"));
    installed.store(true, std::memory_order_release);
    patch_under_loader_lock();
}

void* find_function(const char* name) noexcept {
    struct Found {
        const char* name;
        void* function;
    } found{name, nullptr};
    walk_libraries(
        [](dl_phdr_info* info, std::size_t, void* argument) {
            auto& search = *static_cast<Found*>(argument);
            search.function = ElfImage(*info).definition_of(search.name);
            return search.function != nullptr ? 1 : 0;
        },
        &found, DuringFork::kWait);
    return found.function;
}

void* replacement_of(HookEntries& entries, void* function) noexcept {
    if (std::find(std::begin(entries.replacement), std::end(entries.replacement), function) !=
        std::end(entries.replacement)) {
        return function;  // it leads to the hook already
    }
    for (std::size_t number = 0; number < kHookEntries; ++number) {
        void* held = nullptr;
        if (__atomic_compare_exchange_n(&entries.real[number], &held, function, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE) ||
            held == function) {
            return entries.replacement[number];
        }
    }
    return nullptr;
}

void* replacement_by_name(const char* name, void* handle) noexcept {
    // With RTLD_NEXT a caller asks for the function behind itself, because it stands in front of such a function. It
    // gets the function itself.
    if (handle == RTLD_NEXT || !installed.load(std::memory_order_acquire) || !name_filter[filter_place(name)]) {
        return nullptr;
    }
    for (std::size_t number = 0; number < kHookTables.count; ++number) {
        const HookTable& table = *kHookTables.tables[number];
        for (std::size_t index = 0; table.names != Names::kPassed && index < table.count; ++index) {
            if (std::strcmp(table.hooks[index].function, name) != 0) {
                continue;
            }
            HookEntries& entries = *table.hooks[index].entries;
            void* const function = dlsym(handle, name);
            if (table.names == Names::kAll) {
                return function != nullptr ? replacement_of(entries, function) : nullptr;
            }
            for (std::size_t entry = 0; function != nullptr && entry < kHookEntries; ++entry) {
                if (__atomic_load_n(&entries.real[entry], __ATOMIC_ACQUIRE) == function) {
                    return entries.replacement[entry];
                }
            }
            return nullptr;
        }
    }
    return nullptr;
}

void patch_new_images() noexcept {
    if (!installed.load(std::memory_order_acquire)) {
        return;
    }
    List list{};
    walk_libraries(count_image, &list, DuringFork::kWait);
    const std::uint64_t fresh = std::min(list.additions - seen_additions, list.images);
    seen_additions = list.additions;
    static Part part;
    for (std::uint64_t next = list.images - fresh; next < list.images; next += part.count) {
        part.skipped = next;
        part.count = 0;
        walk_libraries(copy_image, &part, DuringFork::kWait);
        for (std::size_t index = 0; index < part.count; ++index) {
            const ElfImage image(part.images[index]);
            const bool is_core = is_ours(image);
            if (!is_core) {
                patch_image(image);
            }
            // A program that the core is linked into, such as tests of it, has frames of its own.
            const bool is_program = image.path()[0] == '\0';
            note_module({image.path(), image.load_bias(), image.start(), image.end(), image.build_id(),
                         image.build_id_bytes(), (is_core && !is_program) || is_extension(image)});
        }
        if (part.count == 0) {
            return;
        }
    }
}

}  // namespace msmemscope

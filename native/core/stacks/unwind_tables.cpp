#include "core/stacks/unwind_tables.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstddef>
#include <cstring>

#include "core/stacks/frame_tables.h"
#include "core/writer/library_list.h"

namespace msmemscope {
namespace {

// struct dl_find_object of glibc's dlfcn.h, as 64-bit machines have it.
struct FoundObject {
    std::uint64_t flags;
    void* start;
    void* end;
    const link_map* library;
    const unsigned char* index;  // .eh_frame_hdr
    std::uint64_t reserved[8];
};
using LoaderSearch = int (*)(void* address, FoundObject* result);

std::atomic<LoaderSearch> loader_search{nullptr};

// A mapped part of a library, and the index of the library's tables.
struct CodeRange {
    std::uint64_t start;
    std::uint64_t end;  // exclusive
    const unsigned char* index;
};

// The code ranges that were asked for last. The loader calls us with its lock held, so one thread at a time looks at
// them. A signal handler of that thread can come in between, so a range is made empty before it is written.
// ThreadSanitizer does not know that lock.
#define MSMEMSCOPE_UNDER_LOADER_LOCK __attribute__((no_sanitize("thread")))
constexpr std::size_t kMostRemembered = 32;
struct Remembered {
    std::uint64_t additions;  // of the loader's list, when they were found
    std::uint64_t removals;
    std::size_t next;  // to be overwritten
    CodeRange ranges[kMostRemembered];
};
Remembered remembered{};

MSMEMSCOPE_UNDER_LOADER_LOCK const unsigned char* remembered_index(std::uint64_t address) noexcept {
    for (const CodeRange& range : remembered.ranges) {
        if (address >= range.start && address < range.end) {
            return range.index;
        }
    }
    return nullptr;
}

MSMEMSCOPE_UNDER_LOADER_LOCK void remember(const CodeRange& range) noexcept {
    CodeRange& place = remembered.ranges[remembered.next++ % kMostRemembered];
    place.end = 0;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    place.start = range.start;
    place.index = range.index;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    place.end = range.end;
}

MSMEMSCOPE_UNDER_LOADER_LOCK void forget_unless_current(const dl_phdr_info& info) noexcept {
    if (remembered.additions == info.dlpi_adds && remembered.removals == info.dlpi_subs) {
        return;
    }
    for (CodeRange& range : remembered.ranges) {
        range.end = 0;
    }
    std::atomic_signal_fence(std::memory_order_seq_cst);
    remembered.additions = info.dlpi_adds;
    remembered.removals = info.dlpi_subs;
}

struct ListSearch {
    std::uint64_t address;
    const unsigned char* index;
    bool begun;
};

// Called for each library of the loader's list; all calls of one search see the same list.
int look_at_library(dl_phdr_info* info, std::size_t, void* argument) noexcept {
    auto& search = *static_cast<ListSearch*>(argument);
    if (!search.begun) {
        search.begun = true;
        forget_unless_current(*info);
        search.index = remembered_index(search.address);
        if (search.index != nullptr) {
            return 1;
        }
    }
    CodeRange range{};
    for (std::size_t number = 0; number < info->dlpi_phnum; ++number) {
        const ElfW(Phdr)& part = info->dlpi_phdr[number];
        const std::uint64_t start = info->dlpi_addr + part.p_vaddr;
        if (part.p_type == PT_GNU_EH_FRAME) {
            range.index = reinterpret_cast<const unsigned char*>(start);
        } else if (part.p_type == PT_LOAD && search.address >= start && search.address - start < part.p_memsz) {
            range.start = start;
            range.end = start + part.p_memsz;
        }
    }
    if (range.end == 0) {
        return 0;
    }
    if (range.index != nullptr) {
        remember(range);
        search.index = range.index;
    }
    return 1;
}

const unsigned char* find_index(std::uint64_t address) noexcept {
    const LoaderSearch loader = loader_search.load(std::memory_order_relaxed);
    if (loader != nullptr) {
        FoundObject object;  // all written if something is found
        return loader(reinterpret_cast<void*>(address), &object) == 0 ? object.index : nullptr;
    }
    ListSearch search{address, nullptr, false};
    walk_libraries(look_at_library, &search, DuringFork::kGiveUp);
    return search.index;
}

// Encodings of a pointer (DW_EH_PE): relative to its own place, and that of an index whose table is sorted.
constexpr unsigned char kRelativeToPlace = 0x10;
constexpr unsigned char kSortedTable =
    0x3B;  // two 32-bit offsets from the index an entry: of a function, of its tables
constexpr unsigned char kNotThere = 0xFF;

// An encoded pointer, behind which the reader stands then; false if it is of a kind that tables of libraries do not
// have.
bool read_pointer(Reader& reader, unsigned char encoding, std::uint64_t& value) noexcept {
    const auto place = reinterpret_cast<std::uint64_t>(reader.at);
    const bool is_signed = (encoding & 0x08U) != 0;
    switch (encoded_bytes(encoding)) {
        case 2:
            value =
                is_signed ? static_cast<std::uint64_t>(reader.number<std::int16_t>()) : reader.number<std::uint16_t>();
            break;
        case 4:
            value =
                is_signed ? static_cast<std::uint64_t>(reader.number<std::int32_t>()) : reader.number<std::uint32_t>();
            break;
        case 8:
            value = reader.number<std::uint64_t>();
            break;
        default:
            return false;
    }
    switch (encoding & 0xF0U) {
        case 0:
            return true;
        case kRelativeToPlace:
            value += place;
            return true;
        default:
            return false;
    }
}

// The function that an FDE is about; its end is 0 if the FDE cannot be read. A CIE in its place has no function either.
struct Function {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
};

// How nearly all libraries have their common entries: augmentation "zR", numbers of one byte, four-byte addresses that
// are relative to their place. To read no more than that is a third of a search.
bool is_usual(const unsigned char* common) noexcept {
    constexpr std::size_t kAugmentationAt = 9;
    constexpr std::size_t kEncodingAt = 16;
    constexpr unsigned char kUsualEncoding = 0x1B;
    const unsigned char* const numbers = common + kAugmentationAt + sizeof("zR");
    return common[kAugmentationAt - 1] == 1 && std::memcmp(common + kAugmentationAt, "zR", sizeof("zR")) == 0 &&
           (numbers[0] | numbers[1] | numbers[2] | numbers[3]) < 0x80 && common[kEncodingAt] == kUsualEncoding;
}

Function function_of(const unsigned char* description) noexcept {
    Reader reader{description + sizeof(std::uint32_t)};
    const unsigned char* const common_at = reader.at;
    const auto distance = reader.number<std::int32_t>();
    if (distance == 0) {
        return {};
    }
    Function function;
    if (is_usual(common_at - distance)) {
        function.start = reinterpret_cast<std::uint64_t>(reader.at);
        function.start += static_cast<std::uint64_t>(reader.number<std::int32_t>());
        function.end = function.start + reader.number<std::uint32_t>();
        return function;
    }
    CommonEntry common;
    std::uint64_t bytes = 0;
    if (!common.read(common_at - distance) || !read_pointer(reader, common.pointer_encoding, function.start) ||
        !read_pointer(reader, common.pointer_encoding & 0x0FU, bytes)) {
        return {};
    }
    function.end = function.start + bytes;
    return function;
}

FunctionTables tables_if_within(const unsigned char* description, std::uint64_t address) noexcept {
    const Function function = function_of(description);
    if (address < function.start || address >= function.end) {
        return {};
    }
    return {description, function.start};
}

struct TableEntry {
    std::int32_t function;
    std::int32_t description;
};

// The last entry whose function begins at the address or below; null if there is none.
const TableEntry* last_below(const TableEntry* entries, std::size_t count, std::int64_t address) noexcept {
    std::size_t low = 0;
    std::size_t high = count;
    while (low < high) {
        const std::size_t middle = low + (high - low) / 2;
        if (entries[middle].function <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low == 0 ? nullptr : &entries[low - 1];
}

// The linker makes no table if it could not read all of .eh_frame; then all of that is looked at.
FunctionTables search_all(std::uint64_t first, std::uint64_t address) noexcept {
    const auto* at = reinterpret_cast<const unsigned char*>(first);
    for (;;) {
        const auto length = Reader{at}.number<std::uint32_t>();
        if (length == 0 || length == 0xFFFFFFFFU) {  // the end, or one of 4 GB or more
            return {};
        }
        const FunctionTables tables = tables_if_within(at, address);
        if (tables.description != nullptr) {
            return tables;
        }
        at += sizeof(length) + length;
    }
}

}  // namespace

void set_loader_search(void* dl_find_object) noexcept {
    loader_search.store(reinterpret_cast<LoaderSearch>(dl_find_object), std::memory_order_relaxed);
}

FunctionTables search_index(const unsigned char* index, std::uint64_t address) noexcept {
    Reader reader{index};
    const auto version = reader.number<unsigned char>();
    const auto frames_encoding = reader.number<unsigned char>();
    const auto count_encoding = reader.number<unsigned char>();
    const auto table_encoding = reader.number<unsigned char>();
    std::uint64_t first = 0;
    if (version != 1 || !read_pointer(reader, frames_encoding, first)) {
        return {};
    }
    std::uint64_t count = 0;
    if (table_encoding != kSortedTable || count_encoding == kNotThere || !read_pointer(reader, count_encoding, count)) {
        return search_all(first, address);
    }
    const TableEntry* const entry =
        last_below(reinterpret_cast<const TableEntry*>(reader.at), static_cast<std::size_t>(count),
                   static_cast<std::int64_t>(address - reinterpret_cast<std::uint64_t>(index)));
    return entry == nullptr ? FunctionTables{} : tables_if_within(index + entry->description, address);
}

const char* find_library(const void* address) noexcept {
    const LoaderSearch loader = loader_search.load(std::memory_order_relaxed);
    if (loader != nullptr) {
        FoundObject object;
        return loader(const_cast<void*>(address), &object) == 0 && object.library != nullptr ? object.library->l_name
                                                                                             : nullptr;
    }
    Dl_info found{};
    return dladdr(address, &found) != 0 ? found.dli_fname : nullptr;
}

FunctionTables find_function_tables(std::uint64_t address) noexcept {
    const unsigned char* const index = find_index(address);
    return index == nullptr ? FunctionTables{} : search_index(index, address);
}

}  // namespace msmemscope

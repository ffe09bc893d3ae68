#include "interpose/elf_image.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace msmemscope {
namespace {

#if defined(__x86_64__)
constexpr unsigned kJumpSlot = R_X86_64_JUMP_SLOT;
constexpr unsigned kGlobalData = R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
constexpr unsigned kJumpSlot = R_AARCH64_JUMP_SLOT;
constexpr unsigned kGlobalData = R_AARCH64_GLOB_DAT;
#else
#error "msmemscope knows the relocations of x86-64 and aarch64"
#endif

}  // namespace

ElfImage::ElfImage(const dl_phdr_info& info) noexcept
    : path_(info.dlpi_name == nullptr ? "" : info.dlpi_name),
      load_bias_(info.dlpi_addr),
      start_(~0ULL),
      end_(0),
      relro_start_(0),
      relro_end_(0),
      dynamic_(nullptr),
      symbols_(nullptr),
      symbol_names_(nullptr),
      gnu_hash_(nullptr),
      sysv_hash_(nullptr),
      plt_relocations_(nullptr),
      plt_relocation_bytes_(0),
      data_relocations_(nullptr),
      data_relocation_bytes_(0),
      build_id_(nullptr),
      build_id_bytes_(0) {
    for (unsigned index = 0; index < info.dlpi_phnum; ++index) {
        const ElfW(Phdr)& header = info.dlpi_phdr[index];
        const std::uint64_t begin = load_bias_ + header.p_vaddr;
        if (header.p_type == PT_LOAD) {
            start_ = begin < start_ ? begin : start_;
            end_ = begin + header.p_memsz > end_ ? begin + header.p_memsz : end_;
        } else if (header.p_type == PT_GNU_RELRO) {
            relro_start_ = begin;
            relro_end_ = begin + header.p_memsz;
        }
    }
    // Only now, because tables are checked against the image's range.
    for (unsigned index = 0; index < info.dlpi_phnum; ++index) {
        const ElfW(Phdr)& header = info.dlpi_phdr[index];
        const std::uint64_t begin = load_bias_ + header.p_vaddr;
        if (header.p_type == PT_DYNAMIC) {
            read_dynamic(reinterpret_cast<const ElfW(Dyn)*>(begin));
        } else if (header.p_type == PT_NOTE) {
            read_notes(reinterpret_cast<const unsigned char*>(begin), header.p_memsz);
        }
    }
}

const char* ElfImage::name() const noexcept {
    const char* slash = std::strrchr(path_, '/');
    return slash == nullptr ? path_ : slash + 1;
}

// For most images the loader turns the addresses of the dynamic section into absolute ones. It leaves those of the vDSO
// alone, and with some C libraries those of every image.
std::uint64_t ElfImage::absolute(std::uint64_t address) const noexcept {
    return contains(address) ? address : load_bias_ + address;
}

void ElfImage::read_dynamic(const ElfW(Dyn) * entry) noexcept {
    bool plt_has_addends = false;
    dynamic_ = entry;
    for (; entry->d_tag != DT_NULL; ++entry) {
        switch (entry->d_tag) {
            case DT_SYMTAB:
                symbols_ = reinterpret_cast<const ElfW(Sym)*>(absolute(entry->d_un.d_ptr));
                break;
            case DT_STRTAB:
                symbol_names_ = reinterpret_cast<const char*>(absolute(entry->d_un.d_ptr));
                break;
            case DT_GNU_HASH:
                gnu_hash_ = reinterpret_cast<const std::uint32_t*>(absolute(entry->d_un.d_ptr));
                break;
            case DT_HASH:
                sysv_hash_ = reinterpret_cast<const std::uint32_t*>(absolute(entry->d_un.d_ptr));
                break;
            case DT_JMPREL:
                plt_relocations_ = reinterpret_cast<const Relocation*>(absolute(entry->d_un.d_ptr));
                break;
            case DT_PLTRELSZ:
                plt_relocation_bytes_ = entry->d_un.d_val;
                break;
            case DT_PLTREL:
                plt_has_addends = entry->d_un.d_val == DT_RELA;
                break;
            case DT_RELA:
                data_relocations_ = reinterpret_cast<const Relocation*>(absolute(entry->d_un.d_ptr));
                break;
            case DT_RELASZ:
                data_relocation_bytes_ = entry->d_un.d_val;
                break;
            default:
                break;
        }
    }
    if (symbols_ == nullptr || symbol_names_ == nullptr) {
        plt_relocations_ = nullptr;
        data_relocations_ = nullptr;
        gnu_hash_ = nullptr;
        sysv_hash_ = nullptr;
    }
    if (plt_relocations_ == nullptr || !plt_has_addends) {
        plt_relocation_bytes_ = 0;
    }
    if (data_relocations_ == nullptr) {
        data_relocation_bytes_ = 0;
    }
}

void ElfImage::read_notes(const unsigned char* notes, std::size_t bytes) noexcept {
    std::size_t place = 0;
    while (place + sizeof(ElfW(Nhdr)) <= bytes) {
        const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(notes + place);
        const std::size_t name_bytes = (note->n_namesz + 3U) & ~3U;
        const std::size_t content = place + sizeof(*note) + name_bytes;
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && content + note->n_descsz <= bytes &&
            std::memcmp(notes + place + sizeof(*note), "GNU", 4) == 0) {
            build_id_ = notes + content;
            build_id_bytes_ = note->n_descsz;
            return;
        }
        place = content + ((note->n_descsz + 3U) & ~3U);
    }
}

const ElfW(Sym) * ElfImage::symbol_of(const Relocation& relocation) const noexcept {
    const unsigned type = ELF64_R_TYPE(relocation.r_info);
    if (type != kJumpSlot && type != kGlobalData) {
        return nullptr;
    }
    return &symbols_[ELF64_R_SYM(relocation.r_info)];
}

// Not with strcmp: in a program with a sanitizer that would be the sanitizer's (preload/core_library.cpp).
bool ElfImage::is_function(const ElfW(Sym) & symbol, const char* function) const noexcept {
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) {
        return false;
    }
    const char* name = symbol_names_ + symbol.st_name;
    while (*name != '\0' && *name == *function) {
        ++name;
        ++function;
    }
    return *name == *function;
}

// The table begins with four words:
// - the number of buckets;
// - the first symbol in the table;
// - the number of 64-bit words in the Bloom filter;
// - the shift of the filter.
//
// Behind them lie the filter, the buckets and the chains. A bucket is the first symbol of a chain. An entry of a chain
// is the symbol's hash, with its last bit set at the end.
const ElfW(Sym) * ElfImage::find_by_gnu_hash(const char* function) const noexcept {
    std::uint32_t hash = 5381;
    for (const char* place = function; *place != '\0'; ++place) {
        hash = hash * 33 + static_cast<unsigned char>(*place);
    }
    const std::uint32_t bucket_count = gnu_hash_[0];
    const std::uint32_t first = gnu_hash_[1];
    const std::uint32_t filter_words = gnu_hash_[2];
    const auto* const filter = reinterpret_cast<const std::uint64_t*>(gnu_hash_ + 4);
    if (bucket_count == 0 || filter_words == 0) {
        return nullptr;
    }
    const std::uint64_t word = filter[(hash / 64) % filter_words];
    if (((word >> (hash % 64)) & (word >> ((hash >> gnu_hash_[3]) % 64)) & 1U) == 0) {
        return nullptr;
    }
    const auto* const buckets = reinterpret_cast<const std::uint32_t*>(filter + filter_words);
    std::uint32_t index = buckets[hash % bucket_count];
    if (index < first) {
        return nullptr;
    }
    const std::uint32_t* chain = buckets + bucket_count + (index - first);
    for (;; ++index, ++chain) {
        if (((*chain ^ hash) >> 1U) == 0 && is_function(symbols_[index], function)) {
            return &symbols_[index];
        }
        if ((*chain & 1U) != 0) {
            return nullptr;
        }
    }
}

// Words of the table: number of buckets, number of chains; then the buckets and the chains (the next symbol, 0 for
// none).
const ElfW(Sym) * ElfImage::find_by_sysv_hash(const char* function) const noexcept {
    std::uint32_t hash = 0;
    for (const char* place = function; *place != '\0'; ++place) {
        hash = (hash << 4U) + static_cast<unsigned char>(*place);
        hash = (hash ^ ((hash & 0xf0000000U) >> 24U)) & 0x0fffffffU;
    }
    const std::uint32_t bucket_count = sysv_hash_[0];
    if (bucket_count == 0) {
        return nullptr;
    }
    const std::uint32_t* const chains = sysv_hash_ + 2 + bucket_count;
    for (std::uint32_t index = sysv_hash_[2 + hash % bucket_count]; index != STN_UNDEF; index = chains[index]) {
        if (is_function(symbols_[index], function)) {
            return &symbols_[index];
        }
    }
    return nullptr;
}

const ElfW(Sym) * ElfImage::find(const char* function) const noexcept {
    if (gnu_hash_ != nullptr) {
        return find_by_gnu_hash(function);
    }
    return sysv_hash_ == nullptr ? nullptr : find_by_sysv_hash(function);
}

void* ElfImage::address_of(const ElfW(Sym) & symbol) const noexcept {
    return reinterpret_cast<void*>(load_bias_ + symbol.st_value);
}

void* ElfImage::definition_of(const char* function) const noexcept {
    const ElfW(Sym)* const symbol = find(function);
    return symbol == nullptr || symbol->st_shndx == SHN_UNDEF ? nullptr : address_of(*symbol);
}

// ELF's supplements for the processors: an undefined symbol with a value.
void* ElfImage::stand_in_for(const char* function) const noexcept {
    const ElfW(Sym)* const symbol = find(function);
    return symbol == nullptr || symbol->st_shndx != SHN_UNDEF || symbol->st_value == 0 ? nullptr : address_of(*symbol);
}

bool ElfImage::needs(const char* library) const noexcept {
    if (dynamic_ == nullptr || symbol_names_ == nullptr) {
        return false;
    }
    for (const ElfW(Dyn)* entry = dynamic_; entry->d_tag != DT_NULL; ++entry) {
        if (entry->d_tag == DT_NEEDED && std::strcmp(symbol_names_ + entry->d_un.d_val, library) == 0) {
            return true;
        }
    }
    return false;
}

bool ElfImage::store(void** slot, void* value) const noexcept {
    const auto address = reinterpret_cast<std::uint64_t>(slot);
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    auto* const start = reinterpret_cast<void*>(address & ~(page - 1));
    // The loader protects whole pages inside the RELRO range only.
    const bool read_only = address >= (relro_start_ & ~(page - 1)) && address < (relro_end_ & ~(page - 1));
    if (read_only && mprotect(start, page, PROT_READ | PROT_WRITE) != 0) {
        return false;
    }
    __atomic_store_n(slot, value, __ATOMIC_RELEASE);
    if (read_only) {
        mprotect(start, page, PROT_READ);
    }
    return true;
}

}  // namespace msmemscope

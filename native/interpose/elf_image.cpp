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
      symbols_(nullptr),
      symbol_names_(nullptr),
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

// The loader turns the addresses of the dynamic section into absolute ones for most images, but not
// for all (the vDSO, and every image with some C libraries).
std::uint64_t ElfImage::absolute(std::uint64_t address) const noexcept {
    return contains(address) ? address : load_bias_ + address;
}

void ElfImage::read_dynamic(const ElfW(Dyn) * entry) noexcept {
    bool plt_has_addends = false;
    for (; entry->d_tag != DT_NULL; ++entry) {
        switch (entry->d_tag) {
            case DT_SYMTAB:
                symbols_ = reinterpret_cast<const ElfW(Sym)*>(absolute(entry->d_un.d_ptr));
                break;
            case DT_STRTAB:
                symbol_names_ = reinterpret_cast<const char*>(absolute(entry->d_un.d_ptr));
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

const char* ElfImage::symbol_of(const Relocation& relocation) const noexcept {
    const unsigned type = ELF64_R_TYPE(relocation.r_info);
    if (type != kJumpSlot && type != kGlobalData) {
        return nullptr;
    }
    return symbol_names_ + symbols_[ELF64_R_SYM(relocation.r_info)].st_name;
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

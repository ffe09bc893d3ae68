// A loaded ELF image, seen through its program headers: enough to find the GOT slots
// through which it calls a function.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

namespace msmemscope {

class ElfImage {
public:
    // info: as dl_iterate_phdr passes it; the image must stay loaded as long as this is used.
    explicit ElfImage(const dl_phdr_info& info) noexcept;

    // Path of the file; the main program's is found through /proc/self/exe and may be empty here.
    const char* path() const noexcept { return path_; }
    // The path's last component.
    const char* name() const noexcept;
    std::uint64_t load_bias() const noexcept { return load_bias_; }
    bool contains(std::uint64_t address) const noexcept { return address >= start_ && address < end_; }
    std::uint64_t start() const noexcept { return start_; }
    std::uint64_t end() const noexcept { return end_; }

    const unsigned char* build_id() const noexcept { return build_id_; }
    std::size_t build_id_bytes() const noexcept { return build_id_bytes_; }

    // A GOT slot that holds the address of a symbol.
    struct Slot {
        const char* symbol;
        void** place;
        // The image's own function of that name, null if it has none.
        const void* own;
    };

    // Calls visit(const Slot&) for each of them.
    template <typename Visit>
    void for_each_slot(Visit visit) const noexcept {
        for_each_slot_in(plt_relocations_, plt_relocation_bytes_, visit);
        for_each_slot_in(data_relocations_, data_relocation_bytes_, visit);
    }

    // The image's own function of that name, null if it has none.
    void* definition_of(const char* function) const noexcept;
    // A program of fixed addresses has a stand-in for a function that another image defines: the entry in its own table
    // of calls. Every image finds that entry, so all see the function at one address. Null if it has none.
    void* stand_in_for(const char* function) const noexcept;
    // Whether the image is linked to a library of that name.
    bool needs(const char* library) const noexcept;

    // Stores value into the slot, also when it lies in a page that is read-only after relocation.
    // False if the page cannot be made writable.
    bool store(void** slot, void* value) const noexcept;

private:
    using Relocation = ElfW(Rela);

    template <typename Visit>
    void for_each_slot_in(const Relocation* relocations, std::size_t bytes, Visit visit) const noexcept {
        for (std::size_t index = 0; index < bytes / sizeof(Relocation); ++index) {
            const ElfW(Sym)* const symbol = symbol_of(relocations[index]);
            if (symbol != nullptr) {
                visit(Slot{
                    symbol_names_ + symbol->st_name, reinterpret_cast<void**>(load_bias_ + relocations[index].r_offset),
                    symbol->st_shndx == SHN_UNDEF ? nullptr
                                                  : reinterpret_cast<const void*>(load_bias_ + symbol->st_value)});
            }
        }
    }
    // The symbol whose address a relocation puts into a slot; null for relocations of other kinds.
    const ElfW(Sym) * symbol_of(const Relocation& relocation) const noexcept;
    bool is_function(const ElfW(Sym) & symbol, const char* function) const noexcept;
    // A symbol that other images can find; null if it has none.
    const ElfW(Sym) * find(const char* function) const noexcept;
    const ElfW(Sym) * find_by_gnu_hash(const char* function) const noexcept;
    const ElfW(Sym) * find_by_sysv_hash(const char* function) const noexcept;
    void* address_of(const ElfW(Sym) & symbol) const noexcept;
    void read_dynamic(const ElfW(Dyn) * entry) noexcept;
    void read_notes(const unsigned char* notes, std::size_t bytes) noexcept;
    std::uint64_t absolute(std::uint64_t address) const noexcept;

    const char* path_;
    std::uint64_t load_bias_;
    std::uint64_t start_;
    std::uint64_t end_;
    std::uint64_t relro_start_;
    std::uint64_t relro_end_;
    const ElfW(Dyn) * dynamic_;
    const ElfW(Sym) * symbols_;
    const char* symbol_names_;
    const std::uint32_t* gnu_hash_;
    const std::uint32_t* sysv_hash_;
    const Relocation* plt_relocations_;
    std::size_t plt_relocation_bytes_;
    const Relocation* data_relocations_;
    std::size_t data_relocation_bytes_;
    const unsigned char* build_id_;
    std::size_t build_id_bytes_;
};

}  // namespace msmemscope

#include "offline/remote_call/remote_image.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace msmemscope::remote_call {
namespace {

// Of damaged tables no more than this is read.
constexpr std::size_t kMostEntries = 4096;
constexpr std::size_t kMostChain = 1 << 20;

// The addresses that a dynamic section names; 0 for what it lacks.
struct DynamicSection {
    std::uint64_t symbols = 0;
    std::uint64_t names = 0;
    std::uint64_t gnu_hash = 0;
    std::uint64_t sysv_hash = 0;
};

// One lookup in one image.
class Lookup {
public:
    Lookup(const RemoteMemory& memory, const RemoteImage& image, const char* name)
        : memory_(memory), image_(image), name_(name) {}

    AddressRange find() {
        if (!read_dynamic() || dynamic_.symbols == 0 || dynamic_.names == 0) {
            return {};
        }
        return dynamic_.gnu_hash != 0    ? find_by_gnu_hash()
               : dynamic_.sysv_hash != 0 ? find_by_sysv_hash()
                                         : AddressRange{};
    }

private:
    bool read_dynamic() {
        ElfW(Ehdr) header;
        if (!memory_.read_value(image_.range.begin, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
            header.e_phentsize != sizeof(ElfW(Phdr)) || header.e_phnum > kMostEntries) {
            return false;
        }
        std::vector<ElfW(Phdr)> segments(header.e_phnum);
        if (!memory_.read(image_.range.begin + header.e_phoff, segments.data(), segments.size() * sizeof segments[0])) {
            return false;
        }
        std::uint64_t lowest = ~0ULL;
        std::uint64_t dynamic = 0;
        for (const ElfW(Phdr) & segment : segments) {
            if (segment.p_type == PT_LOAD) {
                lowest = std::min(lowest, static_cast<std::uint64_t>(segment.p_vaddr - segment.p_offset));
            } else if (segment.p_type == PT_DYNAMIC) {
                dynamic = segment.p_vaddr;
            }
        }
        if (lowest == ~0ULL || dynamic == 0) {
            return false;
        }
        bias_ = image_.range.begin - lowest;
        read_entries(bias_ + dynamic);
        return true;
    }

    void read_entries(std::uint64_t address) {
        ElfW(Dyn) entry;
        for (std::size_t index = 0; index < kMostEntries; ++index) {
            if (!memory_.read_value(address + index * sizeof entry, entry) || entry.d_tag == DT_NULL) {
                return;
            }
            // Some loaders make the addresses absolute, others leave them as they are in the file.
            const std::uint64_t value = entry.d_un.d_ptr;
            const std::uint64_t absolute = image_.range.contains(value) ? value : bias_ + value;
            switch (entry.d_tag) {
                case DT_SYMTAB:
                    dynamic_.symbols = absolute;
                    break;
                case DT_STRTAB:
                    dynamic_.names = absolute;
                    break;
                case DT_GNU_HASH:
                    dynamic_.gnu_hash = absolute;
                    break;
                case DT_HASH:
                    dynamic_.sysv_hash = absolute;
                    break;
                default:
                    break;
            }
        }
    }

    // What a symbol stands for if it has the name and is defined here.
    AddressRange place_of(std::uint64_t index) const {
        ElfW(Sym) symbol;
        if (!memory_.read_value(dynamic_.symbols + index * sizeof symbol, symbol) || symbol.st_shndx == SHN_UNDEF ||
            (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC && ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT)) {
            return {};
        }
        if (memory_.text(dynamic_.names + symbol.st_name, std::strlen(name_) + 1) != name_) {
            return {};
        }
        return {bias_ + symbol.st_value, bias_ + symbol.st_value + symbol.st_size};
    }

    AddressRange find_by_gnu_hash() const {
        std::uint32_t hash = 5381;
        for (const char* letter = name_; *letter != '\0'; ++letter) {
            hash = hash * 33 + static_cast<unsigned char>(*letter);
        }
        struct {
            std::uint32_t bucket_count, first_symbol, filter_words, filter_shift;
        } header{};
        if (!memory_.read_value(dynamic_.gnu_hash, header) || header.bucket_count == 0) {
            return {};
        }
        const std::uint64_t buckets = dynamic_.gnu_hash + sizeof header + header.filter_words * sizeof(ElfW(Addr));
        const std::uint64_t chains = buckets + header.bucket_count * sizeof(std::uint32_t);
        std::uint32_t index = 0;
        if (!memory_.read_value(buckets + hash % header.bucket_count * sizeof index, index) ||
            index < header.first_symbol) {
            return {};
        }
        for (std::size_t steps = 0; steps < kMostChain; ++steps, ++index) {
            std::uint32_t other = 0;
            if (!memory_.read_value(chains + (index - header.first_symbol) * sizeof other, other)) {
                return {};
            }
            if ((other | 1U) == (hash | 1U)) {
                const AddressRange found = place_of(index);
                if (found.begin != 0) {
                    return found;
                }
            }
            if ((other & 1U) != 0) {
                return {};  // the last of its chain
            }
        }
        return {};
    }

    AddressRange find_by_sysv_hash() const {
        std::uint32_t hash = 0;
        for (const char* letter = name_; *letter != '\0'; ++letter) {
            hash = (hash << 4U) + static_cast<unsigned char>(*letter);
            const std::uint32_t top = hash & 0xf0000000U;
            hash = (hash ^ (top >> 24U)) & ~top;
        }
        std::uint32_t counts[2] = {0, 0};  // of buckets, of symbols
        if (!memory_.read_value(dynamic_.sysv_hash, counts) || counts[0] == 0) {
            return {};
        }
        const std::uint64_t words = dynamic_.sysv_hash + sizeof counts;
        std::uint32_t index = 0;
        std::uint64_t at = words + hash % counts[0] * sizeof index;
        for (std::size_t steps = 0; steps < kMostChain; ++steps) {
            if (!memory_.read_value(at, index) || index == 0) {
                return {};
            }
            const AddressRange found = place_of(index);
            if (found.begin != 0) {
                return found;
            }
            at = words + (counts[0] + std::uint64_t{index}) * sizeof index;
        }
        return {};
    }

    const RemoteMemory& memory_;
    const RemoteImage& image_;
    const char* name_;
    std::uint64_t bias_ = 0;
    DynamicSection dynamic_;
};

}  // namespace

RemoteMemory::RemoteMemory(pid_t process)
    : file_(open(("/proc/" + std::to_string(process) + "/mem").c_str(), O_RDWR | O_CLOEXEC)),
      error_(file_ < 0 ? errno : 0) {}

RemoteMemory::~RemoteMemory() {
    if (file_ >= 0) {
        close(file_);
    }
}

bool RemoteMemory::read(std::uint64_t address, void* bytes, std::size_t count) const noexcept {
    return pread(file_, bytes, count, static_cast<off_t>(address)) == static_cast<ssize_t>(count);
}

bool RemoteMemory::write(std::uint64_t address, const void* bytes, std::size_t count) const noexcept {
    return pwrite(file_, bytes, count, static_cast<off_t>(address)) == static_cast<ssize_t>(count);
}

std::string RemoteMemory::text(std::uint64_t address, std::size_t most) const {
    std::string letters(most, '\0');
    // A text may stand just before the end of what is readable.
    const ssize_t count = pread(file_, letters.data(), most, static_cast<off_t>(address));
    letters.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return letters.substr(0, letters.find('\0'));
}

std::string_view RemoteImage::name() const noexcept { return std::string_view(path).substr(path.rfind('/') + 1); }

std::string file_text(const std::string& path) {
    std::string text;
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return text;
    }
    char part[4096];
    ssize_t count = 0;
    while ((count = ::read(file, part, sizeof part)) > 0) {
        text.append(part, static_cast<std::size_t>(count));
    }
    close(file);
    return text;
}

std::vector<RemoteImage> remote_images(pid_t process) {
    std::vector<RemoteImage> images;
    const std::string maps = file_text("/proc/" + std::to_string(process) + "/maps");
    for (std::size_t begin = 0; begin < maps.size();) {
        const std::size_t end = std::min(maps.find('\n', begin), maps.size());
        const std::string line = maps.substr(begin, end - begin);
        begin = end + 1;
        AddressRange range;
        std::uint64_t offset = 0;
        int path_at = 0;
        if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %n", &range.begin, &range.end,
                        &offset, &path_at) != 3 ||
            path_at == 0) {
            continue;
        }
        const std::string path = line.substr(static_cast<std::size_t>(path_at));
        if (path.empty() || path[0] != '/') {
            continue;
        }
        if (offset == 0 || images.empty() || images.back().path != path) {
            images.push_back({path, range});
        } else {
            images.back().range.end = range.end;
        }
    }
    return images;
}

AddressRange remote_symbol(const RemoteMemory& memory, const RemoteImage& image, const char* name) {
    return Lookup(memory, image, name).find();
}

}  // namespace msmemscope::remote_call

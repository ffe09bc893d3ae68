#include "interpose/search_path.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace msmemscope {
namespace {

// The text of DT_RUNPATH, which overrules DT_RPATH; null if the image has neither.
const char* own_search_path(const link_map& map) noexcept {
    const char* strings = nullptr;
    std::size_t run_path = 0;
    std::size_t r_path = 0;
    for (const ElfW(Dyn)* entry = map.l_ld; entry->d_tag != DT_NULL; ++entry) {
        if (entry->d_tag == DT_STRTAB) {
            strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);  // the loader has made it absolute
        } else if (entry->d_tag == DT_RUNPATH) {
            run_path = entry->d_un.d_val;
        } else if (entry->d_tag == DT_RPATH) {
            r_path = entry->d_un.d_val;
        }
    }
    const std::size_t offset = run_path != 0 ? run_path : r_path;
    return strings == nullptr || offset == 0 ? nullptr : strings + offset;
}

// Appends text to the path; false if it does not fit.
bool append(char* path, std::size_t capacity, std::size_t& used, const char* text, std::size_t bytes) noexcept {
    if (used + bytes >= capacity) {
        return false;
    }
    std::memcpy(path + used, text, bytes);
    used += bytes;
    path[used] = '\0';
    return true;
}

// Folder of the image: what $ORIGIN stands for. Empty if it is not known.
std::size_t origin_of(const link_map& map, char* origin, std::size_t capacity) noexcept {
    const char* file = map.l_name;
    char executable[4096];
    if (file == nullptr || *file == '\0') {
        const ssize_t length = readlink("/proc/self/exe", executable, sizeof(executable) - 1);
        executable[length > 0 ? length : 0] = '\0';
        file = executable;
    }
    const char* const slash = std::strrchr(file, '/');
    const std::size_t bytes = slash == nullptr ? 0 : static_cast<std::size_t>(slash - file);
    if (bytes >= capacity) {
        return 0;
    }
    std::memcpy(origin, file, bytes);
    return bytes;
}

// One folder of the list, $ORIGIN expanded, and the library's name after it.
bool compose(const link_map& map, const char* folder, std::size_t bytes, const char* name, char* path,
             std::size_t capacity) noexcept {
    std::size_t used = 0;
    path[0] = '\0';
    for (std::size_t place = 0; place < bytes;) {
        static constexpr const char* kOrigins[] = {"$ORIGIN", "${ORIGIN}"};
        std::size_t matched = 0;
        for (const char* origin : kOrigins) {
            const std::size_t length = std::strlen(origin);
            if (bytes - place >= length && std::memcmp(folder + place, origin, length) == 0) {
                matched = length;
            }
        }
        if (matched > 0) {
            char expanded[4096];
            if (!append(path, capacity, used, expanded, origin_of(map, expanded, sizeof(expanded)))) {
                return false;
            }
            place += matched;
        } else if (folder[place] == '$') {
            return false;  // $LIB and $PLATFORM are the loader's to know
        } else if (!append(path, capacity, used, folder + place++, 1)) {
            return false;
        }
    }
    return append(path, capacity, used, "/", 1) && append(path, capacity, used, name, std::strlen(name));
}

}  // namespace

bool find_on_search_path_of(const void* caller, const char* name, char* path, std::size_t capacity) noexcept {
    Dl_info info{};
    link_map* map = nullptr;
    if (dladdr1(caller, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr) {
        return false;
    }
    const char* folders = own_search_path(*map);
    while (folders != nullptr && *folders != '\0') {
        const std::size_t bytes = std::strcspn(folders, ":");
        if (bytes > 0 && compose(*map, folders, bytes, name, path, capacity) && access(path, R_OK) == 0) {
            return true;
        }
        folders += bytes + (folders[bytes] == ':' ? 1 : 0);
    }
    return false;
}

}  // namespace msmemscope

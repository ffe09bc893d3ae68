// A stand-in for a library of PyTorch that contains NVTX's header: it finds a tool as that does, and calls what the
// tool gave it. Names and numbers are those of nvtxTypes.h.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

using Function = void (*)();

Function functions[2][16];  // core, domains
Function* tables[2][17];    // a null in front and behind
bool is_initialised = false;

struct Callbacks {
    std::size_t bytes;
    int (*get_module)(int module, Function*** table, unsigned* size);
};

int get_module(int module, Function*** table, unsigned* size) {
    if (module != 1 && module != 5) {
        return 0;
    }
    const int place = module == 1 ? 0 : 1;
    for (int number = 1; number < 16; ++number) {
        tables[place][number] = &functions[place][number];
    }
    *table = tables[place];
    *size = 16;
    return 1;
}

const void* get_export_table(unsigned number) {
    static const Callbacks callbacks = {sizeof(Callbacks), get_module};
    return number == 1 ? &callbacks : nullptr;
}

Function function(int place, int number) {
    if (!is_initialised) {
        is_initialised = true;
        const char* const path = std::getenv("NVTX_INJECTION64_PATH");
        void* const library = path != nullptr ? dlopen(path, RTLD_LAZY) : nullptr;
        void* const found = library != nullptr ? dlsym(library, "InitializeInjectionNvtx2") : nullptr;
        if (found != nullptr) {
            reinterpret_cast<int (*)(const void* (*)(unsigned))>(found)(get_export_table);
        }
    }
    return functions[place][number];
}

struct Attributes {
    std::uint16_t version, bytes;
    std::uint32_t category, colour[2], payload[4];
    std::int32_t message_kind, reserved;
    const void* message;
};

Attributes registered(void* domain, const char* message) {
    const auto make = reinterpret_cast<const void* (*)(void*, const char*)>(function(1, 10));
    return {3, sizeof(Attributes), 0, {}, {}, 3, 0, make != nullptr ? make(domain, message) : nullptr};
}

}  // namespace

extern "C" {

void fake_mark(const char* message) {
    if (const auto call = reinterpret_cast<void (*)(const char*)>(function(0, 2))) {
        call(message);
    }
}
int fake_push(const char* message) {
    const auto call = reinterpret_cast<int (*)(const char*)>(function(0, 9));
    return call != nullptr ? call(message) : -2;
}
int fake_pop() {
    const auto call = reinterpret_cast<int (*)()>(function(0, 11));
    return call != nullptr ? call() : -2;
}
std::uint64_t fake_range_start(const char* message) {
    const Attributes attributes = registered(nullptr, message);
    const auto call = reinterpret_cast<std::uint64_t (*)(const Attributes*)>(function(0, 4));
    return call != nullptr ? call(&attributes) : 0;
}
void fake_range_end(std::uint64_t range) {
    if (const auto call = reinterpret_cast<void (*)(std::uint64_t)>(function(0, 7))) {
        call(range);
    }
}
// A mark of a library in a domain of its own.
void fake_foreign_mark(const char* message) {
    const auto make = reinterpret_cast<void* (*)(const char*)>(function(1, 12));
    void* const domain = make != nullptr ? make("library") : nullptr;
    const Attributes attributes = registered(domain, message);
    if (const auto call = reinterpret_cast<void (*)(void*, const Attributes*)>(function(1, 1))) {
        call(domain, &attributes);
    }
}

}  // extern "C"

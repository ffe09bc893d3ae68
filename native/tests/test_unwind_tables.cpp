// Unwind tables are found for every function, by the C library's search and by the list of libraries alike. Neither
// finds any where there is no function. An unloaded library is not remembered.
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "core/stacks/unwind_tables.h"
#include "tests/check.h"

using namespace msmemscope;

namespace {

__attribute__((noinline)) int function_of_the_program(int value) {
    asm volatile("");
    return value + 1;
}

std::uint64_t address_of(void* function) { return reinterpret_cast<std::uint64_t>(function); }

// The start of the function by the symbols of its library, which know nothing of its tables.
std::uint64_t start_by_symbols(std::uint64_t address) {
    Dl_info information{};
    CHECK(dladdr(reinterpret_cast<void*>(address), &information) != 0);
    CHECK(information.dli_saddr != nullptr);
    return address_of(information.dli_saddr);
}

struct Program {
    const unsigned char* index = nullptr;
    std::uint64_t start = 0;
    std::uint64_t end = 0;
};

// Where the program's own code is, and the index of its tables.
Program find_program() {
    Program program;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* argument) {
            auto& found = *static_cast<Program*>(argument);
            for (std::size_t number = 0; number < info->dlpi_phnum; ++number) {
                const ElfW(Phdr)& part = info->dlpi_phdr[number];
                if (part.p_type == PT_GNU_EH_FRAME) {
                    found.index = reinterpret_cast<const unsigned char*>(info->dlpi_addr + part.p_vaddr);
                } else if (part.p_type == PT_LOAD && (part.p_flags & PF_X) != 0U) {
                    found.start = info->dlpi_addr + part.p_vaddr;
                    found.end = found.start + part.p_memsz;
                }
            }
            return 1;  // the first is the program
        },
        &program);
    CHECK(program.index != nullptr && program.end != 0);
    return program;
}

void functions_are_found() {
    for (void* const function :
         {dlsym(RTLD_DEFAULT, "qsort"), dlsym(RTLD_DEFAULT, "printf"), dlsym(RTLD_DEFAULT, "getenv")}) {
        const std::uint64_t start = start_by_symbols(address_of(function));
        for (const std::uint64_t within : {0, 1, 5}) {
            const FunctionTables tables = find_function_tables(start + within);
            CHECK(tables.description != nullptr);
            CHECK_EQUAL(tables.function, start);
        }
    }
    CHECK_EQUAL(find_function_tables(address_of(reinterpret_cast<void*>(&function_of_the_program))).function,
                address_of(reinterpret_cast<void*>(&function_of_the_program)));
}

void nothing_is_found_elsewhere() {
    int local = 0;
    void* const mapped = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED);
    for (const std::uint64_t address : {std::uint64_t{0}, std::uint64_t{1}, address_of(&local), address_of(mapped),
                                        ~std::uint64_t{0}, find_program().start - 1}) {
        CHECK(find_function_tables(address).description == nullptr);
    }
    CHECK(munmap(mapped, 4096) == 0);
}

void what_is_unloaded_is_forgotten() {
    void* const library = dlopen("libresolv.so.2", RTLD_NOW | RTLD_LOCAL);
    CHECK(library != nullptr);
    const std::uint64_t function = address_of(dlsym(library, "ns_get16"));
    CHECK(function != 0);
    CHECK_EQUAL(find_function_tables(function).function, function);
    CHECK(dlclose(library) == 0);
    CHECK(dlopen("libresolv.so.2", RTLD_NOW | RTLD_NOLOAD) == nullptr);
    CHECK(find_function_tables(function).description == nullptr);
}

void threads_search_at_once() {
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; ++number) {
        threads.emplace_back([] {
            for (int round = 0; round < 2000; ++round) {
                functions_are_found();
            }
        });
    }
    for (int round = 0; round < 100; ++round) {
        what_is_unloaded_is_forgotten();
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

// The same for every address of the program, by the sorted table and by .eh_frame from its beginning.
void an_index_without_a_table_will_do() {
    const Program program = find_program();
    constexpr unsigned char kAbsolute = 0x04;
    constexpr unsigned char kNotThere = 0xFF;
    unsigned char without_table[12] = {1, kAbsolute, kNotThere, kNotThere};
    CHECK_EQUAL(+program.index[1], 0x1B);  // the place of .eh_frame, from its own on, in four bytes
    std::int32_t distance = 0;
    std::memcpy(&distance, program.index + 4, sizeof(distance));
    const std::uint64_t first =
        reinterpret_cast<std::uint64_t>(program.index) + 4 + static_cast<std::uint64_t>(distance);
    std::memcpy(without_table + 4, &first, sizeof(first));
    std::size_t functions = 0;
    std::uint64_t previous = 0;
    const std::uint64_t step = 1 + (program.end - program.start) / 20000;
    for (std::uint64_t address = program.start; address < program.end; address += step) {
        const FunctionTables by_table = search_index(program.index, address);
        const FunctionTables by_all = search_index(without_table, address);
        CHECK(by_table.description == by_all.description);
        CHECK_EQUAL(by_table.function, by_all.function);
        CHECK(by_table.description == nullptr || by_table.function <= address);
        functions += by_table.function != previous ? 1 : 0;
        previous = by_table.function;
    }
    CHECK(functions > 50);
}

void damaged_indexes_have_nothing() {
    const std::uint64_t here = address_of(reinterpret_cast<void*>(&function_of_the_program));
    const unsigned char other_version[12] = {2, 0x1B, 0x03, 0x3B};
    const unsigned char other_pointer[12] = {1, 0x50, 0x03, 0x3B};
    const unsigned char empty_table[12] = {1, 0x1B, 0x03, 0x3B};
    CHECK(search_index(other_version, here).description == nullptr);
    CHECK(search_index(other_pointer, here).description == nullptr);
    CHECK(search_index(empty_table, here).description == nullptr);
}

}  // namespace

int main() {
    an_index_without_a_table_will_do();
    damaged_indexes_have_nothing();
    void* const loader_search = dlsym(RTLD_DEFAULT, "_dl_find_object");
    for (void* const search : {static_cast<void*>(nullptr), loader_search}) {
        set_loader_search(search);
        functions_are_found();
        nothing_is_found_elsewhere();
        what_is_unloaded_is_forgotten();
        threads_search_at_once();
    }
    CHECK_EQUAL(function_of_the_program(1), 2);
    return 0;
}

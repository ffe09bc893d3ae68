#include "sources/cuda/asking_library.h"

#include <cstring>

#include "core/format/attribute.h"
#include "core/stacks/unwind_tables.h"
#include "core/writer/texts.h"

namespace msmemscope::cuda {
namespace {

constexpr const char* kProgram = "APP";  // model.owners.PROGRAM_MODULE
constexpr const char* kOfTheProgram[] = {"libc10_cuda.so", "libffi", "libpython"};

const char* module_of(const char* path) noexcept {
    const char* const slash = std::strrchr(path, '/');
    const char* const name = slash != nullptr ? slash + 1 : path;
    for (const char* of_the_program : kOfTheProgram) {
        if (std::strncmp(name, of_the_program, std::strlen(of_the_program)) == 0) {
            return kProgram;
        }
    }
    return std::strstr(name, ".so") != nullptr ? name : kProgram;
}

}  // namespace

std::uint32_t attributes_of_caller(const void* code) noexcept {
    const char* const path = find_library(code);
    if (path == nullptr) {
        return 0;
    }
    const char* const module = module_of(path);
    const format::Attribute asked{format::AttributeKey::kModule, format::ValueKind::kString, 0,
                                  texts::number_of(module, std::strlen(module))};
    return texts::number_of_attributes(&asked, 1);
}

}  // namespace msmemscope::cuda

#include "core/stacks/python_stack.h"

#include <atomic>

namespace msmemscope {
namespace {

std::atomic<PythonStackWalker> current_walker{nullptr};
std::atomic<ImportQuestion> import_question{nullptr};

}  // namespace

void set_python_stack_walker(PythonStackWalker walker, ImportQuestion imports) noexcept {
    current_walker.store(walker, std::memory_order_release);
    import_question.store(imports, std::memory_order_release);
}

bool python_imports() noexcept {
    const ImportQuestion imports = import_question.load(std::memory_order_acquire);
    return imports != nullptr && imports();
}

std::uint32_t take_python_stack(const RecordingScope& scope, std::uint32_t depth) noexcept {
    const PythonStackWalker walker = current_walker.load(std::memory_order_acquire);
    return walker == nullptr || depth == 0 ? 0 : walker(scope, depth);
}

}  // namespace msmemscope

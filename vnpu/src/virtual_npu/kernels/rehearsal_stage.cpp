#include "rehearsal_stage.h"

#include <ATen/EmptyTensor.h>
#include <sys/mman.h>
#include <torch/library.h>

#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <unordered_map>

#include "rehearsal.h"

namespace virtual_npu {
namespace {

thread_local Stage* current = nullptr;

// --- rehearsing on shapes
//
// For tensors without data `import torch` registers implementations in Python, in front of those in C++. They need the
// interpreter. Another thread may hold its lock while it waits for this one. So while shapes are rehearsed, every
// operator passes through a key that nothing else uses. From there it is routed past the interpreter. Most operators
// have an implementation for any backend. It checks arguments and makes the results. Then the overload of the operator
// that takes results ("out") writes them. Here, there is nothing to write.

constexpr auto kRouter = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr auto kAnyBackend = c10::DispatchKey::IPU;  // one that nobody has implemented operators for

enum class Route {
    kAsItIs,
    kAnyBackend,
    kFill,   // writes to a tensor that exists
    kWrite,  // writes results that were made for it
    kNone,
};

Route route_of(const c10::OperatorHandle& op) {
    using c10::DispatchKey;
    const std::string& name = op.operator_name().name;
    if (name == "aten::fill_" || name == "aten::zero_") return Route::kFill;
    if (op.hasKernelForDispatchKey(DispatchKey::Meta)) {
        const std::string place = op.getComputedKernelForDispatchKey(DispatchKey::Meta).debug();
        if (place.find(".py:") == std::string::npos) return Route::kAsItIs;
    } else if (op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd)) {
        return Route::kAsItIs;
    }
    if (op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
        op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional)) {
        return Route::kAnyBackend;
    }
    for (const c10::Argument& argument : op.schema().arguments()) {
        if (argument.is_out()) return Route::kWrite;
    }
    return Route::kNone;
}

struct Routed {
    Route route = Route::kNone;
    std::optional<c10::SafeKernelFunction> any_backend;  // there for Route::kAnyBackend
};

// torch notes in the operator, in a list without a lock, each time that one of its implementations is asked for. So all
// threads share what was asked once. The table is not destroyed: threads may outlive it.
const Routed& routed(const c10::OperatorHandle& op) {
    thread_local std::unordered_map<const void*, const Routed*> known;
    const Routed*& known_here = known[&op.operator_name()];
    if (known_here == nullptr) {
        static std::mutex mutex;
        static auto& table = *new std::unordered_map<const void*, Routed>;
        const std::lock_guard<std::mutex> lock(mutex);
        const auto [place, is_new] = table.try_emplace(&op.operator_name());
        if (is_new) {
            place->second.route = route_of(op);
            if (place->second.route == Route::kAnyBackend) {
                place->second.any_backend = op.getComputedKernelForDispatchKey(kAnyBackend);
            }
        }
        known_here = &place->second;
    }
    return *known_here;
}

// The results of an operator that only writes are the arguments that it writes to.
void leave_written(const c10::FunctionSchema& schema, torch::jit::Stack* stack) {
    const std::vector<c10::IValue> values = torch::jit::pop(*stack, schema.arguments().size());
    for (size_t index = 0; index < values.size(); ++index) {
        const c10::AliasInfo* alias = schema.arguments()[index].alias_info();
        if (alias == nullptr || !alias->isWrite()) continue;
        // One that the operator would have to resize first.
        if (!values[index].isTensor() || values[index].toTensor().sizes() == at::IntArrayRef({0})) {
            throw ShapesDoNotSuffice();
        }
        stack->push_back(values[index]);
    }
}

at::Tensor without_data(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
    return at::detail::empty_strided_meta(sizes, strides, type);
}

// Kernels make tensors of their own, for whose data no device is needed.
void drop_data(const c10::FunctionSchema& schema, torch::jit::Stack* stack) {
    const auto dropped = [](const at::Tensor& tensor) {
        if (!tensor.defined() || !tensor.is_cpu() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return tensor;
        return without_data(tensor.sizes(), tensor.strides(), tensor.scalar_type());
    };
    const size_t count = schema.arguments().size();
    for (size_t index = 0; index < count; ++index) {
        c10::IValue& value = torch::jit::peek(*stack, index, count);
        if (value.isTensor()) {
            value = dropped(value.toTensor());
        } else if (value.isTensorList()) {
            c10::List<at::Tensor> tensors;
            for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(dropped(tensor));
            value = tensors;
        }
    }
}

thread_local int any_backend_depth = 0;

void route(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    c10::DispatchKeySet below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kRouter);
    if (!below.has_backend(c10::BackendComponent::MetaBit)) {
        op.redispatchBoxed(below, stack);
        return;
    }
    if (below.has_backend(c10::BackendComponent::CPUBit)) {
        drop_data(op.schema(), stack);
        below = below.remove_backend(c10::BackendComponent::CPUBit);
    }
    const Routed& way = routed(op);
    switch (way.route) {
        case Route::kAsItIs:
            op.redispatchBoxed(below, stack);
            return;
        case Route::kAnyBackend: {
            ++any_backend_depth;
            struct Leave {
                ~Leave() { --any_backend_depth; }
            } leave;
            way.any_backend->callBoxed(op, below, stack);
            return;
        }
        case Route::kWrite:
            if (any_backend_depth == 0) throw ShapesDoNotSuffice();
            [[fallthrough]];
        case Route::kFill:
            leave_written(op.schema(), stack);
            return;
        case Route::kNone:
            throw ShapesDoNotSuffice();
    }
}

// --- rehearsing on data

at::Tensor with_data(const aclTensor& tensor, at::ScalarType type, StandIns kind) {
    const at::IntArrayRef sizes(tensor.sizes, tensor.dimensions);
    const at::IntArrayRef strides(tensor.strides, tensor.dimensions);
    const size_t element_bytes = c10::elementSize(type);
    const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, element_bytes);
    // Zeros that take no memory until something is written. Never an empty mapping.
    const size_t mapped = bytes + element_bytes;
    void* memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    const auto options = at::TensorOptions().dtype(type);
    at::Tensor made = at::from_blob(memory, sizes, strides, [mapped](void* begin) { munmap(begin, mapped); }, options);
    if (kind == StandIns::kOnes || (kind == StandIns::kOnesAmongFloats && !at::isIntegralType(type, true))) {
        at::from_blob(memory, {static_cast<int64_t>(bytes / element_bytes)}, options).fill_(1);
    }
    return made;
}

}  // namespace

Stage::Stage(StandIns kind) : kind_(kind) {
    if (kind == StandIns::kShapes) {
        // Within a dispatch mode of Python every key before that of Python is excluded, the router's among them.
        const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
        routed_.emplace(keys.included_.add(kRouter), keys.excluded_.remove(kRouter));
    }
    current = this;
}

Stage::~Stage() { current = nullptr; }

at::Tensor Stage::stand_in_for(const aclTensor& tensor, at::ScalarType type) {
    if (kind_ == StandIns::kShapes) {
        return without_data(at::IntArrayRef(tensor.sizes, tensor.dimensions),
                            at::IntArrayRef(tensor.strides, tensor.dimensions), type);
    }
    for (const auto& [known, made] : tensors_) {
        if (known == &tensor) return made;
    }
    return tensors_.emplace_back(&tensor, with_data(tensor, type, kind_)).second;
}

bool is_rehearsing() { return current != nullptr; }

at::Tensor stand_in_for(const aclTensor& tensor, at::ScalarType type) {
    return current == nullptr ? at::Tensor() : current->stand_in_for(tensor, type);
}

void require_data(const at::Tensor& tensor) {
    if (tensor.is_meta()) throw ShapesDoNotSuffice();
}

void require_true_data() {
    if (current != nullptr) throw TrueDataNeeded();
}

}  // namespace virtual_npu

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&virtual_npu::route>());
}

// How a kernel is written: as a C++ function on libtorch's tensors. The C interface of the aclnn function is derived
// from it. The parameter types decide the C types, so the two cannot disagree:
//
//   KERNEL(aclnnAdd, (Tensor self, Tensor other, Scalar alpha, Output result)) {
//       result = at::add(self, other, alpha);
//   }
//
// KERNEL_WITH_WORKSPACE does the same for functions that ask for device memory of their own on hardware.
//
// A kernel sees the arguments in the order of the aclnn function. Phase two runs it (see operator_abi.h): inputs are
// not ready earlier. Phase one rehearses it (see rehearsal.h). If the kernel throws whatever the data is, the call is
// refused. Views arrive as they are, with strides. The caller has already decided the shapes and data types of outputs.
// Assigning to an Output converts the data type only. An exception becomes the error text of the operator.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>

#include "argument_checks.h"
#include "arguments.h"
#include "rehearsal.h"

namespace virtual_npu {

// Runs `body` under the guards a device kernel needs: no autograd, no Python modes, no profiler of the CPU operators,
// no autocast.
void with_guards(void (*body)(void*), void* context);
// The same; returns a Status and fills `message` on an exception.
int run_guarded(const char* function, void (*body)(void*), void* context, char* message, size_t message_size);
void* end_of(const aclTensor* tensor);
void register_kernel(const char* function, const char* source, void (*plan)());

template <auto Compute, const char* Function, bool Workspace>
struct Kernel;

template <typename... Parameters, void (*Compute)(Parameters...), const char* Function, bool Workspace>
struct Kernel<Compute, Function, Workspace> {
    struct Planned : Execution {
        std::tuple<typename Kept<typename Argument<Parameters>::CType>::Type...> arguments;
    };

    static int plan(typename Argument<Parameters>::CType... arguments, uint64_t* workspace_bytes, void** executor) {
        if (workspace_bytes == nullptr || executor == nullptr) {
            return host().refuse((std::string(Function) + ": there is no room for the results of phase one").c_str());
        }
        const int device_status = host().device_status();
        if (device_status != kSuccess) return device_status;
        auto planned = std::make_unique<Planned>(Planned{
            {ObjectKind::kExecution, Function, &run, &destroy, &share, 0, &end_of_output}, {keep(arguments)...}});
        const int status = check(*planned);
        if (status != kSuccess) return status;
        *workspace_bytes = Workspace ? host().workspace_bytes : 0;
        *executor = planned.release();
        return kSuccess;
    }

    static int run(Execution* self, char* message, size_t message_size) {
        return run_guarded(Function, &compute, self, message, message_size);
    }

    static void destroy(Execution* self) {
        if (self->is_shared != 0) for_each_object(self, host().release);
        delete static_cast<Planned*>(self);
    }

    static void share(Execution* self) {
        self->is_shared = 1;
        for_each_object(self, host().share);
    }

    static void* end_of_output(const Execution* self) {
        const aclTensor* last = nullptr;
        std::apply([&last](const auto&... arguments) { (remember_output<Parameters>(arguments, &last), ...); },
                   static_cast<const Planned*>(self)->arguments);
        return end_of(last);
    }

private:
    static void for_each_object(Execution* self, void (*body)(const void*)) {
        std::apply([body](const auto&... arguments) { (visit(arguments, body), ...); },
                   static_cast<const Planned*>(self)->arguments);
    }
    template <typename Argument>
    static void visit(const Argument& argument, void (*body)(const void*)) {
        if constexpr (std::is_pointer_v<Argument>) body(argument);
    }

    static void compute(void* planned) {
        std::apply([](const auto&... arguments) { Compute(Argument<Parameters>::convert(arguments)...); },
                   static_cast<Planned*>(static_cast<Execution*>(planned))->arguments);
    }

    // Whether the arguments are right, as far as it can be known without the data.
    static int check(Planned& planned) {
        // Operators of the older interface have one phase: they run at once.
        if constexpr ((std::is_same_v<Parameters, Attributes> || ...)) return kSuccess;
        static std::atomic<bool> needs_data{false};
        Signature signature(reinterpret_cast<const void*>(Compute));
        std::apply([&signature](const auto&... arguments) { (add_to<Parameters>(signature, arguments), ...); },
                   planned.arguments);
        if (signature.has_wrong_object()) {
            return host().refuse((std::string(Function) + ": an argument is not the object that it should be").c_str());
        }
        if (is_accepted(signature)) return kSuccess;
        return rehearse({Function, &compute, static_cast<Execution*>(&planned), &needs_data}, signature);
    }
    template <typename Parameter, typename Argument>
    static void add_to(Signature& signature, const Argument& argument) {
        if constexpr (std::is_same_v<Parameter, Factor>) {
            signature.add_factor(argument);
        } else if constexpr (std::is_same_v<Argument, const void*>) {
            signature.add_factors(argument);
        } else if constexpr (!is_any<Parameter> && !std::is_same_v<Parameter, Attributes>) {
            signature.add(argument);
        }
    }

    template <typename CType>
    static CType keep(CType argument) {
        return argument;
    }
    static std::string keep(const char* text) { return text == nullptr ? std::string() : std::string(text); }

    template <typename Parameter, typename Argument>
    static void remember_output(const Argument& argument, const aclTensor** last) {
        if constexpr (std::is_same_v<Parameter, Output>) {
            if (argument != nullptr) *last = argument;
        } else if constexpr (std::is_same_v<Parameter, OutputList>) {
            if (argument != nullptr && argument->count > 0) *last = argument->elements[argument->count - 1];
        }
    }
};

struct Registration {
    Registration(const char* function, const char* source, void (*plan)()) { register_kernel(function, source, plan); }
};

}  // namespace virtual_npu

#define VIRTUAL_NPU_KERNEL(FUNCTION, WORKSPACE, PARAMETERS)                                            \
    static void FUNCTION##_compute PARAMETERS;                                                         \
    static constexpr char FUNCTION##_name[] = #FUNCTION;                                               \
    static const Registration FUNCTION##_registration{                                                 \
        FUNCTION##_name, __FILE__,                                                                     \
        reinterpret_cast<void (*)()>(&Kernel<&FUNCTION##_compute, FUNCTION##_name, WORKSPACE>::plan)}; \
    static void FUNCTION##_compute PARAMETERS

#define KERNEL(FUNCTION, PARAMETERS) VIRTUAL_NPU_KERNEL(FUNCTION, false, PARAMETERS)
#define KERNEL_WITH_WORKSPACE(FUNCTION, PARAMETERS) VIRTUAL_NPU_KERNEL(FUNCTION, true, PARAMETERS)

// libacl_op_compiler.so: operators by name, compiled and executed in one call. See runtime/operator_model.cpp.
//
// Copies are done here. A few operators that torch_npu has no other way to ask for have kernels under their names
// (kernels/*_by_name.cpp), which take the inputs, the outputs and the attributes. Any other operator fails and says its
// name.
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "device_failures.h"
#include "kernel_launch.h"
#include "on_stream.h"
#include "operator_abi.h"
#include "operator_model.h"
#include "runtime_errors.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

const char* find_attribute(const void* values, const char* name) {
    const auto& attributes = static_cast<const aclopAttr*>(values)->values;
    const auto place = attributes.find(name);
    return place == attributes.end() ? nullptr : place->second.c_str();
}

// The tensors of one call as a kernel takes them. An input that the caller leaves out has no data and no data type; a
// tensor without elements has no data either.
class Arguments {
public:
    explicit Arguments(const aclopAttr* attributes) : attributes_(attributes == nullptr ? aclopAttr{} : *attributes) {}
    void add(const aclTensorDesc& description, const aclDataBuffer& buffer) {
        const bool has_elements =
            std::find(description.sizes.begin(), description.sizes.end(), 0) == description.sizes.end();
        if ((buffer.data == nullptr && has_elements) || description.data_type < 0) {
            pointers_.push_back(nullptr);
            return;
        }
        const auto dimensions = static_cast<uint32_t>(description.sizes.size());
        sizes_.push_back(description.sizes);
        strides_.emplace_back(dimensions);
        int64_t elements = 1;
        for (uint32_t dimension = dimensions; dimension-- > 0;) {
            strides_.back()[dimension] = elements;
            elements *= description.sizes[dimension];
        }
        tensors_.push_back({virtual_npu::ObjectKind::kTensor,
                            {},
                            description.data_type,
                            description.format,
                            dimensions,
                            0,
                            buffer.data,
                            sizes_.back().data(),
                            strides_.back().data(),
                            elements});
        pointers_.push_back(&tensors_.back());
    }
    void add_attributes() { pointers_.push_back(&named_); }

    const std::vector<const void*>& pointers() const { return pointers_; }

private:
    std::deque<std::vector<int64_t>> sizes_, strides_;
    std::deque<aclTensor> tensors_;
    std::vector<const void*> pointers_;
    const aclopAttr attributes_;
    const aclAttributes named_{virtual_npu::ObjectKind::kAttributes, &attributes_, &find_attribute};
};

// Kernels are libopapi's business; torch_npu may come here before it has opened that.
using ExecuteByName = int (*)(const char* name, const void* const* arguments, uint64_t count, void* stream);
ExecuteByName execute_by_name() {
    static const auto function = [] {
        void* library = dlopen("libopapi.so", RTLD_NOW);
        return reinterpret_cast<ExecuteByName>(library == nullptr ? nullptr
                                                                  : dlsym(library, "virtual_npu_execute_by_name"));
    }();
    return function;
}

int execute(const std::string& name, const std::vector<const void*>& arguments, void* stream) {
    const auto function = execute_by_name();
    const int status = function == nullptr ? virtual_npu::kKernelMissing
                                           : function(name.c_str(), arguments.data(), arguments.size(), stream);
    if (status == virtual_npu::kSuccess) return virtual_npu::kAclSuccess;
    if (status != virtual_npu::kKernelMissing) return virtual_npu::kAclOperatorFailure;  // the error text is set
    const std::string text = "operator " + name +
                             " of the older interface (aclop) is not part of the virtual NPU; torch_npu asks for it "
                             "where it has no aclnn function. Keep the operation on the CPU";
    std::fprintf(stderr, "[vnpu] %s\n", text.c_str());
    virtual_npu_call_refused(virtual_npu_device_of_stream(stream), text.c_str());
    return virtual_npu::fail(virtual_npu::kAclOperatorFailure, "E40000: %s", text.c_str());
}

}  // namespace

// `attributes` may be null. Inputs are contiguous.
EXPORTED int aclopCompileAndExecute(const char* operator_name, int inputs, const aclTensorDesc* const* input_shapes,
                                    const aclDataBuffer* const* input_buffers, int outputs,
                                    const aclTensorDesc* const* output_shapes, aclDataBuffer* const* output_buffers,
                                    const aclopAttr* attributes, int, int, const char*, void* stream) {
    if (operator_name == nullptr)
        return virtual_npu::fail(virtual_npu::kAclInvalidParameter, "EE1001: an operator needs a name");
    const std::string name = operator_name;
    const int ready = virtual_npu_stream_status(stream);
    if (ready != virtual_npu::kAclSuccess) return ready;
    if ((name == "Identity" || name == "TensorMove") && inputs >= 1 && outputs >= 1) {
        const aclDataBuffer source = *input_buffers[0];
        const aclDataBuffer target = *output_buffers[0];
        return virtual_npu::on_stream(stream, [source, target] {
            std::memmove(target.data, source.data, std::min(source.bytes, target.bytes));
            return static_cast<int>(virtual_npu::kAclSuccess);
        });
    }
    const auto arguments = std::make_shared<Arguments>(attributes);
    for (int index = 0; index < inputs; ++index) arguments->add(*input_shapes[index], *input_buffers[index]);
    for (int index = 0; index < outputs; ++index) arguments->add(*output_shapes[index], *output_buffers[index]);
    arguments->add_attributes();
    return virtual_npu::on_stream(stream,
                                  [name, arguments, stream] { return execute(name, arguments->pointers(), stream); });
}

EXPORTED int aclSetCompileopt(int, const char*) { return virtual_npu::kAclSuccess; }
EXPORTED int aclrtGetSysParamOpt(int, int64_t* value) {
    *value = 0;
    return virtual_npu::kAclSuccess;
}

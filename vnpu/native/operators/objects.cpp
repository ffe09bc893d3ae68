// The argument objects of the aclnn interface: made and destroyed by the caller, read by kernels.
// Every destroy function accepts null, as the real ones do.
#include "objects.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <type_traits>

#include "operator_abi.h"

namespace virtual_npu {

size_t value_bytes(int data_type) {
    switch (data_type) {
        case kInt8:
        case kUint8:
        case kBool:
            return 1;
        case kFloat16:
        case kBfloat16:
        case kInt16:
        case kUint16:
            return 2;
        case kFloat:
        case kInt32:
        case kUint32:
        case kComplex32:
            return 4;
        case kDouble:
        case kInt64:
        case kUint64:
        case kComplex64:
            return 8;
        case kComplex128:
            return 16;
        default:
            return 0;
    }
}

bool is_whole_number(int data_type) {
    switch (data_type) {
        case kInt8:
        case kUint8:
        case kBool:
        case kInt16:
        case kUint16:
        case kInt32:
        case kUint32:
        case kInt64:
        case kUint64:
            return true;
        default:
            return false;
    }
}

}  // namespace virtual_npu

namespace {

using virtual_npu::ObjectKind;
using virtual_npu::value_bytes;

int64_t* copy_of(const int64_t* numbers, uint64_t count) {
    auto* copy = new int64_t[count + 1];
    if (count > 0) std::copy(numbers, numbers + count, copy);
    return copy;
}

template <typename Array, typename Element>
Array* make_array(ObjectKind kind, const Element* elements, uint64_t count) {
    if (elements == nullptr && count > 0) return nullptr;
    auto* array = new Array;
    array->kind = kind;
    array->count = count;
    array->elements = new Element[count + 1];
    if (count > 0) std::copy(elements, elements + count, array->elements);
    return array;
}

// True if that was the last owner.
template <typename Object>
bool let_go(const Object* object) {
    return object != nullptr && --const_cast<Object*>(object)->owners.count == 0;
}

template <typename Array>
int destroy_array(const Array* array) {
    if (!let_go(array)) return virtual_npu::kSuccess;
    delete[] array->elements;
    delete array;
    return virtual_npu::kSuccess;
}

// The elements of a list belong to it.
template <typename List, typename Element>
int destroy_list(const List* list, int (*destroy_element)(const Element*)) {
    if (!let_go(list)) return virtual_npu::kSuccess;
    std::for_each(list->elements, list->elements + list->count, destroy_element);
    delete[] list->elements;
    delete list;
    return virtual_npu::kSuccess;
}

// Calls `body` with an object as what it is.
template <typename Body>
void with_object(const void* object, Body body) {
    switch (object == nullptr ? ObjectKind::kExecution : *static_cast<const ObjectKind*>(object)) {
        case ObjectKind::kTensor:
            return body(static_cast<const aclTensor*>(object));
        case ObjectKind::kScalar:
            return body(static_cast<const aclScalar*>(object));
        case ObjectKind::kIntArray:
            return body(static_cast<const aclIntArray*>(object));
        case ObjectKind::kFloatArray:
            return body(static_cast<const aclFloatArray*>(object));
        case ObjectKind::kBoolArray:
            return body(static_cast<const aclBoolArray*>(object));
        case ObjectKind::kTensorList:
            return body(static_cast<const aclTensorList*>(object));
        case ObjectKind::kScalarList:
            return body(static_cast<const aclScalarList*>(object));
        default:
            return;  // not of this library: attributes, which belong to their maker
    }
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED aclTensor* aclCreateTensor(const int64_t* view_sizes, uint64_t dimensions, int data_type,
                                    const int64_t* strides, int64_t offset, int format, const int64_t* storage_sizes,
                                    uint64_t storage_dimensions, void* storage) {
    if (view_sizes == nullptr && dimensions > 0) return nullptr;
    if (storage_sizes == nullptr && storage_dimensions > 0) return nullptr;
    auto* tensor = new aclTensor;
    tensor->kind = ObjectKind::kTensor;
    tensor->data_type = data_type;
    tensor->format = format;
    tensor->dimensions = static_cast<uint32_t>(dimensions);
    tensor->offset = offset;
    tensor->storage = storage;
    tensor->sizes = copy_of(view_sizes, dimensions);
    if (strides != nullptr) {
        tensor->strides = copy_of(strides, dimensions);
    } else {
        tensor->strides = new int64_t[dimensions + 1];
        int64_t stride = 1;
        for (uint64_t dimension = dimensions; dimension-- > 0;) {
            tensor->strides[dimension] = stride;
            stride *= view_sizes[dimension];
        }
    }
    tensor->storage_elements = 1;
    for (uint64_t dimension = 0; dimension < storage_dimensions; ++dimension) {
        tensor->storage_elements *= storage_sizes[dimension];
    }
    return tensor;
}

EXPORTED int aclDestroyTensor(const aclTensor* tensor) {
    if (!let_go(tensor)) return virtual_npu::kSuccess;
    delete[] tensor->sizes;
    delete[] tensor->strides;
    delete tensor;
    return virtual_npu::kSuccess;
}

EXPORTED aclScalar* aclCreateScalar(void* value, int data_type) {
    const size_t bytes = value_bytes(data_type);
    if (value == nullptr || bytes == 0) return nullptr;
    auto* scalar = new aclScalar;
    scalar->kind = ObjectKind::kScalar;
    scalar->data_type = data_type;
    std::memset(scalar->value, 0, sizeof scalar->value);
    std::memcpy(scalar->value, value, bytes);
    return scalar;
}

EXPORTED int aclDestroyScalar(const aclScalar* scalar) {
    if (let_go(scalar)) delete scalar;
    return virtual_npu::kSuccess;
}

EXPORTED aclIntArray* aclCreateIntArray(const int64_t* elements, uint64_t count) {
    return make_array<aclIntArray>(ObjectKind::kIntArray, elements, count);
}
EXPORTED aclFloatArray* aclCreateFloatArray(const float* elements, uint64_t count) {
    return make_array<aclFloatArray>(ObjectKind::kFloatArray, elements, count);
}
EXPORTED aclBoolArray* aclCreateBoolArray(const bool* elements, uint64_t count) {
    return make_array<aclBoolArray>(ObjectKind::kBoolArray, elements, count);
}
EXPORTED int aclDestroyIntArray(const aclIntArray* array) { return destroy_array(array); }
EXPORTED int aclDestroyFloatArray(const aclFloatArray* array) { return destroy_array(array); }
EXPORTED int aclDestroyBoolArray(const aclBoolArray* array) { return destroy_array(array); }

EXPORTED aclTensorList* aclCreateTensorList(const aclTensor* const* elements, uint64_t count) {
    return make_array<aclTensorList>(ObjectKind::kTensorList, elements, count);
}
EXPORTED int aclDestroyTensorList(const aclTensorList* list) { return destroy_list(list, aclDestroyTensor); }
EXPORTED aclScalarList* aclCreateScalarList(const aclScalar* const* elements, uint64_t count) {
    return make_array<aclScalarList>(ObjectKind::kScalarList, elements, count);
}
EXPORTED int aclDestroyScalarList(const aclScalarList* list) { return destroy_list(list, aclDestroyScalar); }

// The caller releases the sizes with delete[].
EXPORTED int aclGetViewShape(const aclTensor* tensor, int64_t** sizes, uint64_t* dimensions) {
    if (tensor == nullptr || sizes == nullptr || dimensions == nullptr) return virtual_npu::kInvalidArgument;
    *sizes = copy_of(tensor->sizes, tensor->dimensions);
    *dimensions = tensor->dimensions;
    return virtual_npu::kSuccess;
}

namespace virtual_npu {

void share_object(const void* object) {
    with_object(object, [](const auto* shared) {
        using Object = std::remove_const_t<std::remove_pointer_t<decltype(shared)>>;
        ++const_cast<Object*>(shared)->owners.count;
    });
}

namespace {

void destroy(const aclTensor* tensor) { aclDestroyTensor(tensor); }
void destroy(const aclScalar* scalar) { aclDestroyScalar(scalar); }
void destroy(const aclTensorList* list) { aclDestroyTensorList(list); }
void destroy(const aclScalarList* list) { aclDestroyScalarList(list); }
template <typename Array>
void destroy(const Array* array) {
    destroy_array(array);
}

}  // namespace

void release_object(const void* object) {
    with_object(object, [](const auto* shared) { destroy(shared); });
}

}  // namespace virtual_npu

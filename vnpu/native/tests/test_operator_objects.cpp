// The argument objects of aclnn functions, and the entry points with compute=none.
#include <dlfcn.h>

#include <cstdint>

#include "check.h"
#include "operator_abi.h"

extern "C" {
aclTensor* aclCreateTensor(const int64_t*, uint64_t, int, const int64_t*, int64_t, int, const int64_t*, uint64_t,
                           void*);
int aclDestroyTensor(const aclTensor*);
aclScalar* aclCreateScalar(void*, int);
int aclDestroyScalar(const aclScalar*);
aclIntArray* aclCreateIntArray(const int64_t*, uint64_t);
int aclDestroyIntArray(const aclIntArray*);
aclBoolArray* aclCreateBoolArray(const bool*, uint64_t);
int aclDestroyBoolArray(const aclBoolArray*);
int aclDestroyFloatArray(const aclFloatArray*);
aclTensorList* aclCreateTensorList(const aclTensor* const*, uint64_t);
int aclDestroyTensorList(const aclTensorList*);
aclScalarList* aclCreateScalarList(const aclScalar* const*, uint64_t);
int aclDestroyScalarList(const aclScalarList*);
int aclrtSetDevice(int32_t);
int aclGetViewShape(const aclTensor*, int64_t**, uint64_t*);
int aclnnAddGetWorkspaceSize(const aclTensor*, const aclTensor*, const aclScalar*, aclTensor*, uint64_t*, void**);
int aclnnAdd(void*, uint64_t, void*, void*);
int aclnnInplaceCopyGetWorkspaceSize(const aclTensor*, const aclTensor*, uint64_t*, void**);
int aclnnMmGetWorkspaceSize(const aclTensor*, const aclTensor*, aclTensor*, int8_t, uint64_t*, void**);
}

namespace {

aclTensor* tensor(float* storage) {
    const int64_t sizes[] = {2, 3};
    const int64_t storage_sizes[] = {12};
    return aclCreateTensor(sizes, 2, virtual_npu::kFloat, nullptr, 1, 2, storage_sizes, 1, storage);
}

}  // namespace

int main() {
    float storage[12] = {};
    aclTensor* made = tensor(storage);
    CHECK_EQUAL(made->strides[0], int64_t{3});
    CHECK_EQUAL(made->strides[1], int64_t{1});
    CHECK_EQUAL(made->storage_elements, int64_t{12});
    int64_t* sizes = nullptr;
    uint64_t dimensions = 0;
    CHECK_EQUAL(aclGetViewShape(made, &sizes, &dimensions), 0);
    CHECK_EQUAL(dimensions, uint64_t{2});
    CHECK_EQUAL(sizes[1], int64_t{3});
    delete[] sizes;
    CHECK_EQUAL(aclGetViewShape(nullptr, &sizes, &dimensions), 161002);

    double value = 2.5;
    aclScalar* scalar = aclCreateScalar(&value, virtual_npu::kDouble);
    CHECK(scalar != nullptr);
    CHECK(aclCreateScalar(&value, 99) == nullptr);
    CHECK(aclCreateScalar(nullptr, virtual_npu::kDouble) == nullptr);

    CHECK(aclCreateTensor(nullptr, 2, virtual_npu::kFloat, nullptr, 0, 2, nullptr, 0, storage) == nullptr);
    CHECK(aclCreateIntArray(nullptr, 2) == nullptr);

    // compute=none: no executor, no work; a workspace where hardware needs one.
    uint64_t workspace = 7;
    void* executor = nullptr;
    CHECK_EQUAL(aclnnAddGetWorkspaceSize(made, made, scalar, made, &workspace, &executor), 0);
    CHECK(executor == nullptr);
    CHECK(aclnnAdd(nullptr, 0, nullptr, nullptr) != 0);  // the thread has no device
    CHECK_EQUAL(aclrtSetDevice(0), 0);
    CHECK_EQUAL(aclnnAdd(nullptr, 0, nullptr, nullptr), 0);
    CHECK_EQUAL(storage[1], 0.0f);
    CHECK_EQUAL(aclnnMmGetWorkspaceSize(made, made, made, 0, &workspace, &executor), 0);
    CHECK_EQUAL(workspace, uint64_t{16} << 20);
    CHECK_EQUAL(aclnnMmGetWorkspaceSize(made, made, made, 0, nullptr, &executor), 161002);
    CHECK_EQUAL(aclnnInplaceCopyGetWorkspaceSize(nullptr, made, &workspace, &executor), 161002);
    CHECK_EQUAL(aclnnInplaceCopyGetWorkspaceSize(made, made, &workspace, nullptr), 161002);
    CHECK_EQUAL(aclnnAdd(nullptr, 0, made, nullptr), 161002);  // no executor

    const aclTensor* members[] = {made, tensor(storage)};
    aclTensorList* list = aclCreateTensorList(members, 2);
    CHECK_EQUAL(list->count, uint64_t{2});
    CHECK_EQUAL(aclDestroyTensorList(list), 0);  // with its tensors
    const aclScalar* scalars[] = {scalar};
    CHECK_EQUAL(aclDestroyScalarList(aclCreateScalarList(scalars, 1)), 0);
    const int64_t numbers[] = {4, 5};
    aclIntArray* array = aclCreateIntArray(numbers, 2);
    CHECK_EQUAL(array->elements[1], int64_t{5});
    CHECK_EQUAL(aclDestroyIntArray(array), 0);
    const bool flags[] = {true};
    CHECK_EQUAL(aclDestroyBoolArray(aclCreateBoolArray(flags, 1)), 0);
    CHECK_EQUAL(aclDestroyIntArray(aclCreateIntArray(nullptr, 0)), 0);

    CHECK_EQUAL(aclDestroyTensor(nullptr), 0);
    CHECK_EQUAL(aclDestroyScalar(nullptr), 0);
    CHECK_EQUAL(aclDestroyIntArray(nullptr), 0);
    CHECK_EQUAL(aclDestroyBoolArray(nullptr), 0);
    CHECK_EQUAL(aclDestroyFloatArray(nullptr), 0);
    CHECK_EQUAL(aclDestroyTensorList(nullptr), 0);
    CHECK_EQUAL(aclDestroyScalarList(nullptr), 0);
    return 0;
}

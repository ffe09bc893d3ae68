#include "sources/ascend/atb/enum_names.h"

#include <cstddef>

namespace msmemscope::atb {
namespace {

struct Name {
    std::int32_t value;
    const char* name;
};

constexpr Name kAclDtypes[] = {
    {0, "ACL_FLOAT"},   {1, "ACL_FLOAT16"}, {2, "ACL_INT8"},    {3, "ACL_INT32"},      {4, "ACL_UINT8"},
    {6, "ACL_INT16"},   {7, "ACL_UINT16"},  {8, "ACL_UINT32"},  {9, "ACL_INT64"},      {10, "ACL_UINT64"},
    {11, "ACL_DOUBLE"}, {12, "ACL_BOOL"},   {13, "ACL_STRING"}, {16, "ACL_COMPLEX64"}, {17, "ACL_COMPLEX128"},
    {27, "ACL_BF16"},   {29, "ACL_INT4"},   {30, "ACL_UINT1"},  {33, "ACL_COMPLEX32"},
};

constexpr Name kAclFormats[] = {
    {0, "ACL_FORMAT_NCHW"},    {1, "ACL_FORMAT_NHWC"},      {2, "ACL_FORMAT_ND"},
    {3, "ACL_FORMAT_NC1HWC0"}, {4, "ACL_FORMAT_FRACTAL_Z"}, {12, "ACL_FORMAT_NC1HWC0_C04"},
    {16, "ACL_FORMAT_HWCN"},   {27, "ACL_FORMAT_NDHWC"},    {29, "ACL_FORMAT_FRACTAL_NZ"},
    {30, "ACL_FORMAT_NCDHW"},  {32, "ACL_FORMAT_NDC1HWC0"}, {33, "ACL_FRACTAL_Z_3D"},
    {35, "ACL_FORMAT_NC"},     {47, "ACL_FORMAT_NCL"},
};

constexpr Name kMkiDtypes[] = {
    {0, "TENSOR_DTYPE_FLOAT"},   {1, "TENSOR_DTYPE_FLOAT16"},    {2, "TENSOR_DTYPE_INT8"},
    {3, "TENSOR_DTYPE_INT32"},   {4, "TENSOR_DTYPE_UINT8"},      {6, "TENSOR_DTYPE_INT16"},
    {7, "TENSOR_DTYPE_UINT16"},  {8, "TENSOR_DTYPE_UINT32"},     {9, "TENSOR_DTYPE_INT64"},
    {10, "TENSOR_DTYPE_UINT64"}, {11, "TENSOR_DTYPE_DOUBLE"},    {12, "TENSOR_DTYPE_BOOL"},
    {13, "TENSOR_DTYPE_STRING"}, {16, "TENSOR_DTYPE_COMPLEX64"}, {17, "TENSOR_DTYPE_COMPLEX128"},
    {27, "TENSOR_DTYPE_BF16"},
};

constexpr Name kMkiFormats[] = {
    {0, "TENSOR_FORMAT_NCHW"},    {1, "TENSOR_FORMAT_NHWC"},      {2, "TENSOR_FORMAT_ND"},
    {3, "TENSOR_FORMAT_NC1HWC0"}, {4, "TENSOR_FORMAT_FRACTAL_Z"}, {12, "TENSOR_FORMAT_NC1HWC0_C04"},
    {16, "TENSOR_FORMAT_HWCN"},   {27, "TENSOR_FORMAT_NDHWC"},    {29, "TENSOR_FORMAT_FRACTAL_NZ"},
    {30, "TENSOR_FORMAT_NCDHW"},  {32, "TENSOR_FORMAT_NDC1HWC0"}, {33, "TENSOR_FORMAT_FRACTAL_Z_3D"},
};

template <std::size_t Count>
const char* name_in(const Name (&names)[Count], std::int32_t value, const char* undefined) noexcept {
    for (const Name& name : names) {
        if (name.value == value) {
            return name.name;
        }
    }
    return undefined;
}

}  // namespace

const char* acl_dtype_name(std::int32_t dtype) noexcept { return name_in(kAclDtypes, dtype, "ACL_DT_UNDEFINED"); }

const char* acl_format_name(std::int32_t format) noexcept {
    return name_in(kAclFormats, format, "ACL_FORMAT_UNDEFINED");
}

const char* mki_dtype_name(std::int32_t dtype) noexcept { return name_in(kMkiDtypes, dtype, "TENSOR_DTYPE_UNDEFINED"); }

const char* mki_format_name(std::int32_t format) noexcept {
    return name_in(kMkiFormats, format, "TENSOR_FORMAT_UNDEFINED");
}

}  // namespace msmemscope::atb

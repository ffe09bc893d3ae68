// Names of dtypes and formats, as they stand in the headers of CANN and Mki.
#pragma once

#include <cstdint>

namespace msmemscope::atb {

// Of values without a name: the name of "undefined".
const char* acl_dtype_name(std::int32_t dtype) noexcept;
const char* acl_format_name(std::int32_t format) noexcept;
const char* mki_dtype_name(std::int32_t dtype) noexcept;
const char* mki_format_name(std::int32_t format) noexcept;

}  // namespace msmemscope::atb

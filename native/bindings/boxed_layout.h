// What boxed_lessons.cpp finds out, for boxed_calls.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msmemscope {

// Calls an operator with what lies on a stack: torch's own function. made_with: two words, which are a copy of the
// operator's handle, or of which the first says where one lies.
using CallBoxed = void (*)(const void* made_with, void* stack);

struct BoxedLayout {
    // How the dispatcher calls Python: an object whose first word is the address of its table of functions.
    const void* const** functions;  // of the interpreter: where the address of that object stands
    std::size_t functions_count;    // of the table
    std::size_t dispatch_place;     // in the table
    std::size_t overload;  // in an operator, whose first word is the address of its name: the same of the overload
    std::size_t elements;  // in a list: addresses of the first element and after the last
    std::uint32_t nothing_tag;
    std::uint32_t tensor_tag;
    std::uint32_t list_tag;
    std::uint32_t device_tag;
    CallBoxed call;
    bool handle_lies_apart;
};

// Null until everything was learned.
const BoxedLayout* boxed_layout();

}  // namespace msmemscope

// The layout that boxed_lessons.cpp finds out for boxed_calls.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msmemscope {

// Torch's own function that calls an operator with the values on a stack. made_with: two words. They are a copy of the
// operator's handle, or the first one says where such a copy lies.
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

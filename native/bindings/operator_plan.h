// Facts about an operator that are found once and for all.
#pragma once

#include <Python.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "tensor_reader.h"
#include "watch_operands.h"

namespace msmemscope {

struct KeywordUse {
    PyObject* name;  // interned
    Use use;
};

struct OperatorPlan {
    std::string name;
    std::vector<Use> inputs;                 // by position; further positions are not touched
    std::vector<KeywordUse> keyword_inputs;  // all arguments, in their order: any can be passed by name
    std::vector<Use> outputs;                // by position of the schema's returns
    std::uint32_t kept_keys = 0;             // a bit for each that learn_lazy_keys took: its caller's stay
    int device_position = -1;                // of the argument that says where it works; -1: there is none
    // For the watch: the arguments that may be written, also where the schema does not say it.
    WrittenArguments written;
    std::atomic<std::uint64_t> calls{0};  // of outermost ones
    // Id of the name, valid in one epoch of the recorder, whose lower half is in front of it.
    std::atomic<std::uint64_t> name_in_epoch{0};
};

// The plan that define_operator gave this number. Null with an error set if there is none.
OperatorPlan* plan_of(PyObject* number);

}  // namespace msmemscope

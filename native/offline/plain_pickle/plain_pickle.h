// A look at every opcode of a pickle, before Python makes anything of it.
//
// Python's unpickler calls functions that a file names, and makes room for whatever size it claims. It hashes keys with
// a hash that is no secret. So a few megabytes can keep it busy for days. A pickle passes here only if it is plain
// data:
// - It has dictionaries, lists, tuples, numbers of 64 bits, texts and bytes.
// - Its keys are texts and numbers.
// - It is about as large as its opcodes say.
//
// For analyses, not for the observed process. The opcodes are those of Python's module pickletools, protocols 2 to 5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace msmemscope {

enum class PickleFault : std::uint8_t {
    kNone = 0,
    kEndsEarly = 1,     // no STOP
    kTooLong = 2,       // an argument reaches beyond the end
    kNotPlain = 3,      // an opcode that names, calls or refers to something
    kMemoNumber = 4,    // a place of the memo beyond what was put into it
    kNothingThere = 5,  // an opcode that takes more than was made
    kLargeNumber = 6,   // a number of more than 64 bits
    kKey = 7,           // a key that is neither a text nor a number
};

struct PickleWalk {
    PickleFault fault = PickleFault::kNone;
    std::size_t place = 0;           // of the opcode concerned; of the STOP if there is no fault
    std::uint64_t object_bytes = 0;  // about as much memory as Python needs for what is made
};

PickleWalk walk_pickle(std::string_view content);

}  // namespace msmemscope

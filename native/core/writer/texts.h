// Numbers for texts and sets of attributes, whether or not there is a log yet. Texts are labels of threads and blocks,
// and facts of allocators about blocks.
//
// A string id belongs to one log. Before anything is recorded, facts about a block must be kept without a log. So a
// block keeps the number of a text. The text gets its string id when the block is recorded. Numbers hold for the life
// of the process and in forked children. Texts are few and are never forgotten.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/format/attribute.h"
#include "core/writer/recorder.h"

namespace msmemscope {

#pragma GCC visibility push(default)
namespace texts {

// The number of a text, the same one for equal texts. 0 for the empty text, and where there is no room for more. Takes
// a lock: to be kept by whoever needs it often.
std::uint32_t number_of(const char* text, std::size_t bytes) noexcept;

// The number of the labels of both texts. Labels are lines, each with the digit of its level. A line of the second text
// replaces those of its level in the first. A line of one of the user's levels is added behind the user's labels of the
// first. It is added only if it is none of them and there are fewer than three. 0 stands for no text.
std::uint32_t joined(std::uint32_t first, std::uint32_t second) noexcept;

// The number of a set of attributes, likewise. Where a value is a string, it stands there as the number of a text.
std::uint32_t number_of_attributes(const format::Attribute* pairs, std::size_t pair_count) noexcept;

// The string id of the text, or the attribute id of the set, in the log that is written now; 0 for 0.
std::uint32_t id_in_log(const RecordingScope& scope, std::uint32_t number) noexcept;

}  // namespace texts
#pragma GCC visibility pop
}  // namespace msmemscope

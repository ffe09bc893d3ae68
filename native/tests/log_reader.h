// Reads an event log as plainly as possible, to judge what the writer wrote.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/format/attribute.h"
#include "core/format/definition.h"
#include "core/format/process_header.h"
#include "core/format/record.h"

namespace msmemscope::tests {

struct Definition {
    format::DefinitionHeader header;
    std::string payload;
};

struct Log {
    format::ProcessHeader header;
    std::vector<format::Record> records;  // committed ones, in sequence order
    std::vector<format::Record> kept;     // of kept segments that are not in records
    std::vector<Definition> definitions;

    // Records of a kind.
    std::vector<format::Record> of(format::EventKind kind) const;
    bool has_fact(const std::string& text) const;
};

// The capture of a process below an output root. Ends the test if there is none, or if it is not sound. It is not sound
// if sequence numbers repeat, a segment is out of order, or a FREE has no MALLOC.
Log read_log(const std::filesystem::path& output, int process_id);

// Attributes in their order, "key=text" or "key=#number" each, with commas between; empty for 0.
std::string attributes_of(const Log& log, std::uint32_t attribute_id);

// How many captures an output root has.
std::size_t count_captures(const std::filesystem::path& output);

// Bytes on disk of the capture's segments.
std::uint64_t allocated_bytes(const std::filesystem::path& output, int process_id);

}  // namespace msmemscope::tests

// Definitions: everything of variable length, written once and referred to by id.
//
// A definition segment is a sequence of entries. Each entry is a DefinitionHeader, its payload, and zero bytes up to
// the next multiple of 8. Ids are process-wide and per family:
// - strings;
// - attributes;
// - code objects;
// - Python stacks;
// - native stacks.
//
// So a thread may use an id whose entry lies in the segment of another thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msmemscope::format {

// Values are part of the file format: never renumber, only append.
enum class DefinitionKind : std::uint16_t {
    kNone = 0,
    // Payload: UTF-8 text, no terminator.
    kString = 1,
    // Payload: CodePayload, then the line table's bytes.
    kCode = 2,
    // Payload: PythonFrame[], innermost first.
    kPythonStack = 3,
    // Payload: std::uint64_t[], return addresses, innermost first.
    kNativeStack = 4,
    // Payload: ModulePayload, then build id bytes, then the path (UTF-8).
    kModule = 5,
    // Payload: UTF-8 text "key=value", one fact per entry (settings, argv,
    // what was observed and what could not be). See FORMAT.md for the keys.
    kFact = 6,
    // Payload: Attribute[]. No attribute id is the id of a string.
    kAttributes = 7,
};

// "MDEF" when read as bytes on a little-endian machine. Stored last, with
// release order: an entry without it is not committed. A reader that meets
// anything else scans forward in steps of 8 for the next entry that fits.
inline constexpr std::uint32_t kDefinitionCommit = 0x4645444dU;

struct DefinitionHeader {
    std::uint32_t commit;
    DefinitionKind kind;
    std::uint16_t reserved;
    std::uint32_t id;
    std::uint32_t payload_bytes;
};
static_assert(sizeof(DefinitionHeader) == 16);

// How CodePayload's line table is to be read.
enum class LineTableFormat : std::uint32_t {
    kNone = 0,
    // CPython 3.10 (PEP 626): pairs of (bytecode delta, signed line delta).
    kPython310 = 1,
    // CPython 3.11 and later (PEP 657): the location table.
    kPython311 = 2,
};

struct CodePayload {
    std::uint32_t file_name_id;  // string id
    std::uint32_t name_id;       // string id of co_name
    std::uint32_t first_line;
    LineTableFormat line_table_format;
    std::uint32_t line_table_bytes;
    std::uint32_t reserved;
};
static_assert(sizeof(CodePayload) == 24);

struct PythonFrame {
    std::uint32_t code_id;
    std::uint32_t instruction_offset;  // in bytes from the start of the bytecode
};
static_assert(sizeof(PythonFrame) == 8);

// A file mapped into the process. Addresses a of native stacks with
// start <= a < end lie in it, at file address a - load_bias.
struct ModulePayload {
    std::uint64_t load_bias;
    std::uint64_t start;
    std::uint64_t end;
    // Sequence number next to be given when the module was seen: a module seen
    // later at the same place replaces it from there on.
    std::uint64_t seen_at_sequence;
    std::uint32_t build_id_bytes;
    std::uint32_t path_bytes;
};
static_assert(sizeof(ModulePayload) == 40);

}  // namespace msmemscope::format

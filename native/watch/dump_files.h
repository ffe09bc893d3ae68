// The files that show watched memory: one per look with its whole content, or a table of checksums.
//
// They lie in watch_dump/ directly under the output root. The documents give their names:
//   {device}_{thread}_{operator}_{call}-{name}_{output}_{before|after}.bin
//   watch_dump_data_check_sum_{device}_{timestamp}.csv
//
// Everything is opened relative to the folder and never through a symbolic link. An error ends the writing with one
// line and the fact "watch.files_ended". The program goes on. The files that are left are whole: a content or a row
// that did not fit is taken back. A disk is not filled to its end, because the event log needs room too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "watch/fingerprint.h"

namespace msmemscope::watch {

// The parts of the name that a look at watched memory gets.
struct LookName {
    format::Device device;
    std::uint32_t thread_id;
    const char* operator_name;  // parts of a path as ATB has them are joined by points in names of files
    std::uint64_t call;
    const char* watched_name;
    std::uint32_t output;
    bool is_before;
};

class DumpFiles {
public:
    // False once writing has ended.
    bool are_open() const noexcept { return !ended_; }

    // Writes the content as it was at the last look, or, where no copy of that is kept, as it is now.
    void write_content(const LookName& name, const Fingerprint& fingerprint, const Content& content, Reading reading,
                       std::uint64_t most_bytes) noexcept;
    void write_checksum(const LookName& name, std::uint64_t checksum, std::uint64_t most_bytes) noexcept;

    // In a forked child: the files are the parent's.
    void forget() noexcept;

private:
    static constexpr std::size_t kDevices = 64;
    struct Table {
        format::Device device;
        int file;
    };
    static constexpr std::uint64_t kUnaskedBytes = std::uint64_t{64} << 10U;

    bool open_folder() noexcept;
    // Ends the writing if so many bytes more would be too many.
    bool has_room(std::uint64_t bytes, std::uint64_t most_bytes) noexcept;
    // Likewise, if the disk would have too little left.
    bool disk_has_room(std::uint64_t bytes) noexcept;
    int create_file(const char* name, bool replaces) noexcept;
    int table_of(format::Device device) noexcept;
    void end(const char* what, int error) noexcept;

    int folder_ = -1;
    bool ended_ = false;
    std::uint64_t written_bytes_ = 0;
    bool has_asked_ = false;  // the disk, how much is left
    std::uint64_t unasked_bytes_ = 0;
    Table tables_[kDevices] = {};
    std::size_t table_count_ = 0;
};

}  // namespace msmemscope::watch

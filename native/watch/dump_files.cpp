#include "watch/dump_files.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "core/format/record.h"
#include "core/writer/civil_time.h"
#include "core/writer/hash.h"
#include "core/writer/recorder.h"

namespace msmemscope::watch {
namespace {

constexpr unsigned kFolderMode = 0750;
constexpr unsigned kFileMode = 0640;
constexpr const char* kFolder = "watch_dump";
constexpr const char* kTableHeader = "Tensor info,Check data sum\n";
constexpr std::size_t kLongestName = 250;  // file systems take 255 bytes
constexpr int kMostTables = 60;
// Space that is left free on the disk for the event log, without which no change could be recorded. It is a part of the
// disk, and at most so many bytes.
constexpr std::uint64_t kPartLeftFree = 32;
constexpr std::uint64_t kMostLeftFree = std::uint64_t{64} << 20U;

struct NameText {
    char text[1200];
};

// An NPU is its number alone, as the documents have it.
void device_word(format::Device device, char (&word)[16]) noexcept {
    if (format::is_of_kind(device, format::DeviceKind::kNpu)) {
        std::snprintf(word, sizeof(word), "%d", format::index_of(device));
    } else if (device >= 0) {
        std::snprintf(word, sizeof(word), "%s%d", format::kDeviceKindWords[device / format::kDevicesPerKind],
                      format::index_of(device));
    } else {
        std::strcpy(word, device == format::kDeviceCpu ? "cpu" : "none");
    }
}

NameText text_of(const LookName& name) noexcept {
    char device[16];
    device_word(name.device, device);
    NameText made;
    std::snprintf(made.text, sizeof(made.text), "%s_%u_%s_%" PRIu64 "-%s_%u_%s.bin", device, name.thread_id,
                  name.operator_name, name.call, name.watched_name, name.output, name.is_before ? "before" : "after");
    return made;
}

// A path's parts are joined by points. Of a name that no file can have, the beginning gives way to its hash.
void make_file_name(NameText& name) noexcept {
    for (char* letter = name.text; *letter != '\0'; ++letter) {
        if (*letter == '/') {
            *letter = '.';
        }
    }
    const std::size_t bytes = std::strlen(name.text);
    if (bytes > kLongestName) {
        char start[20];
        std::snprintf(start, sizeof(start), "%016" PRIx64 "~", hash_bytes(name.text, bytes, 0));
        const std::size_t kept = kLongestName - 17;
        std::memmove(name.text + 17, name.text + bytes - kept, kept + 1);
        std::memcpy(name.text, start, 17);
    }
}

// Growing a file past this raises SIGXFSZ, which ends a program that does not expect it.
bool is_within_size_limit(std::uint64_t bytes) noexcept {
    rlimit limit{};
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

bool write_all(int file, const void* bytes, std::size_t count) noexcept {
    struct stat status{};
    if (fstat(file, &status) == 0 && !is_within_size_limit(static_cast<std::uint64_t>(status.st_size) + count)) {
        errno = EFBIG;
        return false;
    }
    const auto* cursor = static_cast<const char*>(bytes);
    errno = 0;
    while (count > 0) {
        const ssize_t written = write(file, cursor, count);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return false;
        }
        cursor += written;
        count -= static_cast<std::size_t>(written);
    }
    return true;
}

struct FileTarget {
    int file;
    int error;
};

void write_piece(void* context, const void* bytes, std::size_t count) noexcept {
    auto& target = *static_cast<FileTarget*>(context);
    if (target.error == 0 && !write_all(target.file, bytes, count)) {
        target.error = errno != 0 ? errno : EIO;
    }
}

}  // namespace

void DumpFiles::end(const char* what, int error) noexcept {
    ended_ = true;
    char line[400];
    std::snprintf(line, sizeof(line),
                  "watch: %s%s%s; no more is written of watched memory, changes are still looked for", what,
                  error == 0 ? "" : ": ", error == 0 ? "" : std::strerror(error));
    recorder::warn(line);
    // Facts have no line feeds, and names of files may be long: the error says enough.
    std::snprintf(line, sizeof(line), "process=%d,bytes=%" PRIu64 ",reason=%s", getpid(), written_bytes_,
                  error == 0 ? what : std::strerror(error));
    recorder::note_fact("watch.files_ended", line);
}

bool DumpFiles::open_folder() noexcept {
    if (folder_ >= 0) {
        return true;
    }
    const char* const root = recorder::settings().output;
    mkdir(root, kFolderMode);
    const int parent = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent >= 0) {
        mkdirat(parent, kFolder, kFolderMode);
        folder_ = openat(parent, kFolder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    const int error = errno;
    if (parent >= 0) {
        close(parent);
    }
    if (folder_ < 0) {
        end("the folder watch_dump cannot be used", error);
        return false;
    }
    return true;
}

int DumpFiles::create_file(const char* name, bool replaces) noexcept {
    constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_APPEND;
    const int file = openat(folder_, name, kFlags, kFileMode);
    struct stat status{};
    // An earlier run's, whose thread had this number: as a file of ours it gives way.
    if (file >= 0 || errno != EEXIST || !replaces || fstatat(folder_, name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(status.st_mode) || status.st_uid != geteuid() || unlinkat(folder_, name, 0) != 0) {
        return file;
    }
    return openat(folder_, name, kFlags, kFileMode);
}

bool DumpFiles::has_room(std::uint64_t bytes, std::uint64_t most_bytes) noexcept {
    if (written_bytes_ + bytes <= most_bytes) {
        return true;
    }
    char what[100];
    std::snprintf(what, sizeof(what), "--watch-max-size=%" PRIu64 " bytes would be exceeded", most_bytes);
    end(what, 0);
    return false;
}

bool DumpFiles::disk_has_room(std::uint64_t bytes) noexcept {
    // Rows are small, and the disk is asked now and then.
    unasked_bytes_ += bytes;
    if (has_asked_ && unasked_bytes_ < kUnaskedBytes) {
        return true;
    }
    has_asked_ = true;
    unasked_bytes_ = 0;
    struct statvfs disk{};
    if (fstatvfs(folder_, &disk) != 0 || disk.f_blocks == 0) {
        return true;  // writing will tell
    }
    const std::uint64_t block_bytes = disk.f_frsize;
    const std::uint64_t left = block_bytes * disk.f_bavail;
    const std::uint64_t kept = std::min<std::uint64_t>(block_bytes * disk.f_blocks / kPartLeftFree, kMostLeftFree);
    if (left >= kept && left - kept >= bytes) {
        return true;
    }
    char what[160];
    std::snprintf(what, sizeof(what),
                  "the disk has %" PRIu64 " bytes left, and %" PRIu64 " are kept free for the event log", left, kept);
    end(what, 0);
    return false;
}

void DumpFiles::write_content(const LookName& name, const Fingerprint& fingerprint, const Content& content,
                              Reading reading, std::uint64_t most_bytes) noexcept {
    if (ended_ || !open_folder()) {
        return;
    }
    const std::uint64_t bytes = content.bytes();
    if (!has_room(bytes, most_bytes) || !disk_has_room(bytes)) {
        return;
    }
    NameText file_name = text_of(name);
    make_file_name(file_name);
    const int file = create_file(file_name.text, true);
    if (file < 0) {
        end(file_name.text, errno);
        return;
    }
    FileTarget target{file, is_within_size_limit(bytes) ? 0 : EFBIG};
    bool was_read = true;
    if (fingerprint.content() != nullptr) {
        write_piece(&target, fingerprint.content(), bytes);
    } else {
        was_read = read_content(content, reading, &write_piece, &target);
    }
    // Disks of a network may say only now that they are full.
    if (close(file) != 0 && target.error == 0 && errno != EINTR) {
        target.error = errno;
    }
    if (target.error != 0 || !was_read) {
        unlinkat(folder_, file_name.text, 0);  // half a content would pass for a whole one
    }
    if (target.error != 0) {
        end(file_name.text, target.error);
        return;
    }
    written_bytes_ += bytes;
}

int DumpFiles::table_of(format::Device device) noexcept {
    Table* const table =
        std::find_if(tables_, tables_ + table_count_, [device](const Table& one) { return one.device == device; });
    if (table != tables_ + table_count_) {
        return table->file;
    }
    if (table_count_ == kDevices) {
        end("there are tables of checksums of too many devices", 0);
        return -1;
    }
    char word[16];
    device_word(device, word);
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    // Two processes may begin in the same second: the later one takes the next.
    for (int later = 0; later < kMostTables; ++later) {
        const CivilTime time = civil_time(now.tv_sec + later + recorder::settings().utc_offset_seconds);
        char name[96];
        std::snprintf(name, sizeof(name), "watch_dump_data_check_sum_%s_%04d%02d%02d%02d%02d%02d.csv", word, time.year,
                      time.month, time.day, time.hour, time.minute, time.second);
        const int file = create_file(name, false);
        if (file < 0 && errno == EEXIST) {
            continue;
        }
        if (file < 0 || !write_all(file, kTableHeader, std::strlen(kTableHeader))) {
            const int error = errno != 0 ? errno : EIO;
            if (file >= 0) {
                close(file);
                unlinkat(folder_, name, 0);
            }
            end(name, error);
            return -1;
        }
        written_bytes_ += std::strlen(kTableHeader);
        tables_[table_count_++] = {device, file};
        return file;
    }
    end("there are too many tables of checksums", 0);
    return -1;
}

void DumpFiles::write_checksum(const LookName& name, std::uint64_t checksum, std::uint64_t most_bytes) noexcept {
    if (ended_ || !open_folder()) {
        return;
    }
    const int table = table_of(name.device);
    if (table < 0) {
        return;
    }
    const NameText text = text_of(name);
    char row[sizeof(text.text) * 2 + 32];
    char* cursor = row;
    const bool quoted = std::strpbrk(text.text, ",\"") != nullptr;
    if (quoted) {
        *cursor++ = '"';
    }
    for (const char* letter = text.text; *letter != '\0'; ++letter) {
        if (*letter == '"') {
            *cursor++ = '"';
        }
        *cursor++ = *letter;
    }
    if (quoted) {
        *cursor++ = '"';
    }
    cursor += std::snprintf(cursor, 32, ",%016" PRIx64 "\n", checksum);
    const auto bytes = static_cast<std::size_t>(cursor - row);
    if (!has_room(bytes, most_bytes) || !disk_has_room(bytes)) {
        return;
    }
    struct stat before{};
    const bool size_is_known = fstat(table, &before) == 0;
    if (!write_all(table, row, bytes)) {
        const int error = errno != 0 ? errno : EIO;
        // A row that was written in part is taken back; where even that fails, the table ends with it.
        if (!size_is_known || ftruncate(table, before.st_size) != 0) {
            end("the table of checksums, whose last row is incomplete", error);
        } else {
            end("the table of checksums", error);
        }
        return;
    }
    written_bytes_ += bytes;
}

void DumpFiles::forget() noexcept {
    if (folder_ >= 0) {
        close(folder_);
    }
    for (std::size_t place = 0; place < table_count_; ++place) {
        close(tables_[place].file);
    }
    *this = DumpFiles();
}

}  // namespace msmemscope::watch

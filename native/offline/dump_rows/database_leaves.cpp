#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>

#include "offline/dump_rows/database_pages.h"
#include "offline/dump_rows/database_rows.h"

namespace msmemscope {
namespace {

constexpr char kMagic[] = "SQLite format 3";
constexpr std::uint32_t kSmallestPage = 512;
constexpr std::uint32_t kLargestPage = 65536;
constexpr std::uint32_t kSmallestUsable = 480;
constexpr int kDeepestTree = 20;  // SQLite's own limit

class LeafFinder {
public:
    LeafFinder(int descriptor, DatabaseLeaves& leaves) : descriptor_(descriptor), leaves_(leaves) {}

    bool find(std::uint32_t root_page) {
        return read_header() && visit(root_page, std::numeric_limits<std::int64_t>::max(), 0);
    }

private:
    bool read_header() {
        Byte header[kFileHeaderBytes];
        struct stat status = {};
        if (!read_at(descriptor_, header, sizeof header, 0) || fstat(descriptor_, &status) != 0 ||
            std::memcmp(header, kMagic, sizeof kMagic) != 0) {
            return false;
        }
        const std::uint32_t written = big_endian(header + 16, 2);
        const std::uint32_t bytes = written == 1 ? kLargestPage : written;
        const std::uint32_t reserved = header[20];
        constexpr std::uint32_t kUtf8 = 1;
        constexpr Byte kWithoutLog = 1;
        if (bytes < kSmallestPage || (bytes & (bytes - 1)) != 0 || bytes - reserved < kSmallestUsable ||
            header[19] != kWithoutLog || big_endian(header + 56, 4) != kUtf8) {
            return false;
        }
        leaves_.page_bytes = bytes;
        leaves_.usable_bytes = bytes - reserved;
        pages_of_file_ = static_cast<std::uint64_t>(status.st_size) / bytes;
        return true;
    }

    // Pages of a damaged file can lead to each other: no file has more visits than pages.
    bool visit(std::uint32_t number, std::int64_t last_row, int depth) {
        if (number == 0 || number > pages_of_file_ || ++visits_ > pages_of_file_ || depth > kDeepestTree) {
            return false;
        }
        if (depth > 0 && depth == depth_of_leaves_) {
            // All leaves of a tree are equally deep; what this page is, who reads it sees.
            add(number, last_row);
            return true;
        }
        std::vector<Byte> content(leaves_.page_bytes);
        if (!read_at(descriptor_, content.data(), content.size(), std::uint64_t{number - 1} * leaves_.page_bytes)) {
            return false;
        }
        const Page page = page_at(content.data(), number, leaves_.usable_bytes);
        if (page.type() == kTableLeaf) {
            depth_of_leaves_ = depth;
            add(number, last_row);
            return true;
        }
        if (page.type() != kTableInterior || !page.cells_fit()) {
            return false;
        }
        for (std::uint32_t place = 0; place < page.cell_count(); ++place) {
            Bytes cell{};
            std::uint64_t key = 0;
            if (!page.cell(place, cell) || cell.left() < 4) {
                return false;
            }
            const std::uint32_t child = big_endian(cell.at, 4);
            if (!cell.skip(4) || !cell.varint(key) || !visit(child, static_cast<std::int64_t>(key), depth + 1)) {
                return false;
            }
        }
        return visit(page.right_child(), last_row, depth + 1);
    }

    void add(std::uint32_t number, std::int64_t last_row) {
        leaves_.pages.push_back(number);
        leaves_.last_rows.push_back(last_row);
    }

    int descriptor_;
    DatabaseLeaves& leaves_;
    std::uint64_t pages_of_file_ = 0;
    std::uint64_t visits_ = 0;
    int depth_of_leaves_ = -1;
};

}  // namespace

bool read_at(int descriptor, void* target, std::size_t bytes, std::uint64_t offset) {
    auto* at = static_cast<char*>(target);
    while (bytes != 0) {
        const ssize_t count = pread(descriptor, at, bytes, static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return false;
        }
        at += count;
        offset += static_cast<std::uint64_t>(count);
        bytes -= static_cast<std::size_t>(count);
    }
    return true;
}

bool find_database_leaves(int descriptor, std::uint32_t root_page, DatabaseLeaves& leaves) {
    return LeafFinder(descriptor, leaves).find(root_page);
}

}  // namespace msmemscope

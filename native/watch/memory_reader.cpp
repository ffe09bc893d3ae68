#include "watch/memory_reader.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/format/record.h"
#include "core/writer/device_support.h"
#include "watch/content_hash.h"

namespace msmemscope::watch {
namespace {

constexpr std::size_t kPieceBytes = 256 * kSegmentBytes;  // stays in the cache between copying and hashing

bool copy_through_file(void* target, std::uint64_t source, std::size_t bytes) noexcept {
    const int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (memory < 0) {
        return false;
    }
    const ssize_t got = pread(memory, target, bytes, static_cast<off_t>(source));
    close(memory);
    return got == static_cast<ssize_t>(bytes);
}

bool copy(void* target, std::uint64_t source, std::size_t bytes, const Reading& reading) noexcept {
    switch (reading.way) {
        case Reading::kDirect:
            std::memcpy(target, reinterpret_cast<const void*>(source), bytes);
            return true;
        case Reading::kAsked:
            return copy_if_readable(target, source, bytes);
        case Reading::kDevice:
            return reading.support->copy_to_host(target, source, bytes);
    }
    return false;
}

// Collects runs into pieces.
class PieceMaker {
public:
    PieceMaker(Reading reading, TakePiece take, void* context) noexcept
        : reading_(reading), take_(take), context_(context) {
        static auto* const buffer = static_cast<unsigned char*>(take_pages(kPieceBytes));  // under the watch's lock
        buffer_ = buffer;
    }

    bool add(std::uint64_t address, std::uint64_t bytes) noexcept {
        while (bytes > 0) {
            const std::size_t part = std::min<std::uint64_t>(bytes, kPieceBytes - filled_);
            if (!copy(buffer_ + filled_, address, part, reading_)) {
                return false;
            }
            filled_ += part;
            address += part;
            bytes -= part;
            if (filled_ == kPieceBytes) {
                flush();
            }
        }
        return true;
    }

    void flush() noexcept {
        if (filled_ > 0) {
            take_(context_, buffer_, filled_);
            filled_ = 0;
        }
    }

private:
    Reading reading_;
    TakePiece take_;
    void* context_;
    unsigned char* buffer_;
    std::size_t filled_ = 0;
};

}  // namespace

bool copy_if_readable(void* target, std::uint64_t source, std::size_t bytes) noexcept {
    iovec local{target, bytes};
    iovec remote{reinterpret_cast<void*>(source), bytes};
    const ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    if (got == static_cast<ssize_t>(bytes)) {
        return true;
    }
    // Containers may forbid the call.
    return got < 0 && (errno == EPERM || errno == ENOSYS) && copy_through_file(target, source, bytes);
}

std::uint64_t Content::bytes() const noexcept {
    std::uint64_t total = run_bytes;
    for (const Dimension& dimension : outer) {
        total *= dimension.count;
    }
    return total;
}

std::uint64_t Content::begin() const noexcept {
    std::uint64_t lowest = address;
    for (const Dimension& dimension : outer) {
        if (dimension.stride_bytes < 0 && dimension.count > 0) {
            lowest += static_cast<std::uint64_t>(dimension.stride_bytes) * (dimension.count - 1);
        }
    }
    return lowest;
}

std::uint64_t Content::end() const noexcept {
    if (bytes() == 0) {
        return address;
    }
    std::uint64_t highest = address + run_bytes;
    for (const Dimension& dimension : outer) {
        if (dimension.stride_bytes > 0) {
            highest += static_cast<std::uint64_t>(dimension.stride_bytes) * (dimension.count - 1);
        }
    }
    return highest;
}

Range Content::range() const noexcept {
    Range range{begin(), end()};
    std::uint64_t count = 1;
    std::int64_t stride = 0;
    for (std::size_t place = outer.size(); place-- > 0;) {
        if (place + 1 == outer.size()) {
            stride = outer[place].stride_bytes;
        } else if (outer[place].stride_bytes != stride * static_cast<std::int64_t>(count)) {
            return range;
        }
        count *= outer[place].count;
    }
    if (stride > static_cast<std::int64_t>(run_bytes)) {
        range.run_bytes = run_bytes;
        range.stride_bytes = static_cast<std::uint64_t>(stride);
    }
    return range;
}

bool overlap(const Range& one, const Range& other) noexcept {
    if (one.begin >= other.end || other.begin >= one.end) {
        return false;
    }
    if (one.stride_bytes == other.stride_bytes) {
        if (one.stride_bytes == 0) {
            return true;
        }
        const std::uint64_t apart =
            (other.begin % one.stride_bytes + one.stride_bytes - one.begin % one.stride_bytes) % one.stride_bytes;
        return apart < one.run_bytes || apart + other.run_bytes > one.stride_bytes;
    }
    if (one.stride_bytes != 0 && other.stride_bytes != 0) {
        return true;
    }
    const Range& runs = one.stride_bytes != 0 ? one : other;
    const Range& whole = one.stride_bytes != 0 ? other : one;
    // The last run that begins in front of the end of the whole.
    const std::uint64_t reach = std::min(whole.end, runs.end) - 1 - runs.begin;
    const std::uint64_t last = runs.begin + reach / runs.stride_bytes * runs.stride_bytes;
    return last + runs.run_bytes > whole.begin;
}

Reading reading_of(format::Device device, bool block_is_known) noexcept {
    const DeviceSupport* const support = kDeviceSupports.of(device);
    if (support != nullptr && support->copy_to_host != nullptr) {
        return {Reading::kDevice, support};
    }
    return {block_is_known ? Reading::kDirect : Reading::kAsked, nullptr};
}

void synchronize_devices() noexcept {
    for (std::size_t number = 0; number < kDeviceSupports.count; ++number) {
        if (const auto synchronise = kDeviceSupports.supports[number]->synchronise; synchronise != nullptr) {
            synchronise();
        }
    }
}

bool devices_can_be_read() noexcept {
    for (std::size_t number = 0; number < kDeviceSupports.count; ++number) {
        const auto can_be_read = kDeviceSupports.supports[number]->can_be_read;
        if (can_be_read != nullptr && !can_be_read()) {
            return false;
        }
    }
    return true;
}

bool read_content(const Content& content, Reading reading, TakePiece take, void* context) noexcept {
    if (content.bytes() == 0) {
        return true;
    }
    if (content.outer.empty() && reading.way == Reading::kDirect) {
        take(context, reinterpret_cast<const void*>(content.address), content.run_bytes);
        return true;
    }
    PieceMaker pieces(reading, take, context);
    Vector<std::uint64_t> indices(content.outer.size(), 0);
    std::uint64_t address = content.address;
    for (;;) {
        if (!pieces.add(address, content.run_bytes)) {
            return false;
        }
        std::size_t level = content.outer.size();
        while (level > 0) {
            const Dimension& dimension = content.outer[level - 1];
            address += static_cast<std::uint64_t>(dimension.stride_bytes);
            if (++indices[level - 1] < dimension.count) {
                break;
            }
            address -= static_cast<std::uint64_t>(dimension.stride_bytes) * dimension.count;
            indices[--level] = 0;
        }
        if (level == 0) {
            pieces.flush();
            return true;
        }
    }
}

}  // namespace msmemscope::watch

#include "segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace virtual_npu {
namespace {

constexpr uint64_t kMagic = 0x766e70755f73656d;
constexpr uint64_t kPage = 4096;

// A rank that sends ahead of its receiver fills a ring and only then waits. Few ranks get large rings.
constexpr uint64_t kLargeRing = uint64_t{64} << 20;
constexpr uint64_t kSmallRing = uint64_t{4} << 20;
constexpr uint32_t kMostRanksWithLargeRings = 64;

constexpr uint64_t round_up(uint64_t bytes) { return (bytes + kPage - 1) & ~(kPage - 1); }

constexpr uint64_t kHeaderBytes = round_up(sizeof(Header));
constexpr uint64_t kBlockBytes = 512;
static_assert(sizeof(RankBlock) <= kBlockBytes);
static_assert(sizeof(RingPositions) <= kPage);
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<RankState>::is_always_lock_free);

uint64_t blocks_bytes(uint64_t ranks) { return round_up(ranks * kBlockBytes); }
uint64_t slots_begin(uint64_t ranks) { return kHeaderBytes + blocks_bytes(ranks); }
uint64_t rings_begin(uint64_t ranks) { return slots_begin(ranks) + ranks * 2 * kSlotBytes; }
uint64_t total_bytes(uint64_t ranks, uint64_t ring_bytes) {
    return rings_begin(ranks) + ranks * ranks * (kPage + ring_bytes);
}

std::byte* map(int descriptor, uint64_t bytes) {
    void* place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
    return place == MAP_FAILED ? nullptr : static_cast<std::byte*>(place);
}

// Equal for two threads of one process only; process numbers alone repeat between containers.
struct ProcessIdentity {
    uint64_t words[2];
};
ProcessIdentity process_identity() {
    static const uint64_t random = [] {
        uint64_t number = 0;
        if (getrandom(&number, sizeof number, 0) != sizeof number) number = 0;
        return number;
    }();
    return {{random, static_cast<uint64_t>(getpid())}};
}

// The kernel drops all record locks of a process on a file when the process closes any descriptor of that file. So the
// descriptors of ranks that live in one process stay open until the last of these ranks has left.
class OpenFiles {
public:
    void add(const uint8_t (&secret)[16]) {
        const std::lock_guard<std::mutex> lock(guard_);
        ++files_[key(secret)].ranks;
    }
    void remove(const uint8_t (&secret)[16], int descriptor) {
        const std::lock_guard<std::mutex> lock(guard_);
        const auto place = files_.find(key(secret));
        place->second.descriptors.push_back(descriptor);
        if (--place->second.ranks > 0) return;
        for (const int each : place->second.descriptors) close(each);
        files_.erase(place);
    }

private:
    struct File {
        int ranks = 0;
        std::vector<int> descriptors;  // of ranks that have left
    };
    static std::string key(const uint8_t (&secret)[16]) {
        return std::string(reinterpret_cast<const char*>(secret), sizeof secret);
    }
    std::mutex guard_;
    std::map<std::string, File> files_;
};
OpenFiles& open_files() {
    static auto* files = new OpenFiles();  // never destroyed: communicators may end in exit handlers
    return *files;
}

struct flock lock_of(uint32_t rank, short kind) {
    struct flock lock{};
    lock.l_type = kind;
    lock.l_whence = SEEK_SET;
    lock.l_start = rank;
    lock.l_len = 1;
    return lock;
}

}  // namespace

std::unique_ptr<Segment> Segment::create(uint32_t rank_count, const char* name) {
    const uint64_t ring_bytes = rank_count <= kMostRanksWithLargeRings ? kLargeRing : kSmallRing;
    const uint64_t bytes = total_bytes(rank_count, ring_bytes);
    const int descriptor = memfd_create("virtual_npu_communicator", MFD_CLOEXEC);
    if (descriptor < 0) return nullptr;
    std::byte* base = nullptr;
    if (fchmod(descriptor, S_IRUSR | S_IWUSR) == 0 && ftruncate(descriptor, static_cast<off_t>(bytes)) == 0) {
        base = map(descriptor, bytes);
    }
    if (base == nullptr) {
        close(descriptor);
        return nullptr;
    }
    std::unique_ptr<Segment> segment(new Segment(descriptor, base, bytes));
    Header& header = segment->header();  // a new file is all zeros, and zeros are what everything else begins with
    header.magic = kMagic;
    header.rank_count = rank_count;
    header.ring_bytes = ring_bytes;
    if (getrandom(header.secret, sizeof header.secret, 0) != sizeof header.secret) return nullptr;
    std::strncpy(header.name, name, sizeof header.name - 1);
    return segment;
}

std::unique_ptr<Segment> Segment::open(int descriptor) {
    struct stat status{};
    std::byte* base = nullptr;
    uint64_t bytes = 0;
    if (fstat(descriptor, &status) == 0 && status.st_size >= static_cast<off_t>(kHeaderBytes)) {
        bytes = static_cast<uint64_t>(status.st_size);
        base = map(descriptor, bytes);
    }
    if (base == nullptr) {
        close(descriptor);
        return nullptr;
    }
    std::unique_ptr<Segment> segment(new Segment(descriptor, base, bytes));
    const Header& header = segment->header();
    const bool sound = header.magic == kMagic && header.rank_count >= 1 && header.rank_count <= kMostRanks &&
                       header.ring_bytes <= kLargeRing && total_bytes(header.rank_count, header.ring_bytes) == bytes;
    return sound ? std::move(segment) : nullptr;
}

Segment::~Segment() {
    if (attached_) {
        open_files().remove(header().secret, descriptor_);
    } else {
        close(descriptor_);
    }
    munmap(base_, bytes_);
}

RankBlock& Segment::block(uint32_t rank) const {
    return *reinterpret_cast<RankBlock*>(base_ + kHeaderBytes + rank * kBlockBytes);
}

std::byte* Segment::slot(uint32_t rank, uint32_t turn) const {
    return base_ + slots_begin(header().rank_count) + (uint64_t{rank} * 2 + (turn & 1)) * kSlotBytes;
}

RingPositions& Segment::ring_positions(uint32_t source, uint32_t target) const {
    const uint64_t ranks = header().rank_count;
    const uint64_t ring = uint64_t{source} * ranks + target;
    return *reinterpret_cast<RingPositions*>(base_ + rings_begin(ranks) + ring * (kPage + header().ring_bytes));
}

std::byte* Segment::ring(uint32_t source, uint32_t target) const {
    return reinterpret_cast<std::byte*>(&ring_positions(source, target)) + kPage;
}

bool Segment::attach(uint32_t rank) {
    struct flock lock = lock_of(rank, F_WRLCK);
    if (fcntl(descriptor_, F_SETLK, &lock) != 0) return false;
    const ProcessIdentity self = process_identity();
    std::memcpy(block(rank).process, self.words, sizeof self.words);
    RankState expected = RankState::kAbsent;
    if (!block(rank).state.compare_exchange_strong(expected, RankState::kAttached)) return false;
    open_files().add(header().secret);
    attached_ = true;
    return true;
}

void Segment::leave(uint32_t rank) { block(rank).state.store(RankState::kLeft); }

bool Segment::process_alive(uint32_t rank) const {
    const ProcessIdentity self = process_identity();
    if (std::memcmp(block(rank).process, self.words, sizeof self.words) == 0) return true;
    struct flock lock = lock_of(rank, F_WRLCK);
    return fcntl(descriptor_, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace virtual_npu

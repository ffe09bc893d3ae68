#include "watch/written_pages.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <map>
#include <new>
#include <utility>

namespace msmemscope::watch {
namespace {

// --- linux/userfaultfd.h and linux/fs.h, of kernels newer than the headers that we are built with ---------------

constexpr int kUserModeOnly = 1;
constexpr std::uint64_t kApiVersion = 0xAA;
constexpr std::uint64_t kFeatureUnpopulated = std::uint64_t{1} << 13U;
constexpr std::uint64_t kFeatureAsynchronous = std::uint64_t{1} << 15U;
constexpr std::uint64_t kModeWriteProtect = std::uint64_t{1} << 1U;
constexpr std::uint64_t kScanProtectsMatching = std::uint64_t{1} << 0U;
constexpr std::uint64_t kScanRefusesOthers = std::uint64_t{1} << 1U;  // memory that is not registered (any more)
constexpr std::uint64_t kPageIsWritten = std::uint64_t{1} << 1U;

struct UserfaultApi {
    std::uint64_t api;
    std::uint64_t features;
    std::uint64_t ioctls;
};
struct UserfaultRange {
    std::uint64_t start;
    std::uint64_t length;
};
struct UserfaultRegister {
    UserfaultRange range;
    std::uint64_t mode;
    std::uint64_t ioctls;
};
struct PageRegion {
    std::uint64_t start;
    std::uint64_t end;
    std::uint64_t categories;
};
struct PageScan {
    std::uint64_t size;
    std::uint64_t flags;
    std::uint64_t start;
    std::uint64_t end;
    std::uint64_t walk_end;
    std::uint64_t regions;
    std::uint64_t region_count;
    std::uint64_t most_pages;
    std::uint64_t inverted;
    std::uint64_t all_of;
    std::uint64_t any_of;
    std::uint64_t returned;
};

constexpr unsigned long kTellApi = _IOWR(0xAA, 0x3F, UserfaultApi);
constexpr unsigned long kRegister = _IOWR(0xAA, 0x00, UserfaultRegister);
constexpr unsigned long kUnregister = _IOR(0xAA, 0x01, UserfaultRange);
constexpr unsigned long kScan = _IOWR('f', 16, PageScan);

// --- of this process --------------------------------------------------------------------------------------------

constexpr std::size_t kRegionsAtOnce = 128;
constexpr std::size_t kMostRanges = 1024;
// Each can cut a mapping of the program into three, and a process may have 65,530 mappings.
constexpr std::size_t kMostFollowers = 8192;
// A write to a protected page takes about as long as reading eight pages. If more than one page in eight is written
// again and again, reading is cheaper. The program is not to pay for being watched.
constexpr std::uint64_t kBusyShare = 8;
constexpr unsigned kBusyLooks = 4;
constexpr unsigned kLooksToWait = 256;

using Followers = std::multimap<std::uint64_t, WrittenPages*, std::less<std::uint64_t>,
                                PageAllocator<std::pair<const std::uint64_t, WrittenPages*>>>;

// All of it is used under the watch's lock.
struct Kernel {
    bool is_opened = false;  // or was tried to be
    int faults = -1;
    int pages = -1;
    std::uint64_t page_bytes = 0;
    bool is_distrusted = false;
    // By the beginning of what they follow, and how long the longest ever was.
    Followers followers;
    std::uint64_t longest = 0;
    Range asked{};  // ask_from
};

Kernel& kernel() noexcept {
    // Never destroyed: threads outlive exit.
    static auto* const one = new (take_pages(sizeof(Kernel))) Kernel();
    return *one;
}

int open_faults() noexcept {
#if defined(SYS_userfaultfd)
    const int descriptor = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | kUserModeOnly));
    if (descriptor < 0) {
        return -1;
    }
    UserfaultApi api{kApiVersion, kFeatureUnpopulated | kFeatureAsynchronous, 0};
    if (ioctl(descriptor, kTellApi, &api) == 0) {
        return descriptor;
    }
    close(descriptor);
#endif
    return -1;
}

// False where the kernel does not tell.
bool is_there() noexcept {
    Kernel& one = kernel();
    if (!one.is_opened) {
        one.is_opened = true;
        one.page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
        one.faults = open_faults();
        one.pages = one.faults < 0 ? -1 : open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    }
    return one.faults >= 0 && one.pages >= 0 && !one.is_distrusted;
}

Range in_pages(std::uint64_t begin, std::uint64_t end) noexcept {
    const std::uint64_t page = kernel().page_bytes;
    return {begin / page * page, (end + page - 1) / page * page};
}

// Where a follower of what begins at an address stands.
Followers::iterator place_of(const WrittenPages* follower, std::uint64_t begin) noexcept {
    auto place = kernel().followers.lower_bound(begin);
    while (place->second != follower) {
        ++place;
    }
    return place;
}

// The followers of any part of a range begin here. They are in the order in which their memory begins.
Followers::iterator first_that_reaches(const Range& range) noexcept {
    Kernel& one = kernel();
    return one.followers.lower_bound(range.begin > one.longest ? range.begin - one.longest : 0);
}

}  // namespace

// Without its ends that others follow: blocks share their first and last page with their neighbours. Who follows a part
// in the middle is not spared, and begins again.
Range WrittenPages::followed_by_nobody(Range range) noexcept {
    const auto& followers = kernel().followers;
    for (auto other = first_that_reaches(range);
         other != followers.end() && other->first <= range.begin && range.begin < range.end; ++other) {
        range.begin = std::max(range.begin, other->second->end_);
    }
    if (range.begin >= range.end) {
        return {range.end, range.end};
    }
    const auto first = first_that_reaches(range);
    for (auto other = followers.lower_bound(range.end); other != first;) {
        --other;
        if (other->second->end_ >= range.end) {
            range.end = std::min(range.end, other->first);
        }
    }
    return range;
}

WrittenPages::WrittenPages(WrittenPages&& other) noexcept { *this = std::move(other); }

WrittenPages& WrittenPages::operator=(WrittenPages&& other) noexcept {
    if (this != &other) {
        stop();
        begin_ = other.begin_;
        end_ = other.end_;
        busy_looks_ = other.busy_looks_;
        looks_to_wait_ = other.looks_to_wait_;
        written_ = std::move(other.written_);
        other.begin_ = other.end_ = 0;
        if (is_following()) {
            place_of(&other, begin_)->second = this;
        }
    }
    return *this;
}

WrittenPages::~WrittenPages() { stop(); }

void WrittenPages::distrust() noexcept { kernel().is_distrusted = true; }

void WrittenPages::stop() noexcept {
    if (!is_following()) {
        return;
    }
    kernel().followers.erase(place_of(this, begin_));
    const Range alone = followed_by_nobody({begin_, end_});
    if (alone.begin < alone.end && kernel().faults >= 0) {
        // Where it is unmapped already there is nothing to do.
        UserfaultRange range{alone.begin, alone.end - alone.begin};
        ioctl(kernel().faults, kUnregister, &range);
    }
    begin_ = end_ = 0;
    written_.clear();
}

void WrittenPages::become_child() noexcept {
    Kernel& one = kernel();
    // The parent's descriptors are left open: they may have been closed, and their numbers given to files of the
    // program.
    one.is_opened = false;
    one.faults = one.pages = -1;
    one.asked = Range{};
}

void WrittenPages::ask_from(std::uint64_t begin) noexcept {
    if (!is_there()) {
        return;
    }
    Range range = in_pages(begin, begin);
    if (kernel().asked.begin <= range.begin && range.begin < kernel().asked.end) {
        return;
    }
    const auto& followers = kernel().followers;
    for (auto next = followers.lower_bound(range.begin);
         next != followers.end() && next->first <= range.end && range.end - range.begin < kMostAsked; ++next) {
        range.end = std::max(range.end, next->second->end_);
    }
    kernel().asked = protect(range) ? range : Range{};
}

void WrittenPages::forget_answer() noexcept { kernel().asked = Range{}; }

bool WrittenPages::is_answered() const noexcept { return begin_ >= kernel().asked.begin && end_ <= kernel().asked.end; }

bool WrittenPages::follow(std::uint64_t begin, std::uint64_t end) noexcept {
    if (looks_to_wait_ > 0) {
        --looks_to_wait_;
        return false;
    }
    if (end - begin < kLeastBytes || !is_there() || kernel().followers.size() >= kMostFollowers) {
        return false;
    }
    stop();
    const Range pages = in_pages(begin, end);
    UserfaultRegister registration{{pages.begin, pages.end - pages.begin}, kModeWriteProtect, 0};
    if (ioctl(kernel().faults, kRegister, &registration) != 0) {
        return false;  // another userfaultfd has it, or it is of a kind that cannot be protected
    }
    begin_ = pages.begin;
    end_ = pages.end;
    kernel().followers.emplace(begin_, this);
    kernel().longest = std::max(kernel().longest, end_ - begin_);
    if (!protect(pages)) {
        stop();
        return false;
    }
    written_.clear();
    return true;
}

bool WrittenPages::take(Vector<Range>& written) noexcept {
    if (!is_following() || !is_there()) {
        return false;
    }
    if (!is_answered() && !protect(Range{begin_, end_})) {
        stop();
        return false;
    }
    // Pages that were told to others before, because they follow them too, are not in order.
    std::sort(written_.begin(), written_.end(),
              [](const Range& one, const Range& other) { return one.begin < other.begin; });
    written.swap(written_);
    written_.clear();
    std::uint64_t bytes = 0;
    for (const Range& range : written) {
        bytes += range.end - range.begin;
    }
    busy_looks_ = bytes > (end_ - begin_) / kBusyShare ? busy_looks_ + 1 : 0;
    if (busy_looks_ >= kBusyLooks) {
        busy_looks_ = 0;
        looks_to_wait_ = kLooksToWait;
        stop();
    }
    return true;
}

void WrittenPages::note(const Range& range) noexcept {
    const Range own{std::max(range.begin, begin_), std::min(range.end, end_)};
    if (own.begin >= own.end) {
        return;
    }
    if (!written_.empty() && written_.back().begin <= own.begin && own.begin <= written_.back().end) {
        written_.back().end = std::max(written_.back().end, own.end);
    } else if (written_.size() < kMostRanges) {
        written_.push_back(own);
    } else {
        written_.assign(1, Range{begin_, end_});  // who asks seldom is told again and again by those who ask often
    }
}

// Tells everybody who follows a part of what was written.
void WrittenPages::tell(const Range& range) noexcept {
    const auto& followers = kernel().followers;
    for (auto one = first_that_reaches(range); one != followers.end() && one->first < range.end; ++one) {
        one->second->note(range);
    }
}

// Protects all pages of a range, and tells everybody who follows them which were written before.
bool WrittenPages::protect(const Range& range) noexcept {
    PageRegion regions[kRegionsAtOnce];
    std::uint64_t from = range.begin;
    while (from < range.end) {
        PageScan scan{};
        scan.size = sizeof(scan);
        scan.flags = kScanProtectsMatching | kScanRefusesOthers;
        scan.start = from;
        scan.end = range.end;
        scan.regions = reinterpret_cast<std::uint64_t>(regions);
        scan.region_count = kRegionsAtOnce;
        scan.all_of = kPageIsWritten;
        scan.returned = kPageIsWritten;
        const int count = ioctl(kernel().pages, kScan, &scan);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0 || scan.walk_end <= from) {
            return false;
        }
        for (int index = 0; index < count; ++index) {
            tell(Range{regions[index].start, regions[index].end});
        }
        from = scan.walk_end;
    }
    return true;
}

}  // namespace msmemscope::watch

#include "rendezvous.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

namespace virtual_npu {
namespace {

constexpr uint64_t kHelloMagic = 0x766e70755f6d6565;
constexpr uint32_t kVersion = 1;  // of the layout of the shared memory too
constexpr std::chrono::milliseconds kRetryAfter{5};

struct Hello {
    uint64_t magic;
    uint32_t version;
    uint32_t rank;
    uint32_t rank_count;
};

struct Reply {
    uint32_t accepted;  // with the descriptor of the shared memory beside it
    char reason[252];
};

class Connection {
public:
    Connection() = default;
    explicit Connection(int descriptor) : descriptor_(descriptor) {}
    Connection(Connection&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
    Connection& operator=(Connection&& other) noexcept {
        std::swap(descriptor_, other.descriptor_);
        return *this;
    }
    ~Connection() {
        if (descriptor_ >= 0) close(descriptor_);
    }
    int descriptor() const { return descriptor_; }
    bool connected() const { return descriptor_ >= 0; }

private:
    int descriptor_ = -1;
};

// The address of a place: a name that begins with a zero byte is no file.
socklen_t address_of(const std::string& place, sockaddr_un* address) {
    *address = {};
    address->sun_family = AF_UNIX;
    const size_t length = std::min(place.size(), sizeof address->sun_path - 1);
    std::memcpy(address->sun_path + 1, place.data(), length);
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

bool of_this_user(int descriptor) {
    ucred peer{};
    socklen_t size = sizeof peer;
    return getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

int milliseconds_until(Clock::time_point deadline) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30));
}

// Waits for something to read. False when the time is over.
bool readable(int descriptor, Clock::time_point deadline) {
    while (true) {
        pollfd waited{descriptor, POLLIN, 0};
        const int count = poll(&waited, 1, milliseconds_until(deadline));
        if (count > 0) return true;
        if (count == 0 || errno != EINTR) return false;
    }
}

// One message of a socket that keeps messages apart, and the descriptor that came with it.
template <typename Message>
bool receive(int socket, Message* message, int* descriptor) {
    iovec part{message, sizeof *message};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    if (recvmsg(socket, &header, MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(sizeof *message)) return false;
    const cmsghdr* extra = CMSG_FIRSTHDR(&header);
    if (descriptor != nullptr && extra != nullptr && extra->cmsg_type == SCM_RIGHTS) {
        std::memcpy(descriptor, CMSG_DATA(extra), sizeof *descriptor);
    }
    return true;
}

template <typename Message>
bool send(int socket, const Message& message, int descriptor) {
    iovec part{const_cast<Message*>(&message), sizeof message};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (descriptor >= 0) {
        header.msg_control = control;
        header.msg_controllen = sizeof control;
        cmsghdr* extra = CMSG_FIRSTHDR(&header);
        extra->cmsg_level = SOL_SOCKET;
        extra->cmsg_type = SCM_RIGHTS;
        extra->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(extra), &descriptor, sizeof descriptor);
    }
    return sendmsg(socket, &header, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof message);
}

std::string missing_ranks(const std::vector<Connection>& arrived, uint32_t host) {
    std::string text;
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < arrived.size(); ++rank) {
        if (rank == host || arrived[rank].connected()) continue;
        if (++count <= 8) text += (text.empty() ? "" : ", ") + std::to_string(rank);
    }
    return text + (count > 8 ? ", ..." : "");
}

// Takes one rank in. Empty, or the reason why there can be no communicator.
std::string take_in(Connection connection, const Participant& self, std::vector<Connection>* arrived) {
    Hello hello{};
    // A rank sends its hello right after it has connected.
    if (!of_this_user(connection.descriptor()) ||
        !readable(connection.descriptor(), std::min(self.deadline, Clock::now() + std::chrono::seconds(10))) ||
        !receive(connection.descriptor(), &hello, nullptr) || hello.magic != kHelloMagic) {
        return "";  // a stranger
    }
    const std::string rank = std::to_string(hello.rank);
    std::string reason;
    if (hello.version != kVersion) {
        reason = "rank " + rank + " uses another version of the emulated collectives";
    } else if (hello.rank_count != self.rank_count) {
        reason = "rank " + rank + " expects " + std::to_string(hello.rank_count) + " ranks, rank " +
                 std::to_string(self.rank) + " expects " + std::to_string(self.rank_count) + " ranks";
    } else if (hello.rank >= self.rank_count || hello.rank == self.rank || (*arrived)[hello.rank].connected()) {
        reason = "two processes are rank " + rank;
    }
    if (reason.empty()) {
        (*arrived)[hello.rank] = std::move(connection);
    } else {
        Reply reply{};
        std::strncpy(reply.reason, reason.c_str(), sizeof reply.reason - 1);
        send(connection.descriptor(), reply, -1);
    }
    return reason;
}

// Waits until all others have come. Empty, or the reason why there can be no communicator.
std::string gather(const MeetingPoint& point, const Participant& self, std::vector<Connection>* arrived) {
    uint32_t missing = self.rank_count - 1;
    while (missing > 0) {
        // A rank that has come says nothing more; if something is to be read there, it is the end of its process.
        std::vector<pollfd> waited{{point.descriptor(), POLLIN, 0}};
        std::vector<uint32_t> ranks;
        for (uint32_t rank = 0; rank < self.rank_count; ++rank) {
            if (!(*arrived)[rank].connected()) continue;
            waited.push_back({(*arrived)[rank].descriptor(), POLLIN, 0});
            ranks.push_back(rank);
        }
        const int count = poll(waited.data(), waited.size(), milliseconds_until(self.deadline));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return "no sign of rank " + missing_ranks(*arrived, self.rank) + " (HCCL_CONNECT_TIMEOUT)";
        for (size_t index = 1; index < waited.size(); ++index) {
            if (waited[index].revents != 0) return "rank " + std::to_string(ranks[index - 1]) + " has ended meanwhile";
        }
        Connection connection(accept4(point.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!connection.connected()) continue;
        const std::string reason = take_in(std::move(connection), self, arrived);
        if (!reason.empty()) return reason;
        missing = self.rank_count - 1;
        for (const Connection& each : *arrived) missing -= each.connected() ? 1 : 0;
    }
    return "";
}

// Connects to the host, at once or when it is there.
Connection connect_to_host(const Participant& self, std::string* reason) {
    sockaddr_un address{};
    const socklen_t size = address_of(self.place, &address);
    while (true) {
        Connection connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
        if (!connection.connected()) {
            *reason = std::string("no socket: ") + std::strerror(errno);
            return {};
        }
        if (connect(connection.descriptor(), reinterpret_cast<const sockaddr*>(&address), size) == 0) {
            if (of_this_user(connection.descriptor())) return connection;
            *reason = "the host of the meeting belongs to another user";
            return {};
        }
        const bool absent = errno == ECONNREFUSED;
        if (!absent && errno != EAGAIN && errno != EINTR) {
            *reason = std::string("cannot connect to the root rank: ") + std::strerror(errno);
            return {};
        }
        if (absent && !self.host_may_come_later) {
            *reason = "the root rank has ended, or its communicator exists already";
            return {};
        }
        if (Clock::now() >= self.deadline) {
            *reason = "no sign of the root rank (HCCL_CONNECT_TIMEOUT)";
            return {};
        }
        std::this_thread::sleep_for(kRetryAfter);
    }
}

}  // namespace

std::unique_ptr<MeetingPoint> MeetingPoint::open(const std::string& place) {
    std::unique_ptr<MeetingPoint> point(new MeetingPoint(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)));
    sockaddr_un address{};
    const socklen_t size = address_of(place, &address);
    if (point->descriptor_ < 0 || bind(point->descriptor_, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
        listen(point->descriptor_, kMostRanks) != 0) {
        return nullptr;
    }
    return point;
}

MeetingPoint::~MeetingPoint() {
    if (descriptor_ >= 0) close(descriptor_);
}

std::string random_place() {
    uint8_t bytes[16] = {};
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return "";
    std::string text = "virtual_npu_";
    for (const uint8_t byte : bytes) {
        text += "0123456789abcdef"[byte >> 4];
        text += "0123456789abcdef"[byte & 0xf];
    }
    return text;
}

std::unique_ptr<Segment> host_meeting(const MeetingPoint& point, const Participant& self, const char* name,
                                      std::string* reason) {
    std::vector<Connection> arrived(self.rank_count);
    *reason = gather(point, self, &arrived);
    std::unique_ptr<Segment> segment;
    if (reason->empty()) {
        segment = Segment::create(self.rank_count, name);
        if (segment == nullptr) *reason = std::string("no shared memory: ") + std::strerror(errno);
    }
    Reply reply{segment != nullptr ? 1u : 0u, {}};
    std::strncpy(reply.reason, reason->c_str(), sizeof reply.reason - 1);
    for (const Connection& connection : arrived) {
        // A rank that ended between its hello and here is noticed at the first step together.
        if (connection.connected())
            send(connection.descriptor(), reply, segment != nullptr ? segment->descriptor() : -1);
    }
    return segment;
}

std::unique_ptr<Segment> join_meeting(const Participant& self, std::string* reason) {
    const Connection connection = connect_to_host(self, reason);
    if (!connection.connected()) return nullptr;
    const Hello hello{kHelloMagic, kVersion, self.rank, self.rank_count};
    Reply reply{};
    int descriptor = -1;
    // The host's own time may end a little later; its reason is the better one.
    if (!send(connection.descriptor(), hello, -1) ||
        !readable(connection.descriptor(), self.deadline + std::chrono::seconds(5))) {
        *reason = "the root rank does not answer (HCCL_CONNECT_TIMEOUT)";
        return nullptr;
    }
    if (!receive(connection.descriptor(), &reply, &descriptor)) {
        *reason = "the root rank has ended meanwhile";
        return nullptr;
    }
    if (reply.accepted == 0) {
        reply.reason[sizeof reply.reason - 1] = '\0';
        *reason = reply.reason;
        return nullptr;
    }
    std::unique_ptr<Segment> segment = descriptor >= 0 ? Segment::open(descriptor) : nullptr;
    if (segment == nullptr) *reason = "the shared memory of the root rank cannot be used";
    return segment;
}

}  // namespace virtual_npu

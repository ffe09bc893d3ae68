// How the ranks of a new communicator find each other: at a socket without a file, named by 128 random bits. One rank
// is the host; it waits for all others, makes the shared memory and sends each the descriptor. Processes of other
// users are turned away.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "segment.h"

namespace virtual_npu {

using Clock = std::chrono::steady_clock;

// A socket at which ranks arrive. Closed when it is destroyed.
class MeetingPoint {
public:
    static std::unique_ptr<MeetingPoint> open(const std::string& place);
    ~MeetingPoint();
    MeetingPoint(const MeetingPoint&) = delete;
    MeetingPoint& operator=(const MeetingPoint&) = delete;
    int descriptor() const { return descriptor_; }

private:
    explicit MeetingPoint(int descriptor) : descriptor_(descriptor) {}
    int descriptor_;
};

struct Participant {
    std::string place;
    uint32_t rank;
    uint32_t rank_count;
    Clock::time_point deadline;
    bool host_may_come_later;  // else a place without a host means that the host has ended
};

std::string random_place();

// Null with a reason, for all ranks alike, if one does not come in time, or ends, or has other ideas of the group.
std::unique_ptr<Segment> host_meeting(const MeetingPoint& point, const Participant& self, const char* name,
                                      std::string* reason);
std::unique_ptr<Segment> join_meeting(const Participant& self, std::string* reason);

}  // namespace virtual_npu

// What a stream's handle points at; the null handle is the default stream of the current device, number 0.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>

namespace virtual_npu {

constexpr uint64_t kStreamMark = 0x73747265616d2121;

class Graph;
class StreamWork;
struct TaskUpdate;

// Why what is put on a stream is not done at once, as bits.
enum Detour : uint32_t {
    kWorkWaits = 1,       // something that was put on it before has not happened yet
    kIsCaptured = 2,      // it is recorded into a graph
    kUpdatesTasks = 4,    // it replaces tasks of a graph
    kIsAsynchronous = 8,  // a thread of its own does it
};

struct Stream {
    std::atomic<uint64_t> mark;  // 0 once it is destroyed; the memory is only used for other streams
    int32_t number;
    uint32_t device;                // the driver's number
    std::atomic<uint32_t> tasks;    // launched on it so far
    std::atomic<uint32_t> detours;  // bits of Detour
    // What follows is looked at with the lock of stream_work.cpp held.
    std::deque<std::shared_ptr<StreamWork>> waiting;
    bool is_working;  // some thread does what was waiting
    bool has_worker;
    bool is_known;                    // among all streams
    std::condition_variable arrival;  // something waits
    std::shared_ptr<Graph> graph;     // that it is captured into
    std::shared_ptr<TaskUpdate> update;
};

inline bool is_stream(const void* handle) {
    return handle == nullptr || static_cast<const Stream*>(handle)->mark == kStreamMark;
}

}  // namespace virtual_npu

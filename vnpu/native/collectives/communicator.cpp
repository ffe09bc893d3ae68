#include "communicator.h"

#include <cstdio>
#include <utility>

#include "call_errors.h"
#include "element_types.h"

namespace virtual_npu {
namespace {

const char* error_number(Result code) {
    switch (code) {
        case kHcclInvalidParameter:
            return "EI0005";
        case kHcclNoMemory:
            return "EL0004";
        default:
            return "EI0002";
    }
}

std::string description(const CallSignature& call) {
    std::string text = function_name(call.function);
    if (call.type == kNothing) return text;
    text += call.count > 0 ? " of " + std::to_string(call.count) + " " : std::string(" of ");
    text += type_name(call.type);
    if (call.digest != 0) text += " (counts with the digest " + std::to_string(call.digest) + ")";
    if (call.reduction != kNothing) text += std::string(", ") + reduction_name(call.reduction);
    if (call.root != kNothing) text += ", root " + std::to_string(call.root);
    return text;
}

bool same(const CallSignature& left, const CallSignature& right) {
    return left.function == right.function && left.type == right.type && left.reduction == right.reduction &&
           left.root == right.root && left.count == right.count && left.digest == right.digest;
}

}  // namespace

std::shared_ptr<Communicator> Communicator::create(std::unique_ptr<Segment> segment, uint32_t rank,
                                                   const CommunicatorOptions& options, int* code) {
    constexpr const char* kCall = "initialisation";
    if (!segment->attach(rank)) {
        *code = report(kHcclInternal, "EI0007: communicator %s: rank %u cannot take its place", segment->header().name,
                       rank);
        return nullptr;
    }
    std::shared_ptr<Communicator> made(new Communicator(std::move(segment), rank, options));
    std::string reason;
    made->buffers_ = DeviceBuffers::take(options.buffer_bytes, options.buffer_name, &reason);
    if (made->buffers_ == nullptr) {
        *code = made->give_up(kHcclNoMemory, kCall, reason);
        return nullptr;
    }
    made->begin_step();
    *code = made->finish_step(kCall);
    made->complete_.store(true);
    return *code == kHcclSuccess ? made : nullptr;
}

Communicator::Communicator(std::unique_ptr<Segment> segment, uint32_t rank, const CommunicatorOptions& options)
    : segment_(std::move(segment)),
      rank_(rank),
      size_(segment_->header().rank_count),
      options_(options),
      sends_(size_),
      receives_(size_) {}

Communicator::~Communicator() { segment_->leave(rank_); }

int Communicator::enter(const char* call) const {
    if (const char* device_failure = virtual_npu_device_failure(virtual_npu_current_driver_device())) {
        return report(kHcclRuntime, "EI9999: %s: this device runs nothing any more, because a task failed on it: %s",
                      call, device_failure);
    }
    const int code = failure();
    if (code == kHcclSuccess) return kHcclSuccess;
    const Header& header = segment_->header();
    if (header.failed_rank == rank_) {
        return report(static_cast<Result>(code), "%s: %s cannot be called any more: %s",
                      error_number(static_cast<Result>(code)), call, header.failure_text);
    }
    // What happened to the other rank is not what happened to this one: its lack of memory is not ours.
    return report(kHcclRemote, "EI0002: communicator %s: %s: rank %u gave up: %s", name(), call, header.failed_rank,
                  header.failure_text);
}

std::byte* Communicator::begin_step() {
    ++step_;
    return segment_->slot(rank_, step_);
}

int Communicator::finish_step(const char* call, const CallSignature* signature) {
    RankBlock& own = segment_->block(rank_);
    if (signature != nullptr) own.signatures[step_ & 1] = *signature;
    own.steps.set(step_);
    for (uint32_t peer = 0; peer < size_; ++peer) {
        SharedWord& steps = segment_->block(peer).steps;
        const auto arrived = [&] { return static_cast<int32_t>(steps.get() - step_) >= 0; };
        if (arrived()) continue;
        const int status = wait(&steps, {peer}, call, arrived);
        if (status != kHcclSuccess) return status;
    }
    return signature == nullptr ? static_cast<int>(kHcclSuccess) : compare_signatures(call, *signature);
}

int Communicator::compare_signatures(const char* call, const CallSignature& own) {
    for (uint32_t peer = 0; peer < size_; ++peer) {
        const CallSignature& other = segment_->block(peer).signatures[step_ & 1];
        if (same(own, other)) continue;
        return give_up(kHcclInvalidParameter, call,
                       "the ranks do not make the same call: rank " + std::to_string(rank_) + " calls " +
                           description(own) + "; rank " + std::to_string(peer) + " calls " + description(other));
    }
    return kHcclSuccess;
}

Communicator::Trouble Communicator::look_for_trouble(const std::vector<uint32_t>& awaited,
                                                     Clock::time_point start) const {
    if (aborted_.load()) return {kHcclSuspending, "the communicator is being destroyed by another thread"};
    if (failure() != kHcclSuccess) return {kHcclRemote, ""};  // the text is in the header
    for (const uint32_t rank : awaited) {
        const std::string number = std::to_string(rank);
        const RankState state = segment_->block(rank).state.load();
        if (state == RankState::kLeft) return {kHcclRemote, "rank " + number + " has left the communicator"};
        if (state == RankState::kAttached && !segment_->process_alive(rank)) {
            return {kHcclRemote, "the process of rank " + number + " has ended"};
        }
    }
    const bool complete = complete_.load();
    const std::chrono::seconds limit = complete ? options_.execution_timeout : options_.connect_timeout;
    if (limit.count() == 0 || Clock::now() - start < limit) return {};
    std::string ranks;
    for (const uint32_t rank : awaited) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
    return {kHcclTimeout, "rank " + ranks + " did not come within " + std::to_string(limit.count()) + " s (" +
                              (complete ? "HCCL_EXEC_TIMEOUT" : "HCCL_CONNECT_TIMEOUT") + ")"};
}

int Communicator::give_up(Result code, const char* call, const std::string& reason) {
    Header& header = segment_->header();
    uint32_t unclaimed = 0;
    if (failure() == kHcclSuccess && header.failing.compare_exchange_strong(unclaimed, 1)) {
        header.failed_rank = rank_;
        std::snprintf(header.failure_text, sizeof header.failure_text, "%s", reason.c_str());
        header.failure.store(code, std::memory_order_release);
    } else if (reason.empty()) {
        return enter(call);  // another rank has said why
    }
    return report(code, "%s: communicator %s, rank %u of %u: %s: %s", error_number(code), name(), rank_, size_, call,
                  reason.c_str());
}

}  // namespace virtual_npu

#include "watch/watch.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "core/writer/hash.h"
#include "core/writer/keep_errno.h"
#include "watch/watch_state.h"

namespace msmemscope::watch {

std::atomic<std::uint32_t> activity{0};

namespace {

State& state() noexcept {
    // Never destroyed: threads outlive exit.
    static auto* const instance = new (take_pages(sizeof(State))) State();
    return *instance;
}

// This thread works here: what it allocates or frees meanwhile is our own doing.
__attribute__((tls_model("initial-exec"))) __thread bool is_inside = false;

// A forked child has its parent's memory, but not its threads and files. The memory that the parent watches is the
// parent's affair.
void become_child(State& held) noexcept {
    WrittenPages::become_child();
    held.files.forget();
    held.running.clear();
    held.watched.clear();
    held.calls.clear();
    held.guard.forget_all();
    held.window_start.become_child();
    held.window_is_open = false;
    held.is_stale = true;
    held.previous = OperatorName{};
}

class Entry {
public:
    Entry() noexcept : state_(state()), entered_(!is_inside) {
        if (!entered_) {
            return;
        }
        is_inside = true;
        const pid_t process = getpid();
        if (state_.process != process) {
            if (state_.process != 0) {
                state_.lock.release();  // held by a thread of the parent, if by anyone
            }
            while (!state_.lock.acquire()) {
            }
            if (state_.process != 0) {
                become_child(state_);
            }
            state_.process = process;
            return;
        }
        // Memory must not be freed while it is read: there is no giving up.
        while (!state_.lock.acquire()) {
        }
    }
    ~Entry() {
        if (entered_) {
            state_.lock.release();
            is_inside = false;
        }
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    explicit operator bool() const noexcept { return entered_; }
    State& operator*() const noexcept { return state_; }

private:
    const KeepErrno keep_errno_;
    State& state_;
    bool entered_;
};

bool is_called(const OperatorName& name, const char* wanted) noexcept { return std::strcmp(name.text, wanted) == 0; }

// Whether automatic watching looks around it: its writes are known, and it is not part of another one.
bool is_guarded(Source source) noexcept { return source == Source::kAten || source == Source::kGraph; }

Running* find_running(State& held, Source source) noexcept {
    const std::uint32_t thread = this_thread_id();
    for (auto running = held.running.rbegin(); running != held.running.rend(); ++running) {
        if (running->thread_id == thread && running->name.source == source) {
            return &*running;
        }
    }
    return nullptr;
}

// False where nothing is to be done now.
bool prepare(State& held) noexcept {
    if (!recorder::is_collecting()) {
        held.is_stale = true;
        return false;
    }
    // What is captured into a graph does not run yet.
    if (concerns_device() && !devices_can_be_read()) {
        return false;
    }
    const Settings& settings = recorder::settings();
    if (settings.watch_auto != held.guard.is_following()) {
        if (settings.watch_auto) {
            held.guard.begin_following();
        } else {
            held.guard.forget_all();
        }
    }
    if (held.is_stale) {
        held.is_stale = false;
        held.guard.forget_contents();
        for (Watched& watched : held.watched) {
            watched.fingerprint.forget();
        }
    }
    return true;
}

void begin(State& held, const Operator& one, const Writes& writes, bool has_name, const CallSite& site) noexcept {
    // Memory is looked at before this operator is said to run. Changes up to now were not its doing.
    if (one.source == Source::kAten) {
        // Besides this operator only a graph can run on this thread. Others that have begun here and not ended were
        // left by a C++ exception.
        const std::uint32_t thread = this_thread_id();
        held.running.erase(std::remove_if(held.running.begin(), held.running.end(),
                                          [thread](const Running& running) {
                                              return running.thread_id == thread &&
                                                     running.name.source != Source::kGraph;
                                          }),
                           held.running.end());
    }
    Running running{};
    running.thread_id = this_thread_id();
    running.name.set(one);
    if (has_name && one.call == 0) {
        const std::uint64_t key =
            hash_bytes(running.name.text, std::strlen(running.name.text), static_cast<std::uint64_t>(one.source));
        running.name.call = ++held.calls[key];
    }
    running.moment = ++held.moment;
    running.writes_are_known = writes.are_known;
    running.writes.assign(writes.ranges, writes.ranges + writes.count);
    held.running.push_back(running);
    Finding finding{};
    finding.running = has_name ? &held.running.back() : nullptr;
    finding.previous = &held.previous;
    finding.concurrent = held.running.size() - 1;
    look_at_all(held, finding, site);
    settle_list(held, site);
    if (has_name) {
        dump_all(held, running.name, true);
        held.window_start.note(running.name);
    }
    if (held.guard.is_following() && is_guarded(one.source)) {
        held.guard.operator_begins(held.running.back(), held.running, held.previous, held.moment, site);
    }
}

void end(State& held, Running& running, const Writes& writes, const Output* outputs, std::size_t output_count,
         const CallSite& site) noexcept {
    ++held.moment;
    running.writes.insert(running.writes.end(), writes.ranges, writes.ranges + writes.count);
    Finding finding{};
    finding.is_during = true;
    finding.running = &running;
    finding.concurrent = held.running.size() - 1;
    look_at_all(held, finding, site);
    dump_all(held, running.name, false);
    if (running.name.source == Source::kKernel) {
        held.window_start.note(running.name);  // it had no name before
    }
    const Settings& settings = recorder::settings();
    const bool has_start = settings.watch_start[0] != '\0';
    if (has_start && !held.window_is_open && is_called(running.name, settings.watch_start)) {
        open_window(held, running, outputs, output_count, site);
        update_activity(held);
    } else if (settings.watch_end[0] != '\0' && is_called(running.name, settings.watch_end)) {
        if (held.window_is_open) {
            close_window(held);
            update_activity(held);
        }
        // Without a first operator the window began with the program, and ends once.
        held.writes_files = has_start;
    }
    if (held.guard.is_following() && is_guarded(running.name.source)) {
        held.guard.operator_ends(running, held.running, writes.come_later, held.moment, site);
    }
    held.previous = running.name;
    held.running.erase(held.running.begin() + (&running - held.running.data()));
    settle_list(held, site);
}

}  // namespace

void OperatorName::set(const Operator& one) noexcept {
    const std::size_t bytes = std::min(one.name_bytes, kLongestName);
    std::memcpy(text, one.name, bytes);
    text[bytes] = '\0';
    call = one.call;
    source = one.source;
}

bool Running::may_write(const Range& memory) const noexcept {
    return std::any_of(writes.begin(), writes.end(), [&](const Range& range) { return overlap(range, memory); });
}

void apply_settings() noexcept {
    const Entry entry;
    if (entry) {
        (*entry).writes_files = true;
        (*entry).window_start.expect(recorder::settings().watch_start);
        update_activity(*entry);
    }
}

std::uint32_t add(Target target, const Content& content, format::Device device, const char* name,
                  std::int64_t dump_count) noexcept {
    const Entry entry;
    if (!entry) {
        return 0;
    }
    State& held = *entry;
    // Do this first. Then the content that is seen below stays valid, and is not forgotten when the first operator
    // begins.
    const bool collects = prepare(held);
    for (Watched& watched : held.watched) {
        if (watched.ended_because == nullptr && watched.target != Target::kWindow &&
            watched.content.address == content.address) {
            if (watched.is_announced) {
                write_stop(watched, "replaced");
            }
            held.watched.erase(held.watched.begin() + (&watched - held.watched.data()));
            break;
        }
    }
    Watched* const watched = add_to(held, target, content, device, name, dump_count, 0);
    if (watched != nullptr && collects) {
        announce(held, *watched, MSMEMSCOPE_CALL_SITE());
    }
    update_activity(held);
    return watched == nullptr ? 0 : watched->number;
}

bool remove(std::uint64_t address, std::uint64_t bytes) noexcept {
    const Entry entry;
    if (!entry) {
        return false;
    }
    State& held = *entry;
    for (Watched& watched : held.watched) {
        if (watched.target != Target::kWindow && watched.content.address == address &&
            (bytes == 0 || watched.content.bytes() == bytes)) {
            if (watched.is_announced) {
                write_stop(watched, watched.ended_because != nullptr ? watched.ended_because : "removed");
            }
            held.watched.erase(held.watched.begin() + (&watched - held.watched.data()));
            update_activity(held);
            return true;
        }
    }
    return false;
}

void memory_ends(std::uint32_t number) noexcept {
    const Entry entry;
    if (!entry) {
        return;
    }
    for (Watched& watched : (*entry).watched) {
        if (watched.number == number && watched.ended_because == nullptr) {
            watched.ended_because = "freed";
        }
    }
}

bool is_in_known_block(std::uint64_t address) noexcept {
    LiveBlock block{};
    return recorder::find_block_around(address, block);
}

format::Device device_at(std::uint64_t address) noexcept {
    LiveBlock block{};
    return recorder::find_block_around(address, block) ? block.device : format::kDeviceNone;
}

void operator_begins(const Operator& one, const Writes& writes) noexcept {
    const CallSite site = MSMEMSCOPE_CALL_SITE();
    const Entry entry;
    if (entry && prepare(*entry)) {
        begin(*entry, one, writes, true, site);
    }
}

void operator_ends(const Operator& one, const Writes& writes, const Output* outputs,
                   std::size_t output_count) noexcept {
    const CallSite site = MSMEMSCOPE_CALL_SITE();
    const Entry entry;
    Running* const running = entry ? find_running(*entry, one.source) : nullptr;
    if (running == nullptr) {
        return;
    }
    if (prepare(*entry)) {
        end(*entry, *running, writes, outputs, output_count, site);
    } else {
        (*entry).running.erase((*entry).running.begin() + (running - (*entry).running.data()));
    }
}

bool watches_kernels() noexcept { return is_active() && recorder::settings().collect_kernels; }

void kernel_begins() noexcept {
    const CallSite site = MSMEMSCOPE_CALL_SITE();
    const Entry entry;
    if (entry && prepare(*entry)) {
        if (concerns_device()) {
            synchronize_devices();
        }
        Writes unknown;
        unknown.are_known = false;
        begin(*entry, Operator{Source::kKernel, "", 0, 0, format::kDeviceNone}, unknown, false, site);
    }
}

void kernel_ends(const char* name, std::size_t name_bytes, format::Device device) noexcept {
    const CallSite site = MSMEMSCOPE_CALL_SITE();
    const Entry entry;
    Running* const running = entry ? find_running(*entry, Source::kKernel) : nullptr;
    if (running == nullptr) {
        return;
    }
    State& held = *entry;
    if (name_bytes == 0 || !prepare(held)) {
        held.running.erase(held.running.begin() + (running - held.running.data()));
        return;
    }
    if (concerns_device()) {
        synchronize_devices();
    }
    running->name.set(Operator{Source::kKernel, name, name_bytes, 0, device});
    const auto kind = static_cast<std::uint64_t>(Source::kKernel);
    running->name.call = ++held.calls[hash_bytes(running->name.text, std::strlen(running->name.text), kind)];
    // The content that was seen when it began. The fingerprints still hold it.
    dump_all(held, running->name, true);
    end(held, *running, Writes{}, nullptr, 0, site);
}

bool asks_for_outputs(const char* name, std::size_t name_bytes) noexcept {
    const char* const start = recorder::settings().watch_start;
    return start[0] != '\0' && std::strlen(start) == name_bytes && std::memcmp(start, name, name_bytes) == 0;
}

void finish() noexcept {
    if (!is_active()) {
        return;
    }
    const Entry entry;
    if (!entry) {
        return;
    }
    State& held = *entry;
    for (Watched& watched : held.watched) {
        if (watched.is_announced) {
            write_stop(watched, watched.ended_because != nullptr ? watched.ended_because : "end");
        }
    }
    held.watched.clear();
    held.guard.note_coverage();
    held.window_start.report();
    update_activity(held);
}

void block_begins(const LiveBlock& block) noexcept {
    const Entry entry;
    if (entry && (*entry).guard.is_following()) {
        (*entry).guard.add(block, (*entry).moment);
    }
}

void block_ends(const LiveBlock& block) noexcept {
    const Entry entry;
    if (!entry) {
        return;
    }
    State& held = *entry;
    for (Watched& watched : held.watched) {
        const bool is_same = watched.block.pool == block.pool && watched.block.address == block.address;
        const bool is_below = block.pool == format::Pool::kHal && watched.begin >= block.address &&
                              watched.begin < block.address + block.size_bytes;
        if (watched.ended_because == nullptr && (is_same || is_below)) {
            watched.ended_because = "freed";
        }
    }
    if (held.guard.is_following()) {
        held.guard.remove(block);
    }
}

}  // namespace msmemscope::watch

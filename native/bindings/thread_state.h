// State that a thread keeps as long as it runs.
#pragma once

#include <memory>

namespace msmemscope {

// The calling thread's, one of each type. Where destructors of other libraries come here after it has ended, they get
// another one, which stays.
template <typename State>
State& state_of_thread() {
    static __thread State* state = nullptr;
    struct End {
        void operator()(State* ended) const {
            state = nullptr;
            delete ended;
        }
    };
    if (__builtin_expect(state == nullptr, 0)) {
        static thread_local std::unique_ptr<State, End> owner;
        state = new State();
        owner.reset(state);
    }
    return *state;
}

}  // namespace msmemscope

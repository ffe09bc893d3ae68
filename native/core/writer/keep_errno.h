// Puts errno back at the end of a block: the observed program must not see what our system calls left.
#pragma once

#include <cerrno>

namespace msmemscope {

class KeepErrno {
public:
    KeepErrno() noexcept : saved_(errno) {}
    ~KeepErrno() { errno = saved_; }
    KeepErrno(const KeepErrno&) = delete;
    KeepErrno& operator=(const KeepErrno&) = delete;

private:
    int saved_;
};

}  // namespace msmemscope

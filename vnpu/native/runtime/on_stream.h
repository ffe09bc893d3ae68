// How a function of the host is put on a stream: it is called at once, unless the stream has a detour (stream_work.h).
#pragma once

#include <functional>
#include <utility>

#include "stream_work.h"

namespace virtual_npu {

// Takes over the context of the caller for the function. An error that it returns when the caller is gone makes the
// device fail, with the text that the function has left. Returns the status for the caller.
SHARED int put_function(Stream& stream, std::function<int()> function);

// 0, or the same number with a text for the caller, of what stream_work.h and graph.h return.
SHARED int stream_result(int status, const char* what);

// `body` returns a status and owns what it needs: it may run later, and more than once.
template <typename Body>
int on_stream(const void* handle, Body body) {
    Stream* stream = stream_of(handle);
    return runs_now(stream) ? body() : put_function(*stream, std::move(body));
}

}  // namespace virtual_npu

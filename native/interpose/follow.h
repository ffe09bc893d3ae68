// Following live blocks in a process that has not said yet what it wants. Nothing is collected and nothing is written.
// start() then knows which blocks are alive, and brings the real settings.
#pragma once

namespace msmemscope {

// From now on. For the Python package, when it is imported.
__attribute__((visibility("default"))) void follow_live_blocks() noexcept;

// From the beginning, where the user preloads the libraries by their names. Each of them calls this.
__attribute__((visibility("default"))) void named_library_loaded() noexcept;

}  // namespace msmemscope

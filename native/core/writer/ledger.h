// The ledger of a launch: what processes tell their launcher (src/msmemscope/launch/ledger.py reads it).
#pragma once

namespace msmemscope {

// Appends "<kind>\t<process id>\t<text>\n". Does nothing without a launcher, or where the launch is over: a daemon's
// child, for example. A failure costs a line of the coverage statement.
void append_to_ledger(const char* kind, const char* text) noexcept;

}  // namespace msmemscope

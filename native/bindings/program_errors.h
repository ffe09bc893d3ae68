// Exceptions that a call of ours meets while the program is at work.
#pragma once

namespace msmemscope {

// Ends the exception that is set. One that a call like ours can raise is dropped. Any other one is the program's: its
// signal handlers run inside of Python code that we call too. It is raised again as soon as the program goes on.
void end_exception();

}  // namespace msmemscope

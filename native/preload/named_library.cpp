// One of the libraries that exist for their name: it brings libmsmemscope_core.so along, which lies beside it. Only
// users preload them, so that blocks can be followed before the program imports msmemscope; the launcher preloads the
// core.
#include "interpose/follow.h"

#define MSMEMSCOPE_TEXT(name) #name
#define MSMEMSCOPE_NOTE(name) MSMEMSCOPE_TEXT(name)

// Not looked up by anybody; tells the files apart.
__attribute__((used)) static const char kName[] = "msmemscope: " MSMEMSCOPE_NOTE(MSMEMSCOPE_LIBRARY);

__attribute__((constructor)) static void load() { msmemscope::named_library_loaded(); }

// libplatform.so, libc_sec.so and libnnopbase.so: a library of MindSpore is linked to them and calls nothing of them.
// They have to exist under their own names.
extern "C" __attribute__((visibility("hidden"))) const char virtual_npu_library_without_functions = 0;

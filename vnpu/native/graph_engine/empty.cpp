// libge_runner.so, libgraph.so and libacl_tdt_channel.so: torch_npu is linked to them and, for eager execution, uses
// nothing from them. They have to exist under their own names.
extern "C" __attribute__((visibility("hidden"))) const char virtual_npu_library_without_functions = 0;

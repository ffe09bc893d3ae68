# Builds for aarch64 on another machine: cmake --toolchain packaging/aarch64.cmake. With qemu-user the tests run, too.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
find_program(MSMEMSCOPE_EMULATOR NAMES qemu-aarch64-static qemu-aarch64)
if(MSMEMSCOPE_EMULATOR)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${MSMEMSCOPE_EMULATOR} -L /usr/aarch64-linux-gnu)
endif()

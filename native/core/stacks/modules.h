// Which files were mapped where, so that native stacks can be read afterwards.
#pragma once

#include "interpose/elf_image.h"
#include "core/writer/recorder.h"

namespace msmemscope {

// Remembers the image; it is defined in the log as soon as native stacks are taken.
void note_module(const ElfImage& image) noexcept;

// Defines what was noted and not yet defined in this process's capture.
void define_modules(const RecordingScope& scope) noexcept;

}  // namespace msmemscope

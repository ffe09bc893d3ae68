#define _GLIBCXX_USE_CXX11_ABI 0
#include "tests/shared_strings.h"

#include <string>

namespace {

std::string same(const void* text) { return *static_cast<const std::string*>(text); }
std::string doubled(const void* text) { return same(text) + same(text); }

}  // namespace

SharedString::SharedString(const char* text) : string_(new std::string(text)) {}
SharedString::~SharedString() { delete static_cast<std::string*>(string_); }

AnyFunction shared_text_function() { return reinterpret_cast<AnyFunction>(&same); }
AnyFunction shared_doubled_text_function() { return reinterpret_cast<AnyFunction>(&doubled); }

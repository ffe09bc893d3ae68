// std::string in its older layout, made by libstdc++ itself.
#pragma once

// A string that lives as long as this.
class SharedString {
public:
    explicit SharedString(const char* text);
    ~SharedString();
    SharedString(const SharedString&) = delete;
    SharedString& operator=(const SharedString&) = delete;
    const void* string() const { return string_; }

private:
    void* string_;
};

using AnyFunction = void (*)();

// Functions that take such a string's address and return one by value: the same, and the text twice.
AnyFunction shared_text_function();
AnyFunction shared_doubled_text_function();

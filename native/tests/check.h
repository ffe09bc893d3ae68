// The least a test needs: a check that says what failed and where, and a scratch folder.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
            std::exit(1);                                                                      \
        }                                                                                      \
    } while (false)

#define CHECK_EQUAL(left, right)                                                                           \
    do {                                                                                                   \
        const auto left_value = (left);                                                                    \
        const auto right_value = (right);                                                                  \
        if (!(left_value == right_value)) {                                                                \
            std::fprintf(stderr, "%s:%d: %s is %lld, expected %s = %lld\n", __FILE__, __LINE__, #left,     \
                         static_cast<long long>(left_value), #right, static_cast<long long>(right_value)); \
            std::exit(1);                                                                                  \
        }                                                                                                  \
    } while (false)

// A folder that is removed at the end.
class ScratchFolder {
public:
    ScratchFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "msmemscope_test_XXXXXX").string();
        CHECK(mkdtemp(name.data()) != nullptr);
        path_ = name;
    }
    ~ScratchFolder() { std::filesystem::remove_all(path_); }
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;
    const std::filesystem::path& path() const { return path_; }
    // Settings for a capture in it; more lines can be added, later ones hold.
    std::string settings(const std::string& more = "") const {
        return "output=" + path_.string() + "\nevents=alloc,free,launch,access\ncollect_mode=immediate\ndevices=cpu\n" +
               more;
    }

private:
    std::filesystem::path path_;
};

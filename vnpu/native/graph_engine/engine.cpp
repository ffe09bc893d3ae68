// libge_runner.so: there is no graph engine. Who asks for it is told so; the texts of its statuses are kept.
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

namespace ge {

class StatusFactory {
public:
    static StatusFactory* Instance();

private:
    std::map<uint32_t, std::string> texts_;  // filled by code that callers were compiled with
};

StatusFactory* StatusFactory::Instance() {
    static auto* factory = new StatusFactory();
    return factory;
}

constexpr uint32_t kFailed = 0xFFFFFFFF;

uint32_t GEInitialize(const std::map<std::string, std::string>&) {
    std::fprintf(stderr, "[vnpu] GEInitialize: there is no graph engine in the virtual NPU; only eager execution\n");
    return kFailed;
}

}  // namespace ge

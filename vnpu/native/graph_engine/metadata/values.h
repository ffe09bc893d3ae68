// Values of the graph engine that C++ programs hold and pass on: names, shapes, descriptions of tensors, tensors on the
// host. MindSpore describes operators with them. Each is a class with one shared pointer, as its callers were compiled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

// These names and their layouts are those of an interface of C++ that others define.
namespace ge {

enum DataType : int { DT_FLOAT = 0 };
enum Format : int { FORMAT_ND = 2 };

using Status = uint32_t;
constexpr Status kGraphSuccess = 0;
constexpr Status kGraphFailed = 0xFFFFFFFF;

class AscendString {
public:
    AscendString() = default;
    AscendString(const char* text);
    const char* GetString() const;

private:
    std::shared_ptr<std::string> text_;
};

class Shape {
public:
    Shape();
    explicit Shape(const std::vector<int64_t>& sizes);
    size_t GetDimNum() const;
    int64_t GetDim(size_t dimension) const;
    std::vector<int64_t> GetDims() const;
    Status SetDim(size_t dimension, int64_t size);

private:
    std::shared_ptr<std::vector<int64_t>> sizes_;
};

class TensorDesc {
public:
    TensorDesc();
    explicit TensorDesc(Shape shape, Format format = FORMAT_ND, DataType type = DT_FLOAT);
    TensorDesc(const TensorDesc& other);
    TensorDesc(TensorDesc&& other);
    TensorDesc& operator=(const TensorDesc& other);
    TensorDesc& operator=(TensorDesc&& other);
    Shape GetShape() const;
    Format GetFormat() const;
    DataType GetDataType() const;
    void SetShape(const Shape& shape);
    void SetOriginShape(const Shape& shape);
    void SetFormat(Format format);
    void SetOriginFormat(Format format);
    void SetDataType(DataType type);
    void SetRealDimCnt(int64_t count);

private:
    struct Description;
    std::shared_ptr<Description> description_;
};

class Tensor {
public:
    Tensor();
    explicit Tensor(const TensorDesc& description);
    Tensor(const TensorDesc& description, const uint8_t* data, size_t bytes);
    TensorDesc GetTensorDesc() const;
    uint8_t* GetData();
    size_t GetSize() const;
    Status SetData(const uint8_t* data, size_t bytes);
    Status SetData(uint8_t* data, size_t bytes, const std::function<void(uint8_t*)>& release);
    Status SetData(const std::string& text);
    Status SetData(const std::vector<std::string>& texts);

private:
    struct Contents;
    std::shared_ptr<Contents> contents_;
};

}  // namespace ge
